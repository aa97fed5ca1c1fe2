"""Draw what is left of a collective's power: for every model and data set, how far each way lowers the goal loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from oar.pictures.colours import BLACK, BLUE, GREEN, GREY, ORANGE, SKY
from oar_paper.black_boxes.study import WAYS, Cell, Outside
from oar_paper.figures.style import styled

LOOKS = {
    "white box": (BLACK, ""),
    "surrogates": (ORANGE, "//"),
    "public surrogates": (SKY, "\\\\"),
    "search": (GREEN, ".."),
    "both": (BLUE, ""),
}


def draw_outside(found: Outside) -> Figure:
    """Return the figure: a row of bars a data set, a group a model."""
    data = list(dict.fromkeys(cell.data for cell in found.cells))
    with styled():
        figure = Figure(figsize=(8.6, 0.9 + 2.5 * len(data)), layout="constrained")
        grid: Any = figure.subplots(len(data), 1, squeeze=False)
        for axes, name in zip(grid[:, 0], data, strict=True):
            _draw(axes, [cell for cell in found.cells if cell.data == name], found)
            axes.set_title(found.titles[name], loc="left")
        figure.supylabel("share of the goal loss that is taken off (audited mean)", fontsize=9.0)
        handles = [
            Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=way) for way, (colour, hatch) in LOOKS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.6)
    return figure


def _draw(axes: Axes, cells: list[Cell], found: Outside) -> None:
    width = 0.8 / len(WAYS)
    for group, cell in enumerate(cells):
        before = float(np.nanmean([one.before for tried in cell.attempts.values() for one in tried]))
        for place, way in enumerate(WAYS):
            at = group + (place - (len(WAYS) - 1) / 2) * width
            if way not in cell.attempts or np.isnan(cell.fall(way)):
                axes.text(at, 0.01, "–", ha="center", va="bottom", color=GREY, fontsize=8)
                continue
            share, (colour, hatch) = cell.fall(way) / before, LOOKS[way]
            axes.bar(at, share, 0.92 * width, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4)
            axes.text(
                at,
                max(share, 0.0) + 0.015,
                str(cell.successes(way)),
                ha="center",
                va="bottom",
                fontsize=7.5,
                color=GREY,
            )
    axes.axhline(0.0, color=GREY, linewidth=0.7)
    axes.set_xticks(range(len(cells)), [found.titles[cell.model] for cell in cells])
    axes.set_ylim(top=1.12)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
