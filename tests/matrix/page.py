"""The page docs/matrix.md: which kind of problem answers which question, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matrix.kinds import KINDS
from matrix.running import ANSWERED, CRASHED, LATE, REFUSED
from matrix.verbs import ORDER

PAGE = Path(__file__).resolve().parents[2] / "docs" / "matrix.md"
MARKS = {ANSWERED: "✓", LATE: "…", REFUSED: "–", CRASHED: "✗"}
HEAD = """# What is answered

Every kind of problem below was asked every question: the problems are small, each question has {limit:g} seconds, and
nothing is given but the problem or its plan. {answered} of {asked} cells are answered. ✓: answered; …: not within the
limit; –: refused, for the reason below the table{crashed}. `python -m tests.matrix --page` asks everything again and
writes this page; `python -m tests.matrix --kind "relabel" --verb credit` asks one question.
"""


def page(rows: Iterable[Sequence[Any]], limit: float) -> str:
    """Return the page of outcomes: (kind, verb, word, seconds, said) each."""
    found = {(kind, verb): (word, said) for kind, verb, word, _, said in rows}
    kinds = [kind for kind in KINDS if any(kind == one for one, _ in found)]
    verbs = [verb for verb in ORDER if any(verb == one for _, one in found)]
    words = [word for word, _ in found.values()]
    crashed = "; ✗: an error of this package" if CRASHED in words else ""
    lines = [HEAD.format(limit=limit, answered=words.count(ANSWERED), asked=len(words), crashed=crashed)]
    lines += [_row("", [f"`{verb}`" if " " not in verb else verb for verb in verbs]), "| --- " * (len(verbs) + 1) + "|"]
    for kind in kinds:
        lines.append(_row(kind, [MARKS[found[kind, verb][0]] if (kind, verb) in found else "" for verb in verbs]))
    for word, title in ((REFUSED, "What is refused"), (LATE, "What takes longer"), (CRASHED, "Errors")):
        lines += _below(title, {place: said for place, (each, said) in found.items() if each == word})
    return "\n".join(lines) + "\n"


def _below(title: str, found: dict[tuple[str, str], str]) -> list[str]:
    """Return a section with a sentence for each reason, and the cells that it is the reason for."""
    if not found:
        return []
    cells: dict[str, dict[str, list[str]]] = {}
    for (kind, verb), said in found.items():
        cells.setdefault(said, {}).setdefault(verb, []).append(kind)
    lines = ["", f"## {title}", ""]
    for said, verbs in cells.items():
        who = "; ".join(f"**{verb}** of {', '.join(kinds)}" for verb, kinds in verbs.items())
        lines.append(f"* {who}: {_plain(said)}")
    return lines


def _row(first: str, others: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(others)} |"


def _plain(said: str) -> str:
    """Return a message as text: what Markdown would take for markup is escaped.

    >>> _plain("oar.Best(50): must be <a mask>")
    'oar.Best(50): must be \\\\<a mask>'
    """
    for mark in "\\`*_[]<|$":
        said = said.replace(mark, f"\\{mark}")
    return said
