"""The phase diagram: budget (or `most`) × participation → how often the goal is reached, over queries and seeds.

Darker squares have higher rates, which are also printed, and a line surrounds rates of at least one half. Missing and
failed cells are hatched; so is a square with unfinished cells, over its present colour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError
from oar.pictures.colours import BLACK, GREY, VERMILLION
from oar.pictures.numbers import number, shortened
from oar.studies.cells import MOST
from oar.studies.result import TO_COME, extent, panels_of, rates_of

if TYPE_CHECKING:
    from oar.studies.result import Study

MOST_NUMBERS = 144  # cells of a panel that have room for their number
MOST_TICKS = 12
ACROSS = 3  # panels beside each other
HALF = 0.5
LETTERS_AN_INCH = 18  # of the note below
TITLE_LETTERS, LONGEST = 12, 132  # of a panel's title: to the inch, and in all


def draw(study: Study) -> Any:
    """Return the figure."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    from oar.pictures.figures import Picture

    table = study.table()
    if not len(rates_of(table)):
        raise DataError(f"study: must have a cell that is done to be drawn, got none in {study.path}; run it first.")
    far, panels = panels_of(table)
    budgets, shares = (np.unique(table[name].astype(float)) for name in (far, "participation"))
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    wide = float(np.clip(0.52 * budgets.size, 2.6, 5.2))
    high = float(np.clip(0.44 * shares.size, 1.2, 4.2))
    figure = Picture(figsize=(across * (wide + 0.5) + 1.4, down * (high + 0.75) + 0.8), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    colours = LinearSegmentedColormap.from_list("rate", ["#F4F6F9", "#9CC3E0", "#0072B2", "#003B5C"])
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        name, cells = panels[place]
        coming = np.zeros((shares.size, budgets.size), dtype=bool)
        coming[*_places(cells[cells["status"].isin(TO_COME)], far, budgets, shares)] = True
        own = rates_of(cells)
        known = np.full((shares.size, budgets.size), np.nan)  # how often the goal is reached, where that is known
        known[*_places(own, far, budgets, shares)] = own["rate"]
        _panel(axes, known, coming, colours)
        axes.set_title(textwrap.fill(shortened(name, LONGEST), int(TITLE_LETTERS * wide)), fontsize=9.5)
        _ticks(axes, budgets, shares)
        if place % across == 0:
            axes.set_ylabel("share that takes part", fontsize=9)
        if place + across >= len(panels):
            axes.tick_params(labelbottom=True)
            what = "labels or leavers" if far == MOST else "factor on everyone's budget" if study.factors else "budget"
            axes.set_xlabel(what, fontsize=9)
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), colours), ax=list(grid.flat), fraction=0.05, pad=0.02)
    bar.set_label("share of cells with the goal", fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    figure.suptitle(f"How often the goal is reached, over {extent(table)}", fontsize=10)
    _foot(figure, table, grid.flat)
    return figure


def _places(rows: Any, far: str, budgets: Any, shares: Any) -> tuple[Any, Any]:
    """Return in which rows and columns of a panel the rows of a table are."""
    across = rows[far].astype(float)
    return np.searchsorted(shares, rows["participation"]), np.searchsorted(budgets, across)  # NaN is last


def _panel(axes: Any, rates: Any, coming: Any, colours: Any) -> None:
    """Draw one model's squares: rates and `coming`, whether cells are still to come, are (shares, budgets)."""
    down, across = rates.shape
    axes.set_facecolor("white")
    axes.imshow(np.ma.masked_invalid(rates), cmap=colours, vmin=0, vmax=1, origin="lower", aspect="auto")
    for row, column in np.argwhere(np.isnan(rates) | coming):
        axes.fill(
            [column - 0.5, column + 0.5, column + 0.5, column - 0.5],
            [row - 0.5, row - 0.5, row + 0.5, row + 0.5],
            facecolor="none",
            edgecolor="#C8C8C8",
            hatch="////" if np.isnan(rates[row, column]) else "//",
            linewidth=0,
        )
    if rates.size <= MOST_NUMBERS:
        for (row, column), rate in np.ndenumerate(rates):
            if not np.isnan(rate):
                colour = "white" if rate > 0.55 else BLACK if rate else GREY
                axes.text(column, row, f"{rate:.0%}", ha="center", va="center", fontsize=7, color=colour)
    _line(axes, rates)
    axes.set(xlim=(-0.5, across - 0.5), ylim=(-0.5, down - 0.5))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=8, colors="#444444")


def _line(axes: Any, rates: Any) -> None:
    """Draw where the goal begins to be reached at least every second time: along the edges of cells."""
    high, known = rates >= HALF, ~np.isnan(rates)
    line: dict[str, Any] = {"color": VERMILLION, "linewidth": 2, "solid_capstyle": "round"}
    for row, column in np.argwhere((high[:, 1:] != high[:, :-1]) & known[:, 1:] & known[:, :-1]):
        axes.plot([column + 0.5] * 2, [row - 0.5, row + 0.5], **line)
    for row, column in np.argwhere((high[1:] != high[:-1]) & known[1:] & known[:-1]):
        axes.plot([column - 0.5, column + 0.5], [row + 0.5] * 2, **line)


def _ticks(axes: Any, budgets: Any, shares: Any) -> None:
    for values, place, words in (
        (budgets, axes.set_xticks, lambda value: "–" if np.isnan(value) else number(float(f"{value:.3g}"))),
        (shares, axes.set_yticks, lambda value: "as given" if np.isnan(value) else f"{100 * value:.3g} %"),
    ):
        shown = np.arange(0, values.size, -(-values.size // MOST_TICKS))
        place(shown, [words(values[at]) for at in shown])


def _foot(figure: Any, table: Any, panels: Iterable[Any]) -> None:
    """Explain lines, hatching and missing cells below the figure."""
    drawn = list(panels)
    said = ["orange line: from there on, at least every second time"] if any(axes.lines for axes in drawn) else []
    said += ["hatched: not asked for, failed or not done"] if any(axes.patches for axes in drawn) else []
    failed, left = int((table["status"] == "failed").sum()), int(table["status"].isin(TO_COME).sum())
    said += [f"{failed:,} cells failed and are left out"] if failed else []
    said += [f"{left:,} of {len(table):,} cells are not done yet"] if left else []
    across = int(LETTERS_AN_INCH * figure.get_figwidth())
    figure.supxlabel(textwrap.fill("; ".join(said), across), fontsize=7.5, color=GREY, x=0.01, ha="left")
