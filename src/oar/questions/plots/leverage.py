"""Leverage as a picture: bars by feature, and members from the strongest to the weakest, marked by class.

Colours are Okabe & Ito's, and classes differ in their marks, too. Nothing of matplotlib's own state is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import BLUE, CLASS_COLOURS, CLASS_MARKERS, GREY
from oar.pictures.numbers import percent, shortened

if TYPE_CHECKING:
    from oar.questions.leverages.leverage import Leverage

MOST_BARS = 15
MOST_MARKS = 60  # of one class
MOST_NAMED = len(CLASS_COLOURS)


def draw(leverage: Leverage) -> Any:
    """Return the figure."""
    from oar.pictures.figures import Picture

    shown = min(leverage.problem.people.dimensions, MOST_BARS)
    figure = Picture(figsize=(9.0, max(3.4, 1.4 + 0.28 * shown)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _features(left, leverage)
    _members(right, leverage)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors="#444444")
        axes.set_axisbelow(True)
    left.grid(axis="x", color="#E4E4E4", linewidth=0.7)
    right.grid(color="#E4E4E4", linewidth=0.7)
    return figure


def _features(axes: Any, leverage: Leverage) -> None:
    found = leverage.table("feature").head(MOST_BARS)
    places = np.arange(len(found))[::-1]
    axes.barh(places, found["leverage"], color=BLUE, height=0.7)
    names = [shortened(name, 24) if isinstance(name, str) else f"feature {name}" for name in found.index]
    axes.set_yticks(places, names, parse_math=False)
    for place, value, share in zip(places, found["leverage"], found["share"], strict=True):
        axes.annotate(
            percent(round(share, 3)), (value, place), (3, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.set_xlabel("fall of goal loss per unit, everyone moving it", fontsize=8.5)
    rest = leverage.problem.people.dimensions - len(found)
    axes.set_title(
        "By feature" + (f" (the first {len(found)}, {rest:,} more)" if rest else ""), fontsize=9.5, loc="left"
    )


def _members(axes: Any, leverage: Leverage) -> None:
    values, codes = np.asarray(leverage.members)[leverage.acts], leverage._codes[leverage.acts]
    if not values.size:
        axes.text(0.5, 0.5, "nobody may act", ha="center", va="center", transform=axes.transAxes, color=GREY)
        return
    order = np.argsort(-values, kind="stable")
    values, codes, ranks = values[order], codes[order], np.arange(1, values.size + 1)
    axes.plot(ranks, values, color=GREY, linewidth=1.0, zorder=2)
    regresses, classes = leverage.problem.regresses, leverage.problem.people.classes
    for code in range(1 if regresses else min(len(classes), MOST_NAMED)):
        mine = np.flatnonzero(codes == code)
        some = mine[np.unique(np.linspace(0, mine.size - 1, min(mine.size, MOST_MARKS)).astype(np.intp))]
        axes.scatter(
            ranks[some],
            values[some],
            s=26,
            c=CLASS_COLOURS[code],
            marker=CLASS_MARKERS[code],
            edgecolors="white",
            linewidths=0.5,
            zorder=3,
            label="members" if regresses else _named(leverage, code, mine.size),
        )
    axes.set_ylim(0, 1.08 * values[0] if values[0] > 0 else 1.0)
    axes.set_xlabel("members who may act, strongest first", fontsize=8.5)
    axes.set_ylabel("fall of goal loss per unit of own move", fontsize=8.5)
    axes.set_title("By member", fontsize=9.5, loc="left")
    axes.legend(fontsize=8, frameon=False, loc="best")


def _named(leverage: Leverage, code: int, size: int) -> str:
    label = leverage.problem.people.classes[code]
    share = leverage.classes[label] / leverage.total if leverage.total > 0 else 0.0
    # A dollar sign would begin a formula.
    name = label if isinstance(label, str) else f"class {label}"
    return f"{shortened(name, 20)} ({size:,}): {percent(round(share, 3))} of all".replace("$", r"\$")
