"""Draw Figure 2 for every model: a row a model, two columns a data set (against the budget, and participation)."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from oar.pictures.colours import BLACK, GREY, ORANGE
from oar_paper.figures.style import LINES, Line, styled
from oar_paper.other_models.study import Cell, Extended, Point

STYLES = {
    "one_shot": Line("collective, one-shot", ORANGE, (0, (1, 1.2)), "^", 1.5),
    "collective": LINES["collective"],
    "individual": LINES["individual"],
}
DISAGREES = 0.02  # of the loss before any move: claims farther from the audit than this are drawn


def draw_extended(extended: Extended) -> Figure:
    """Return the figure."""
    names = list(extended.data)
    rows = len(extended.settings.contenders)
    with styled():
        layout = ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.05)
        figure = Figure(figsize=(0.6 + 5.8 * len(names), 0.9 + 2.0 * rows), layout=layout)
        grid: Any = figure.subplots(rows, 2 * len(names), squeeze=False)
        for column, name in enumerate(names):
            about = extended.data[name]
            grid[0, 2 * column].set_title(
                f"{about['title']} ({about['preparation']}),\n{about['pair']}: everyone takes part", pad=16
            )
            budget = extended.settings.share_budget
            grid[0, 2 * column + 1].set_title(
                f"{about['title']}: some take part,\n" rf"$\epsilon = {budget:g}$", pad=16
            )
            for row, cell in enumerate(extended.of(name)):
                _draw_budgets(grid[row, 2 * column], cell, last=row == rows - 1)
                _draw_shares(grid[row, 2 * column + 1], cell, last=row == rows - 1)
        for row, contender in enumerate(extended.settings.contenders):
            grid[row, 0].set_ylabel(f"{contender.title}", fontweight="bold", linespacing=1.25)
        figure.supylabel(r"goal loss at $x_\dagger$ (audited)", fontsize=9.0)
        figure.legend(handles=_legend(), loc="outside lower center", ncols=2 * len(names), columnspacing=2.0)
    return figure


def _draw_budgets(axes: Axes, cell: Cell, last: bool) -> None:
    for way, style in STYLES.items():
        _draw_line(axes, cell.budgets[way], style, cell.before)
    axes.set(xlim=(0, 1.03 * cell.budgets["individual"][-1].place), ylim=(0, 1.06 * cell.before))
    _finish(axes, r"budget $\epsilon$" if last else "")
    people = f"{cell.people:,} people" + (" (sample)" if cell.sampled else "")
    axes.text(0.98, 0.96, people, transform=axes.transAxes, ha="right", va="top", fontsize=8, color=GREY)


def _draw_shares(axes: Axes, cell: Cell, last: bool) -> None:
    alone = STYLES["individual"]
    for way in ("one_shot", "collective"):
        _draw_line(axes, cell.shares[way], STYLES[way], cell.before)
    axes.axhline(cell.individual.loss, color=alone.colour, linestyle=alone.dashes, linewidth=alone.width)
    if cell.break_even is not None:
        axes.plot(
            cell.break_even.at, cell.individual.loss, marker="X", color=BLACK, markersize=7.5, zorder=7, clip_on=False
        )
    words = "no break-even" if cell.break_even is None else f"break-even at {cell.break_even.at:.1%}"
    axes.text(0.98, 0.96, words, transform=axes.transAxes, ha="right", va="top", fontsize=8)
    axes.set(xlim=(0, 1.03), ylim=(0, 1.06 * cell.before))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    _finish(axes, "share that takes part" if last else "")


def _draw_line(axes: Axes, points: list[Point], style: Line, before: float) -> None:
    """Draw losses from the one without any move on, and mark every point."""
    axes.plot(
        [0.0, *(point.place for point in points)],
        [before, *(point.loss for point in points)],
        color=style.colour,
        linestyle=style.dashes,
        linewidth=style.width,
    )
    _mark(axes, points, style, before)


def _mark(axes: Axes, points: list[Point], style: Line, before: float) -> None:
    """Mark every point: filled where the goal is reached, else open; show claims that the audit does not confirm."""
    for point in points:
        if abs(point.claimed - point.loss) > DISAGREES * before:
            axes.plot([point.place] * 2, [point.claimed, point.loss], color=style.colour, linewidth=0.9, zorder=3)
            axes.plot(point.place, point.claimed, marker="x", color=style.colour, markersize=5, zorder=6, clip_on=False)
        axes.plot(
            point.place,
            point.loss,
            marker=style.marker,
            markersize=5.0,
            markerfacecolor=style.colour if point.success else "white",
            markeredgecolor=style.colour,
            markeredgewidth=1.1,
            zorder=4,
            clip_on=False,
        )


def _finish(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.grid(True, color="#E4E4E4", linewidth=0.6)
    axes.tick_params(length=2.5)


def _legend() -> list[Any]:
    def line(label: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"color": GREY, "linestyle": "none", "label": label, **look})

    ways = [
        line(
            STYLES[way].label,
            color=STYLES[way].colour,
            linestyle=STYLES[way].dashes,
            linewidth=STYLES[way].width,
            marker=STYLES[way].marker,
            markersize=5,
            markerfacecolor="white",
        )
        for way in ("individual", "collective", "one_shot")
    ]
    # Column by column, as matplotlib fills a legend.
    return [
        *ways,
        line("filled: the query gets the goal", marker="o", markersize=5),
        line("open: it does not", marker="o", markersize=5, markerfacecolor="white"),
        line("break-even (audited from there on)", marker="X", color=BLACK, markersize=7),
        line("a solver's claim, where the audit differs", marker="x", markersize=5),
    ]
