"""The picture of the house, docs/figures/house.svg, drawn from the import graph of the rooms.

    python tools/house.py            draws it
    python tools/house.py --check    fails where the picture is not of the present rooms and imports

A room stands one floor above the highest room that it imports. An arrow says "imports"; arrows that follow from others
are left out (transitive reduction), and so are those into the cellar, which everybody may use. Boxes say how many
lines a room has, to the nearest hundred.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "figures" / "house.svg"
WIDE, HIGH, FLOOR, GAP, LANE, MARGIN = 172, 58, 92, 14, 10, 24  # pixels: boxes, floors, what is between, arrows
SWEEPS = 40
LONGEST = 32  # letters of a caption that fit into a box
TINTS = {"solvers": "#fde8d0", "signals": "#fde8d0", "referee": "#d8ecd9", "problem": "#dbe7f6"}
STYLE = """
svg { background: #fff } text { font: 13px system-ui, sans-serif; fill: #1c2430; text-anchor: middle }
.small { font-size: 9.5px; fill: #5a6472 } .cellar { fill: #eceff3 }
rect { fill: #f8f9fb; stroke: #8a94a3; rx: 5px } path { fill: none; stroke: #7d8796; stroke-width: 1.1 }
"""


class House(NamedTuple):
    """Rooms with what each imports directly, and their floors, the cellar's below 0."""

    imports: dict[str, frozenset[str]]
    floors: dict[str, int]

    def arrows(self) -> list[tuple[str, str]]:
        """Return the imports between rooms above the cellar that do not follow from others."""

        @cache
        def below(room: str) -> frozenset[str]:
            return self.imports[room].union(*(below(one) for one in self.imports[room]))

        return [
            (room, one)
            for room, floor in sorted(self.floors.items())
            for one in sorted(self.imports[room])
            if floor > self.floors[one] >= 0 and not any(one in below(other) for other in self.imports[room])
        ]


def house() -> House:
    """Return the house as its imports make it."""
    graph = grimp.build_graph("oar", exclude_type_checking_imports=True, cache_dir=None)
    rooms = {name.split(".")[1] for name in graph.find_children("oar")} - {"__main__"}
    imports = {
        room: frozenset(
            one.split(".")[1]
            for module in {f"oar.{room}", *graph.find_descendants(f"oar.{room}")}
            for one in graph.find_modules_directly_imported_by(module)
            if "." in one and one.split(".")[1] != room
        )
        for room in rooms
    }

    @cache
    def floor(room: str) -> int:
        return 1 + max((floor(one) for one in imports[room]), default=-1)

    return House(imports, {room: floor(room) - floor("people") for room in rooms})


def placed(built: House) -> tuple[dict[str, float], list[list[str]]]:
    """Return the x of everything on the floors, and every arrow as the way that it takes, a point a floor."""
    ways = [_way(built, *arrow) for arrow in built.arrows()]
    rows: dict[int, list[str]] = {}
    for room, floor in sorted(built.floors.items()):
        rows.setdefault(floor, []).append(room)
    for way in ways:
        for number, name in enumerate(way[1:-1], start=1):
            rows[built.floors[way[0]] - number].append(name)
    beside: dict[str, list[str]] = {name: [] for row in rows.values() for name in row}
    for way in ways:
        for upper, lower in zip(way, way[1:], strict=False):
            beside[upper].append(lower)
            beside[lower].append(upper)
    where = {name: float(place) for row in rows.values() for name, place in zip(row, _spread(row, {}), strict=True)}
    for sweep in range(SWEEPS):
        for floor in sorted((one for one in rows if one >= 0), reverse=bool(sweep % 2)):
            wish = {name: _mean([where[one] for one in beside[name]] or [where[name]]) for name in rows[floor]}
            rows[floor].sort(key=lambda name: (wish[name], name))
            where |= dict(zip(rows[floor], _spread(rows[floor], wish), strict=True))
    return where, ways


def _way(built: House, upper: str, lower: str) -> list[str]:
    between = range(built.floors[upper] - 1, built.floors[lower], -1)
    return [upper, *(f"{upper}>{lower}@{floor}" for floor in between), lower]


def _spread(row: list[str], wish: dict[str, float]) -> list[float]:
    """Return the x of a row's names in their order: near what each wishes, with room for all of them."""
    sizes = [LANE if "@" in name else WIDE for name in row]
    ahead = [(left + right) / 2 + GAP for left, right in zip(sizes, sizes[1:], strict=False)]
    offsets = [sum(ahead[:number]) for number in range(len(row))]
    if not wish:
        return [one - offsets[-1] / 2 for one in offsets]
    blocks: list[list[float]] = []  # pool adjacent violators: names that would overlap share one shift
    for name, offset in zip(row, offsets, strict=True):
        blocks.append([wish[name] - offset])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    shifts = [_mean(block) for block in blocks for _ in block]
    return [offset + shift for offset, shift in zip(offsets, shifts, strict=True)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def drawn(built: House) -> str:
    """Return the picture as SVG."""
    where, ways = placed(built)
    above = {name: x for name, x in where.items() if "@" in name or built.floors[name] >= 0}
    left = min(x - (0 if "@" in name else WIDE / 2) for name, x in above.items()) - MARGIN
    width = max(x + (0 if "@" in name else WIDE / 2) for name, x in above.items()) + MARGIN - left
    top = max(built.floors.values())
    height = FLOOR * (top + 1) + HIGH + 2 * MARGIN

    def spot(name: str) -> tuple[float, float]:
        floor = int(name.split("@")[1]) if "@" in name else built.floors[name]
        return where[name] - left, MARGIN + FLOOR * (top - floor)

    parts = [_arrow([spot(name) for name in way]) for way in ways]
    parts += [_box(room, *spot(room)) for room, floor in sorted(built.floors.items()) if floor >= 0]
    cellar = sorted(room for room, floor in built.floors.items() if floor < 0)
    y = height - MARGIN - HIGH
    parts.append(f'<rect class="cellar" x="{MARGIN}" y="{y}" width="{width - 2 * MARGIN:.0f}" height="{HIGH}"/>')
    parts.append(f'<text x="{width / 2:.0f}" y="{y + 20}">{escape(" · ".join(cellar))}</text>')
    parts.append(_small("the cellar, which every room may use", width / 2, y + 36))
    head = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip = f'<defs>{head}<path d="M0 0L8 4L0 8z" style="fill:#7d8796;stroke:none"/></marker></defs>'
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    title = "<title>The rooms of oar: each imports from those below it</title>"
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([start, title, f"<style>{STYLE}</style>", tip, *parts, "</svg>"]) + "\n"


def _arrow(points: list[tuple[float, float]]) -> str:
    (x, y), *rest = points
    d = f"M{x:.0f} {y + HIGH:.0f}"
    y += HIGH
    for number, (to, down) in enumerate(rest):
        d += f"C{x:.0f} {(y + down) / 2:.0f} {to:.0f} {(y + down) / 2:.0f} {to:.0f} {down - 1:.0f}"
        x, y = to, down + HIGH if number < len(rest) - 1 else down
        d += f"V{y:.0f}" if number < len(rest) - 1 else ""
    return f'<path d="{d}" marker-end="url(#tip)"/>'


def _box(room: str, x: float, y: float) -> str:
    tint = f' style="fill:{TINTS[room]}"' if room in TINTS else ""
    rect = f'<rect x="{x - WIDE / 2:.0f}" y="{y:.0f}" width="{WIDE}" height="{HIGH}"{tint}/>'
    name = f'<text x="{x:.0f}" y="{y + 19:.0f}">{room}</text>'
    return rect + name + "".join(_small(said, x, y + 34 + 14 * row) for row, said in enumerate(captions(room)))


def _small(said: str, x: float, y: float) -> str:
    return f'<text class="small" x="{x:.0f}" y="{y:.0f}">{escape(said)}</text>'


def captions(room: str) -> tuple[str, str]:
    """Return what a room is for, as its docstring begins, and how many lines it has."""
    folder = ROOT / "src" / "oar" / room
    files = list(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in files)
    first = (folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")).read_text(encoding="utf-8")
    said = re.split("[:;,.(]", ast.get_docstring(ast.parse(first)) or "")[0].replace("`", "").lower()
    size = f"{round(lines, -2):,} lines" if lines >= 50 else f"{lines} lines"
    return said if len(said) <= LONGEST else "", size


def _rooms(picture: str) -> str:
    """Return a picture without what is written small, which changes with every line of code."""
    return re.sub('<text class="small".*?</text>', "", picture)


def main() -> int:
    """Draw the picture, or return 1 where the one that is there is not of the present house."""
    parsing = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parsing.add_argument("--check", action="store_true", help="only compare")
    made = drawn(house())
    if not parsing.parse_args().check:
        PICTURE.write_text(made, encoding="utf-8")
        return 0
    current = PICTURE.exists() and _rooms(PICTURE.read_text(encoding="utf-8")) == _rooms(made)
    if not current:
        print("docs/figures/house.svg is not of the present rooms: run python tools/house.py", file=sys.stderr)
    return int(not current)


if __name__ == "__main__":
    sys.exit(main())
