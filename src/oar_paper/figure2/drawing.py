"""Draw Figure 2: the paper's pair beside all ordered pairs, against the budget and against participation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from oar.pictures.colours import BLACK, GREY, PURPLE
from oar_paper.case import Pair
from oar_paper.figure2.curves import BudgetCurves
from oar_paper.figure2.pairs import AllPairs
from oar_paper.figure2.shares import ShareCurves
from oar_paper.figures.curves import draw_flip, draw_line, draw_spread, spread
from oar_paper.figures.style import LINES, styled

ADVANTAGE = "individual − collective"
HEURISTIC = (0, (4, 1.5, 1, 1.5, 1, 1.5))  # dash, dot, dot: unlike the dotted extremes of the bands


@dataclass(frozen=True, eq=False)
class Figure2:
    """Everything that Figure 2 shows of one data set."""

    title: str
    classes: int
    curves: BudgetCurves
    pairs: AllPairs
    shares: ShareCurves


def draw_figure2(datasets: list[Figure2]) -> Figure:
    """Return the figure: two columns a data set (its pair, all its pairs), three rows."""
    with styled():
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06)
        figure = Figure(figsize=(6.4 * len(datasets), 8.4), layout=layout)
        grid: Any = figure.subplots(3, 2 * len(datasets), height_ratios=[1.25, 0.8, 1.25], squeeze=False)
        for column, data in enumerate(datasets):
            _draw_dataset(grid[:, 2 * column : 2 * column + 2], data)
        for letter, axes in zip("abcdefghijklmnop", grid.flat, strict=False):
            axes.text(-0.02, 1.03, letter, transform=axes.transAxes, fontweight="bold", ha="right", va="bottom")
            axes.tick_params(length=2.5)
        figure.legend(handles=_legend(), loc="outside lower center", ncols=4, columnspacing=2.2)
    return figure


def _draw_dataset(grid: Any, data: Figure2) -> None:
    (pair_loss, all_loss), (pair_gain, all_gain), (pair_share, all_share) = grid
    pair_loss.set_title(f"{data.title}, the paper's pair:\n{data.curves.pair}")
    all_loss.set_title(f"{data.title}, {_count(data.pairs.pairs, data.classes)} ordered pairs\nof classes")
    _draw_pair_losses(pair_loss, data.curves)
    _draw_all_losses(all_loss, data.pairs)
    _draw_gains(pair_gain, all_gain, data)
    _draw_pair_shares(pair_share, data)
    _draw_all_shares(all_share, data)


def _count(pairs: list[Pair], classes: int) -> str:
    every = classes * (classes - 1)
    return f"all {every}" if len(pairs) == every else f"{len(pairs)} of {every}"


def _draw_pair_losses(axes: Axes, data: BudgetCurves) -> None:
    for way, losses in data.heuristic.items():
        axes.plot(data.budgets, losses, color=LINES[way].colour, linewidth=1.0, linestyle=HEURISTIC, alpha=0.9)
    # The individual last: where its dashes lie on the collective's line, both are seen.
    for way in ("joint", "collective", "individual"):
        draw_line(axes, data.budgets, data.curves[way].losses, way)
    for way, curve in data.curves.items():
        draw_flip(axes, curve.flip, curve.flip_loss, way)
    _budget_axis(axes, data.budgets)
    axes.set(ylabel=r"goal loss at $x_\dagger$", ylim=(0, None))


def _draw_all_losses(axes: Axes, data: AllPairs) -> None:
    for way in ("individual", "collective"):
        draw_spread(axes, data.budgets, spread(data.losses[way]), LINES[way].colour, LINES[way].dashes)
    joint = LINES["joint"]
    axes.plot(
        data.budgets, np.median(data.losses["joint"], axis=0), color=joint.colour, linestyle=joint.dashes, linewidth=1.4
    )
    _budget_axis(axes, data.budgets)
    top = max(losses.max() for losses in data.losses.values())
    axes.set(ylabel=r"goal loss at $x_\dagger$", ylim=(-0.14 * top, None))
    # Along the bottom: at which budget each pair can be flipped at all.
    for row, (way, minima) in enumerate(
        (("individual", data.individual_minimum), ("collective", data.collective_minimum))
    ):
        height = -(0.05 + 0.055 * row) * top
        axes.plot(minima, np.full(len(minima), height), "|", color=LINES[way].colour, markersize=5.5, alpha=0.75)
    axes.axhline(0, color=GREY, linewidth=0.6)


def _draw_gains(pair_axes: Axes, all_axes: Axes, data: Figure2) -> None:
    curves, pairs = data.curves.curves, data.pairs
    gain = curves["individual"].losses - curves["collective"].losses
    gains = pairs.losses["individual"] - pairs.losses["collective"]
    pair_axes.plot(data.curves.budgets, gain, color=PURPLE, linewidth=1.8)
    pair_axes.fill_between(data.curves.budgets, 0, gain, color=PURPLE, alpha=0.22, linewidth=0)
    draw_spread(all_axes, pairs.budgets, spread(gains), PURPLE)
    top = 1.08 * max(gains.max(), gain.max())
    for axes in (pair_axes, all_axes):
        _budget_axis(axes, pairs.budgets)
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set(ylabel=f"{ADVANTAGE}\n(goal loss)", ylim=(-0.04 * top, top))
    peak = int(gain.argmax())
    pair_axes.text(
        0.97,
        0.93,
        rf"at most {gain[peak]:.3f}, at $\epsilon = {data.curves.budgets[peak]:g}$",
        transform=pair_axes.transAxes,
        ha="right",
        va="top",
        fontsize=8.5,
    )


def _draw_pair_shares(axes: Axes, data: Figure2) -> None:
    shares = data.shares
    axes.axhline(
        shares.individual, color=LINES["individual"].colour, linestyle=LINES["individual"].dashes, linewidth=1.8
    )
    for way, curve in shares.curves.items():
        draw_line(axes, shares.shares, curve.losses, way)
    for way, curve in shares.curves.items():
        draw_flip(axes, curve.flip, curve.flip_loss, way)
    if shares.break_even is not None:
        here = (shares.break_even, shares.individual)
        axes.plot(*here, marker="X", color=BLACK, markersize=7.5, zorder=6, clip_on=False)
        axes.annotate(
            f"break-even at {shares.break_even:.1%}",
            here,
            xytext=(0.97, 0.9),
            textcoords="axes fraction",
            ha="right",
            va="center",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.7, "shrinkB": 6, "relpos": (0.85, 0)},
        )
    _share_axis(axes, shares)
    axes.set(ylabel=r"goal loss at $x_\dagger$", ylim=(0, None))


def _draw_all_shares(axes: Axes, data: Figure2) -> None:
    shares = data.shares
    gains = shares.pair_individual[:, None] - shares.pair_losses
    draw_spread(axes, shares.shares, spread(gains), PURPLE)
    axes.axhline(0, color=GREY, linewidth=0.8)
    evens = [share for share in shares.pair_break_even if share is not None]
    axes.plot(evens, np.zeros(len(evens)), "|", color=BLACK, markersize=8, markeredgewidth=0.9, alpha=0.7, zorder=5)
    axes.text(
        0.03,
        0.95,
        f"break-even: median {np.median(evens):.0%}\n({min(evens):.0%} to {max(evens):.0%})"
        if evens
        else "no break-even",
        transform=axes.transAxes,
        va="top",
        fontsize=8.5,
    )
    _share_axis(axes, shares)
    axes.set(ylabel=f"{ADVANTAGE}\n(goal loss)")


def _budget_axis(axes: Axes, budgets: Any) -> None:
    axes.set(xlabel=r"budget $\epsilon$", xlim=(0, float(budgets[-1])))
    axes.grid(True, color="#E4E4E4", linewidth=0.6)


def _share_axis(axes: Axes, data: ShareCurves) -> None:
    axes.set(xlabel=rf"share that takes part, at $\epsilon = {data.budget:.2f}$", xlim=(0, 1.0))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(True, color="#E4E4E4", linewidth=0.6)


def _legend() -> list[Any]:
    def line(label: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"color": GREY, "linestyle": "none", "label": label, **look})

    ways = [line(way.label, color=way.colour, linestyle=way.dashes, linewidth=way.width) for way in LINES.values()]
    flips = [
        line(
            f"prediction flips ({name})",
            marker=LINES[name].marker,
            color=LINES[name].colour,
            markerfacecolor="none" if name == "individual" else LINES[name].colour,
            markersize=8 if name == "individual" else 6,
        )
        for name in LINES
    ]
    # Column by column, as matplotlib fills a legend.
    return [
        *ways,
        *flips,
        line("the paper's one-step heuristic", linestyle=HEURISTIC, linewidth=1.0),
        line("break-even of the paper's pair", marker="X", color=BLACK, markersize=7),
        line("minimal budget (b, d) or break-even (j, l) of each pair", marker="|", color=BLACK, markersize=7),
        line("median over the pairs", linestyle="-", linewidth=1.8),
        Patch(facecolor=GREY, alpha=0.3, label="middle half of the pairs"),
        line("least and greatest of the pairs", linestyle=":", linewidth=0.8),
    ]
