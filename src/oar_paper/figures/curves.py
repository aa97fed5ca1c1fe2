"""Lines and bands on axes: losses of the ways of recourse, and spreads over many cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from oar_paper.figures.style import LINES

Array = NDArray[np.float64]


def draw_line(axes: Axes, places: Array, losses: Array, way: str) -> None:
    """Draw one way of recourse as a line in its own colour and dashes."""
    line = LINES[way]
    axes.plot(places, losses, color=line.colour, linestyle=line.dashes, linewidth=line.width, label=line.label)


def draw_flip(axes: Axes, place: float | None, loss: float | None, way: str) -> None:
    """Mark where success begins, with the way's own marker; nothing if it never does."""
    if place is None or loss is None:
        return
    line = LINES[way]
    # The individual's and the collective's marks often coincide: the first is larger and open, so both are seen.
    open_mark = way == "individual"
    axes.plot(
        [place],
        [loss],
        marker=line.marker,
        markersize=9.5 if open_mark else 6.5,
        markerfacecolor="none" if open_mark else line.colour,
        markeredgecolor=line.colour if open_mark else "white",
        markeredgewidth=1.4 if open_mark else 0.9,
        linestyle="none",
        zorder=5,
        clip_on=False,
    )


def draw_spread(axes: Axes, places: Array, band: Spread, colour: str, dashes: Any = "-") -> None:
    """Draw a median with its quartile band, and the least and greatest values as thin lines."""
    axes.fill_between(places, band.lower, band.upper, color=colour, alpha=0.22, linewidth=0)
    for edge in (band.low, band.high):
        axes.plot(places, edge, color=colour, linewidth=0.8, linestyle=":")
    axes.plot(places, band.median, color=colour, linewidth=1.8, linestyle=dashes)


@dataclass(frozen=True, eq=False)
class Spread:
    """Least value, lower quartile, median, upper quartile and greatest value; one entry a place on the axis."""

    low: Array
    lower: Array
    median: Array
    upper: Array
    high: Array


def spread(values: Array) -> Spread:
    """Return the spread of values (cases, places) over the cases.

    >>> spread(np.array([[0.0], [1.0], [5.0]])).median
    array([1.])
    """
    return Spread(*np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0], axis=0))
