"""Draw pictures before and after a move, with their difference, beside the query that the moves are made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from oar.report.style import BLUE, GREY, ORANGE, styled

Array = NDArray[np.float64]
DIFFERENCE_COLOURS = "RdBu_r"


def draw_strip(
    before: Array,
    after: Array,
    headings: Sequence[str],
    query: Array,
    query_heading: str,
    probabilities: tuple[Array, Array],
    class_names: Sequence[str],
    title: str,
) -> Figure:
    """Return the strip: pictures (m, h, w) in columns, rows before / after / difference, and the query on the left."""
    with styled():
        columns = len(before)
        layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02)
        figure = Figure(figsize=(2.9 + 0.86 * columns, 3.35), layout=layout)
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5)
        parts: Any = figure.subfigures(1, 2, width_ratios=[2.5, 0.86 * columns + 0.4])
        left, right = parts
        _draw_query(left, query, query_heading, probabilities, class_names)
        grid: Any = right.subplots(3, columns, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
        largest = float(np.abs(after - before).max())
        for column, (old, new) in enumerate(zip(before, after, strict=True)):
            for row, picture in enumerate((old, new)):
                _picture(grid[row, column], picture, "gray_r", 0.0, 1.0)
            _picture(grid[2, column], new - old, DIFFERENCE_COLOURS, -largest, largest)
            grid[0, column].set_title(headings[column], fontsize=8.5, linespacing=1.3)
        for row, name in enumerate(("before", "after", "difference")):
            grid[row, 0].set_ylabel(name, fontsize=9)
        scale = ScalarMappable(Normalize(-largest, largest), DIFFERENCE_COLOURS)
        bar = right.colorbar(scale, ax=grid[2, :].tolist(), fraction=0.02, pad=0.01, aspect=9)
        bar.set_label("ink", fontsize=8)
        bar.ax.tick_params(labelsize=7, length=2)
    return figure


def _draw_query(
    figure: Any, query: Array, heading: str, probabilities: tuple[Array, Array], names: Sequence[str]
) -> None:
    picture, bars = figure.subplots(2, 1, height_ratios=[1.0, 1.1])
    _picture(picture, query, "gray_r", 0.0, 1.0)
    picture.set_title(heading, fontsize=8.5, linespacing=1.3)
    places = np.arange(len(names))
    for shift, values, colour, hatch, label in (
        (-0.2, probabilities[0], ORANGE, "", "before"),
        (0.2, probabilities[1], BLUE, "////", "after the refit"),
    ):
        bars.bar(places + shift, values, 0.4, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=label)
    bars.set_xticks(places, list(names))
    bars.set(ylabel="probability", xlabel="class", ylim=(0, 1.25 * max(values.max() for values in probabilities)))
    bars.tick_params(length=2, labelsize=7.5)
    bars.legend(loc="upper right", fontsize=7.5, handlelength=1.2, borderaxespad=0)


def _picture(axes: Axes, picture: Array, colours: str, low: float, high: float) -> None:
    axes.imshow(picture, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.5)
