"""The command: measure, section by section, and print one table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    batching,
    beside_gradient,
    beside_scikit_learn,
    black_boxes,
    growth,
    levers,
    online_planning,
    parts,
    peers_recourse,
    questions_asked,
    refitted,
    simulation,
    sweep_cells,
    tables,
    ten_million,
    twins,
)
from benchmarks.machine import describe, machine, peak_resident
from benchmarks.rows import FULL, QUICK, Effort, Row

SECTIONS: dict[str, Callable[[Effort], Iterator[Row]]] = {
    "scikit-learn": beside_scikit_learn.rows,
    "memory": ten_million.rows,
    "sweep": sweep_cells.rows,
    "gradient": beside_gradient.rows,
    "growth": growth.rows,
    "questions": questions_asked.rows,
    "refitted": refitted.rows,
    "levers": levers.rows,
    "tables": tables.rows,
    "individual": peers_recourse.rows,
    "online planning": online_planning.rows,
    "simulation": simulation.rows,
    "black boxes": black_boxes.rows,
    "twins": twins.rows,
    "parts": parts.rows,
    "batching": batching.rows,
}
HEADINGS = ("", "measured", "quartiles", "target", "", "context")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and a tenth of the people")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="just this section (may be repeated)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything, unrounded, to FILE")
    options = parser.parse_args()

    facts, began = machine(), time.perf_counter()
    effort = QUICK if options.quick else FULL
    found: dict[str, list[Row]] = {}
    for name in options.only or SECTIONS:
        print(f"measuring: {name} …", file=sys.stderr, flush=True)
        found[name] = list(SECTIONS[name](effort))
    rows = [row for section in found.values() for row in section]
    judged = [row.passed for row in rows if row.passed is not None]

    print(describe(facts))
    print(table(found))
    seconds = time.perf_counter() - began
    resident = peak_resident()
    memory = "" if resident is None else f", at most {resident:.1f} GB of memory"
    print(f"{sum(judged)} of {len(judged)} targets met; {seconds:.0f} s{memory}. Ratios count, absolute times do not.")
    if options.json:
        sections = {name: [row.as_json() for row in section] for name, section in found.items()}
        content = {"machine": facts, "seconds": seconds, "sections": sections}
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def table(found: dict[str, list[Row]]) -> str:
    """Return the rows as aligned text under their section's name."""
    cells = [row_cells(row) for section in found.values() for row in section]
    widths = [max(len(line[column]) for line in [HEADINGS, *cells]) for column in range(len(HEADINGS))]
    lines = ["", _aligned(HEADINGS, widths)]
    for name, section in found.items():
        lines += [f"── {name} ".ljust(sum(widths), "─")]
        lines += [_aligned(row_cells(row), widths) for row in section]
    return "\n".join(lines) + "\n"


def row_cells(row: Row) -> tuple[str, ...]:
    """Return what the table shows of a row."""
    spread = "" if row.spread is None else f"{row.spread[0]:.3g}–{row.spread[1]:.3g}"
    target = "" if row.most is None else f"≤ {row.most:g}"
    mark = {True: "✓", False: "✗ missed", None: ""}[row.passed]
    value = f"{row.value:.{row.digits}g} {row.unit}".strip() if row.measured else "–"
    return row.name, value, spread, target, mark, row.context


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    name, value, *rest = cells
    shown = [name.ljust(widths[0]), value.rjust(widths[1])]
    shown += [cell.ljust(width) for cell, width in zip(rest, widths[2:], strict=True)]
    return "  ".join(shown).rstrip()


if __name__ == "__main__":
    main()
