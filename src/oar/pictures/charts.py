"""Charts as SVG, to be put into a page: they grow with it, print well, and tell nothing by colour alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oar.pictures.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from oar.pictures.markup import Markup, joined, tag
from oar.pictures.numbers import percent, shortened

WIDTH = 440  # about as wide as a phone, so that letters are as large there as elsewhere
LOOKS = (  # colour, dashes, shape of marks
    (BLUE, None, "circle"),
    (VERMILLION, "7 3", "square"),
    (GREEN, "2 3", "triangle"),
    (PURPLE, "9 3 2 3", "diamond"),
    (ORANGE, "4 4", "down"),
    (SKY, "1 2", "circle"),
)
BAR, ROW = 18, 46
LETTER = 7.2  # width of one in a note, on average; 13 px in the widest of the page's typefaces
LEFT, RIGHT, TOP, BOTTOM = 52, WIDTH - 24, 12, 232  # where curves are drawn
LEGEND = 20


@dataclass(frozen=True)
class Curve:
    """A line: what it is called, its heights (None for a gap), and where the goal is reached."""

    name: str
    heights: Sequence[float | None]
    reached: Sequence[bool]


def bars(names: Sequence[Any], values: Sequence[float], notes: Sequence[str], title: str) -> Markup:
    """Return horizontal bars from 0, each with its name above and a note behind it."""
    largest, room = max([*values, 0.0]) or 1.0, WIDTH - 6 - LETTER * max(map(len, notes), default=0)
    parts = []
    for place, (name, value, note) in enumerate(zip(names, values, notes, strict=True)):
        top, length = place * ROW, max(1.0, room * value / largest)
        parts += [
            tag("text", shortened(name, 52), x=0, y=top + 13, class_="name"),
            tag("rect", x=0, y=top + 18, width=_at(length), height=BAR, fill=BLUE),
            tag("text", note, x=_at(length + 6), y=top + 32, class_="note"),
        ]
    return _drawing(parts, ROW * len(names), title)


def before_after(name: str, before: float, after: float, title: str) -> Markup:
    """Return two shares between 0 and 1 as bars: before in grey, after in colour."""
    room, parts = WIDTH - 130, [tag("text", shortened(name, 52), x=0, y=13, class_="name")]
    for line, (word, share, colour) in enumerate((("before", before, GREY), ("after", after, BLUE))):
        high = 20 + 26 * line
        parts += [
            tag("text", word, x=0, y=high + 14, class_="note"),
            tag("rect", x=52, y=high, width=room, height=BAR, class_="empty"),
            tag("rect", x=52, y=high, width=_at(max(1.0, room * share)), height=BAR, fill=colour),
            tag("text", percent(share), x=52 + room + 6, y=high + 14, class_="note"),
        ]
    return _drawing(parts, 72, title)


def curves(
    places: Sequence[float], lines: Sequence[Curve], labels: tuple[str, str], title: str, told: Callable[[float], str]
) -> Markup:
    """Return lines over ascending shares between 0 and 1; a filled mark is a goal reached, a hollow one is not.

    `labels` say what goes across and what goes up, and `told` writes heights.
    """
    known = [height for line in lines for height in line.heights if height is not None]
    frame = _Frame(max(places) or 1.0, _round_above(max([*known, 0.0])))
    parts = frame.axes(places, labels, told)
    below = BOTTOM + 78
    for order, line in enumerate(lines):
        colour, dashes, shape = LOOKS[order % len(LOOKS)]
        pen = {"stroke": colour, "stroke_width": 2, "stroke_dasharray": dashes, "fill": "none"}
        points = [
            (frame.x(place), frame.y(height), hit)
            for place, height, hit in zip(places, line.heights, line.reached, strict=True)
            if height is not None
        ]
        high = below + LEGEND * order
        parts += [
            tag("polyline", points=" ".join(f"{_at(x)},{_at(y)}" for x, y, _ in points), **pen),
            *(_mark(shape, x, y, colour, hit) for x, y, hit in points),
            tag("polyline", points=f"{LEFT},{high} {LEFT + 40},{high}", **pen),
            _mark(shape, LEFT + 20, high, colour, True),
            tag("text", line.name, x=LEFT + 50, y=high + 4, class_="note"),
        ]
    return _drawing(parts, below + LEGEND * len(lines), title)


@dataclass(frozen=True)
class _Frame:
    """A frame that maps values to places on the drawing: both axes begin at 0."""

    farthest: float
    highest: float

    def x(self, place: float) -> float:
        return LEFT + (RIGHT - LEFT) * place / self.farthest

    def y(self, height: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * height / self.highest

    def axes(self, places: Sequence[float], labels: tuple[str, str], told: Callable[[float], str]) -> list[Markup]:
        """Return the grid, its numbers, and what the axes are."""
        parts = []
        for quarter in range(5):
            height = self.highest * quarter / 4
            y = self.y(height)
            parts.append(tag("line", x1=LEFT, x2=RIGHT, y1=_at(y), y2=_at(y), class_="grid"))
            parts.append(tag("text", told(height), x=LEFT - 6, y=_at(y + 4), class_="tick", text_anchor="end"))
        named: list[float] = []
        for place in reversed(places):
            if not named or named[-1] - place > 0.14 * self.farthest:  # else their numbers would run into each other
                named.append(place)
        for place in named:
            x = _at(self.x(place))
            parts.append(tag("text", percent(place), x=x, y=BOTTOM + 18, class_="tick", text_anchor="middle"))
        across, up = labels
        parts.append(tag("text", across, x=(LEFT + RIGHT) / 2, y=BOTTOM + 38, class_="axis", text_anchor="middle"))
        return [*parts, tag("text", up, x=(LEFT + RIGHT) / 2, y=BOTTOM + 56, class_="axis", text_anchor="middle")]


def _round_above(height: float) -> float:
    """Return the next round number, a quarter of which is round, too."""
    if height <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(height))
    return next(factor * power for factor in (1, 2, 4, 6, 8, 10) if factor * power >= height * (1 - 1e-9))


def _mark(shape: str, x: float, y: float, colour: str, filled: bool) -> Markup:
    look = {"fill": colour if filled else "#ffffff", "stroke": colour, "stroke_width": 1.6}
    r = 4.6
    if shape == "circle":
        return tag("circle", cx=_at(x), cy=_at(y), r=r, **look)
    corners = {
        "square": ((-r, -r), (r, -r), (r, r), (-r, r)),
        "triangle": ((0, -r), (r, r), (-r, r)),
        "down": ((0, r), (r, -r), (-r, -r)),
        "diamond": ((0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)),
    }[shape]
    return tag("polygon", points=" ".join(f"{_at(x + dx)},{_at(y + dy)}" for dx, dy in corners), **look)


def _drawing(parts: Sequence[Markup], height: int, title: str) -> Markup:
    # A role and a label, so that a screen reader tells the title and not every line.
    return tag("svg", joined(parts), viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=title)


def _at(place: float) -> str:
    return f"{place:.2f}"
