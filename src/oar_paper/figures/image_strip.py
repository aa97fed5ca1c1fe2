"""Draw pictures before and after a move, with their difference, beside the query that the moves are made for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from oar.pictures.colours import BLUE, GREY, ORANGE
from oar_paper.figures.style import styled

Array = NDArray[np.float64]
DIFFERENCE_COLOURS = "RdBu_r"

# The layout is a plain grid, in inches, from the lower left corner.
SIZE, GAP = 0.86, 0.09
LEFT, BOTTOM, ABOVE, RIGHT = 2.95, 0.12, 0.72, 0.72
HEIGHT = BOTTOM + 3 * SIZE + 2 * GAP + ABOVE
QUERY_SIZE = 1.2


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
    columns = len(before)
    width = LEFT + columns * (SIZE + GAP) - GAP + RIGHT
    largest = float(np.abs(after - before).max())
    with styled():
        figure = Figure(figsize=(width, HEIGHT))
        figure.text(0.12 / width, 1 - 0.08 / HEIGHT, title, va="top", fontsize=9.5)
        _draw_query(figure, query, query_heading, probabilities, class_names)
        for column, (old, new) in enumerate(zip(before, after, strict=True)):
            for row, (name, picture) in enumerate((("before", old), ("after", new), ("difference", new - old))):
                left, bottom = LEFT + column * (SIZE + GAP), BOTTOM + (2 - row) * (SIZE + GAP)
                axes = _axes(figure, left, bottom, SIZE, SIZE)
                if name == "difference":
                    _picture(axes, picture, DIFFERENCE_COLOURS, -largest, largest)
                else:
                    _picture(axes, picture, "gray_r", 0.0, 1.0)
                if row == 0:
                    axes.set_title(headings[column], fontsize=8.5, linespacing=1.3)
                if column == 0:
                    axes.set_ylabel(name, fontsize=9)
        scale = ScalarMappable(Normalize(-largest, largest), DIFFERENCE_COLOURS)
        bar = figure.colorbar(scale, cax=_axes(figure, width - RIGHT + GAP, BOTTOM, 0.1, SIZE))
        bar.set_label("ink", fontsize=8, labelpad=2)
        bar.ax.tick_params(labelsize=7, length=2)
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _draw_query(
    figure: Figure, query: Array, heading: str, probabilities: tuple[Array, Array], names: Sequence[str]
) -> None:
    picture = _axes(figure, 1.5 - QUERY_SIZE / 2, HEIGHT - ABOVE - QUERY_SIZE, QUERY_SIZE, QUERY_SIZE)
    _picture(picture, query, "gray_r", 0.0, 1.0)
    picture.set_title(heading, fontsize=8.5, linespacing=1.3)
    bars = _axes(figure, 0.6, 0.45, 1.8, HEIGHT - ABOVE - QUERY_SIZE - 0.55)
    places = np.arange(len(names))
    for shift, values, colour, hatch, label in (
        (-0.2, probabilities[0], ORANGE, "", "before"),
        (0.2, probabilities[1], BLUE, "////", "after the refit"),
    ):
        bars.bar(places + shift, values, 0.4, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=label)
    bars.set_xticks(places, list(names))
    bars.set(ylabel="probability", xlabel="class", ylim=(0, 1.3 * max(values.max() for values in probabilities)))
    bars.tick_params(length=2, labelsize=7.5)
    bars.legend(loc="upper right", fontsize=7.5, handlelength=1.2, borderaxespad=0)


def _picture(axes: Axes, picture: Array, colours: str, low: float, high: float) -> None:
    axes.imshow(picture, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.5)
