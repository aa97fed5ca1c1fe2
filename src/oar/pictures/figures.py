"""Figures of matplotlib, without pyplot: they belong to whoever asked for them, and nothing stays behind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from oar.pictures.colours import BLACK, BLUE, CLASS_COLOURS, CLASS_MARKERS, GREY
from oar.pictures.numbers import number, percent, shortened

Array = NDArray[np.float64]
MOST_DRAWN = 2_000  # people on a map; more would be a blot
MOST_COLUMNS = 12
ARROW: Any = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0025, "headwidth": 4.5, "alpha": 0.8}


class Picture(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


@dataclass(frozen=True, eq=False)
class PlanePositions:
    """Positions of people in the plane."""

    points: Array  # points, moves: (n, 2)
    moves: Array
    codes: NDArray[np.integer]  # (n,), places in `classes`
    classes: tuple[str, ...]
    queries: Array  # (q, 2), who asks
    query_move: Array  # (2,), of the first


def draw_moves(places: PlanePositions, names: tuple[str, str], title: str) -> Figure:
    """Return a map: everyone with an arrow to where it goes, and the query as a star."""
    figure = Picture(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    size = len(places.points)
    shown = np.unique(np.linspace(0, size - 1, min(size, MOST_DRAWN)).astype(np.intp))
    for code, name in enumerate(places.classes):
        some = shown[places.codes[shown] == code]
        if not some.size:
            continue
        colour, marker = CLASS_COLOURS[code % len(CLASS_COLOURS)], CLASS_MARKERS[code % len(CLASS_MARKERS)]
        here = places.points[some]
        axes.plot(*here.T, marker, color=colour, markersize=4, alpha=0.75, label=name)
        moving = places.moves[some].any(axis=1)
        axes.quiver(*here[moving].T, *places.moves[some][moving].T, color=colour, **ARROW)
    axes.plot(*places.queries.T, "*", color=BLACK, markersize=14, label="who asks")
    if places.query_move.any():
        end = places.queries[0] + places.query_move
        axes.quiver(*places.queries[0], *places.query_move, color=BLACK, **ARROW)
        axes.update_datalim([end])
    axes.update_datalim(places.points[shown] + places.moves[shown])
    axes.autoscale_view()
    axes.set(xlabel=names[0], ylabel=names[1], title=title)
    axes.legend(frameon=False)
    if len(shown) < size:
        axes.text(0.0, -0.14, f"{len(shown):,} of {size:,} people are shown", transform=axes.transAxes, color=GREY)
    return figure


def draw_efforts(
    columns: Sequence[tuple[str, float, int]], change: tuple[float, float], what: str, title: str
) -> Figure:
    """Return columns (name, effort, how many people change it; most effort first), beside a number before and after."""
    figure = Picture(figsize=(8.0, 1.6 + 0.3 * min(len(columns), MOST_COLUMNS)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1.2))
    first = list(columns[:MOST_COLUMNS])
    places = np.arange(len(first))[::-1]
    left.barh(places, [effort for _, effort, _ in first], color=BLUE)
    left.set_yticks(places, [shortened(name, 28) for name, _, _ in first])
    for place, (_, effort, people) in zip(places, first, strict=True):
        left.annotate(f"{people:,}", (effort, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
    left.set(xlabel="effort in all (behind bars: people)")
    left.margins(x=0.16)
    if not first:
        left.text(0.5, 0.5, "nobody moves", ha="center", va="center", transform=left.transAxes)
    chances = "probability" in what
    drawn = [value if np.isfinite(value) else 0.0 for value in change]
    right.bar(["before", "after"], drawn, color=[GREY, BLUE])
    for place, value in enumerate(change):
        said = percent(value) if chances else number(value)
        right.annotate(said, (place, drawn[place]), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    right.set(ylabel=what)
    if chances:
        right.set_ylim(0, 1.1)
    else:
        right.margins(y=0.16)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    return figure
