"""The style of scenarios' drawings: sizes of letters, labels at the ends of lines, and a model's boundary."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oar.pictures.colours import GREY
from oar.worlds.protocol import Array

LETTERS = {"title": 11.5, "label": 10.5, "tick": 9.5, "note": 9.5}  # points; legible where 10 inches are 800 pixels
LETTER = 0.077  # inches that a letter of a note takes on average
GRID = "#E4E4E4"
FINE = 121  # places across and up at which a model is asked


def tidy(axes: Any, title: str, across: str, up: str) -> None:
    """Give axes their words, and take away what is not needed."""
    axes.set_title(title, fontsize=LETTERS["title"], loc="left")
    axes.set_xlabel(across, fontsize=LETTERS["label"])
    axes.set_ylabel(up, fontsize=LETTERS["label"])
    axes.tick_params(labelsize=LETTERS["tick"])
    axes.spines[["top", "right"]].set_visible(False)


def as_percentages(axes: Any) -> None:
    """Show shares as percentages, from 0 to 100 %."""
    axes.set_ylim(-0.02, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(True, axis="y", color=GRID, linewidth=0.7)


def band(axes: Any, places: Sequence[float], spreads: Sequence[Mapping[str, float]], **look: Any) -> float:
    """Draw means as a line, with least and greatest as a band; return the last mean."""
    means = [part["mean"] for part in spreads]
    axes.fill_between(
        places,
        [part["least"] for part in spreads],
        [part["greatest"] for part in spreads],
        color=look["color"],
        alpha=0.15,
        linewidth=0,
    )
    axes.plot(places, means, **{"linewidth": 2.2, "markersize": 5, **look})
    return float(means[-1])


def at_the_end(axes: Any, place: float, ends: Sequence[tuple[str, float, str]], apart: float) -> None:
    """Write names beside the ends of lines, (name, height, colour), moved apart where they would run together."""
    order = sorted(range(len(ends)), key=lambda number: ends[number][1])
    heights: list[float] = []
    for number in order:
        wanted = ends[number][1]
        heights.append(max(wanted, heights[-1] + apart) if heights else wanted)
    over = max(0.0, heights[-1] - 1.0)  # push down again what was pushed out at the top
    for position in range(len(heights) - 1, -1, -1):
        ceiling = 1.0 if position == len(heights) - 1 else heights[position + 1] - apart
        heights[position] = min(heights[position], ceiling) if over else heights[position]
    for number, height in zip(order, heights, strict=True):
        name, end, colour = ends[number]
        axes.annotate(
            name,
            (place, end),
            (place * 1.03 + 0.1, height),
            color=colour,
            fontsize=LETTERS["note"],
            va="center",
            annotation_clip=False,
        )


def boundary(axes: Any, chance: Any, across: tuple[float, float], up: tuple[float, float], **look: Any) -> None:
    """Draw where a chance of points (m, 2) is even."""
    grid, heights = _over(chance, across, up)
    if heights.min() < 0.5 < heights.max():
        axes.contour(*grid, heights, levels=[0.5], **look)


def shade(axes: Any, chance: Any, across: tuple[float, float], up: tuple[float, float], colour: str) -> None:
    """Colour where a chance of points (m, 2) is above even."""
    grid, heights = _over(chance, across, up)
    axes.contourf(*grid, heights, levels=[0.5, 1.5], colors=[colour], alpha=0.13)


def _over(chance: Any, across: tuple[float, float], up: tuple[float, float]) -> tuple[list[Array], Array]:
    grid = list(np.meshgrid(np.linspace(*across, FINE), np.linspace(*up, FINE)))
    return grid, np.asarray(chance(np.column_stack([part.ravel() for part in grid]))).reshape(grid[0].shape)


def footnote(figure: Any, text: str) -> None:
    """Write under it all, in as many lines as it takes."""
    lines = textwrap.fill(text, int(figure.get_figwidth() / LETTER))
    figure.supxlabel(lines, fontsize=LETTERS["note"], color=GREY, x=0.01, ha="left")
