"""Answers as pictures: plans by effort and people, leverage by feature and member, surrogates against the truth.

Colours are Okabe & Ito's, and nothing is told by colour alone: success also shows in the marker, and classes and
families differ in their marks. Nothing of matplotlib's own state is touched.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.people.wording import counted
from oar.pictures.colours import BLUE, CLASS_COLOURS, CLASS_MARKERS, GREY, VERMILLION
from oar.pictures.numbers import percent, shortened

if TYPE_CHECKING:
    from oar.questions.alternatives import Alternatives
    from oar.questions.leverage import Leverage
    from oar.questions.transfer import Transfer

INK = "#1B1B1B"
SMALLEST, LARGEST = 220.0, 800.0  # areas of markers, in points²
NEAR, ASIDE = 0.09, 0.1  # shares of the axes: numbers of plans nearer than this are drawn side by side
MARK: dict[str, Any] = {"alpha": 0.7, "edgecolors": "white", "linewidths": 1.2, "zorder": 3}
NUMBER: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "ha": "center", "va": "center", "zorder": 5}
BOX = {"boxstyle": "round,pad=0.2", "facecolor": "white"}
WRAPPED = 44  # characters
LINE, MARGINS = 0.155, 0.7  # inches: of a line of text, and of what is above and below the axes
KEY = """Round: success. Square: none. Larger: more bystanders'
and actors' predictions change. A mark is at its plan's own
numbers; where marks meet, a line leads to one's number."""
MOST_BARS = 15
MOST_MARKS = 60  # of one class
MOST_NAMED = len(CLASS_COLOURS)
STYLES = ("-", "--", ":", "-.")
LARGE = 20.0  # times the smallest loss: from there on axes are logarithmic
LEAST = 1e-3  # losses below this are drawn there, on such axes


def draw_alternatives(plans: Alternatives) -> Any:
    """Return the figure: a marker for each plan, and a list of what they are."""
    from matplotlib.figure import Figure

    rows = plans.frame()
    texts = [_said(row) for _, row in rows.iterrows()]
    lines = sum(text.count("\n") + 2 for text in texts) + KEY.count("\n") + 1
    height = max(4.2, LINE * lines + MARGINS)
    figure = Figure(figsize=(8.4, height), layout="constrained")
    axes, beside = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _headed(axes, "What each plan asks", "people who act", "effort (sum of all moves)", 9)
    _lines(axes)
    beside.set_axis_off()
    if not len(rows):
        axes.text(0.5, 0.5, "no plan was found", ha="center", va="center", transform=axes.transAxes, color=GREY)
        return figure
    right, top = 1.25 * float(rows["people"].max()), 1.25 * float(rows["effort"].max()) or 1.0
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    placed: list[tuple[float, float]] = []
    changed = rows["collateral"] + rows["actors changed"]
    most, said = max(1, int(changed.max())), []
    for (number, row), text in zip(rows.iterrows(), texts, strict=True):
        true = row["people"] / right, row["effort"] / top
        place = _aside(true, placed)
        placed.append(place)
        colour, marker = (BLUE, "o") if row["success"] else (VERMILLION, "s")
        area = SMALLEST + (LARGEST - SMALLEST) * changed[number] / most
        axes.scatter(row["people"], row["effort"], s=area, c=colour, marker=marker, **MARK)
        if place == true:
            axes.text(row["people"], row["effort"], f"{number}", color="white", **NUMBER)
        else:
            x, y = place[0] * right, place[1] * top
            axes.plot([row["people"], x], [row["effort"], y], color=INK, linewidth=0.9, zorder=4)
            axes.text(x, y, f"{number}", color=colour, bbox=BOX | {"edgecolor": colour}, **NUMBER)
        said.append((f"{number}", colour, text))
    _list(beside, said, LINE / (height - MARGINS))
    return figure


def _lines(axes: Any, **which: str) -> None:
    """Draw faint lines behind, and no frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors="#444444")
    axes.set_axisbelow(True)
    axes.grid(color="#E4E4E4", linewidth=0.7, **which)


def _headed(axes: Any, title: str, across: str, up: str, size: float = 8.5) -> None:
    axes.set_title(title, fontsize=9.5, loc="left")
    axes.set_xlabel(across, fontsize=size)
    axes.set_ylabel(up, fontsize=size)


def _aside(place: tuple[float, float], placed: list[tuple[float, float]]) -> tuple[float, float]:
    """Return a place for a number, or one to its right where another number would be covered."""
    x, y = place
    while any(abs(x - left) < NEAR and abs(y - low) < NEAR for left, low in placed):
        x += ASIDE
    return x, y


def _said(row: Any) -> str:
    outcome = "success" if row["success"] else "no success"
    actors = counted(int(row["actors changed"]), "actor's", "actors'")
    others = counted(int(row["collateral"]), "bystander's", "bystanders'") + f" and {actors} predictions change"
    parts = [row["plan"], f"{outcome}, goal loss {row['goal loss']:.3g}", others, f"moves {row['features']}"]
    return "\n".join(line for part in parts for line in textwrap.wrap(part, WRAPPED, max_lines=3, placeholder=" …"))


def _list(axes: Any, said: list[tuple[str, str, str]], step: float) -> None:
    """Write what the plans are from the top down, `step` of the height a line, and what the marks mean."""
    top = 1.0
    style = {"va": "top", "transform": axes.transAxes, "linespacing": 1.25, "parse_math": False}
    for number, colour, text in said:
        axes.text(0.0, top, number, color=colour, fontsize=9, fontweight="bold", **style)
        axes.text(0.06, top, text, fontsize=8, **style)
        top -= step * (text.count("\n") + 2)
    axes.text(0.0, top, KEY, fontsize=7.5, color=GREY, **style)


def draw_leverage(leverage: Leverage) -> Any:
    """Return the figure."""
    from oar.pictures.figures import Picture

    shown = min(leverage.problem.people.dimensions, MOST_BARS)
    figure = Picture(figsize=(9.0, max(3.4, 1.4 + 0.28 * shown)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _features(left, leverage)
    _members(right, leverage)
    _lines(left, axis="x")
    _lines(right)
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
    rest = leverage.problem.people.dimensions - len(found)
    title = "By feature" + (f" (the first {len(found)}, {rest:,} more)" if rest else "")
    _headed(axes, title, "fall of goal loss per unit, everyone moving it", "")


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
        label = "members" if regresses else _named(leverage, code, mine.size)
        look = _look(code) | {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
        axes.scatter(ranks[some], values[some], s=26, label=label, **look)
    axes.set_ylim(0, 1.08 * values[0] if values[0] > 0 else 1.0)
    _headed(axes, "By member", "members who may act, strongest first", "fall of goal loss per unit of own move")
    axes.legend(fontsize=8, frameon=False, loc="best")


def _named(leverage: Leverage, code: int, size: int) -> str:
    label = leverage.problem.people.classes[code]
    share = leverage.classes[label] / leverage.total if leverage.total > 0 else 0.0
    # A dollar sign would begin a formula.
    name = label if isinstance(label, str) else f"class {label}"
    return f"{shortened(name, 20)} ({size:,}): {percent(round(share, 3))} of all".replace("$", r"\$")


def draw_transfer(transfer: Transfer) -> Any:
    """Return the figure."""
    from oar.pictures.figures import Picture

    figure = Picture(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    found = transfer.table()
    _losses(left, found)
    _success(right, found)
    _lines(left)
    _lines(right)
    return figure


def _losses(axes: Any, found: Any) -> None:
    known = found[np.isfinite(found["predicted_loss"]) & np.isfinite(found["loss"])]
    both = known[["predicted_loss", "loss"]].to_numpy(dtype=float)
    _headed(axes, "Goal loss, each plan", "predicted by the surrogates", "true, audited")
    if not len(known):
        axes.text(0.5, 0.5, "no surrogate predicts anything", ha="center", transform=axes.transAxes, color=GREY)
        return
    logarithmic = both.max() > LARGE * max(both.min(), LEAST)
    if logarithmic:
        both = np.maximum(both, LEAST)
        axes.set_xscale("log")
        axes.set_yscale("log")
    low, high = both.min(), max(both.max(), float(found["loss_before"].iloc[0]))
    margin = (1.25, 0.8) if logarithmic else (1.05, 0.95)
    ends = np.array([low * margin[1], high * margin[0]])
    axes.plot(ends, ends, color=GREY, linewidth=1.0, zorder=1, label="as predicted")
    before = float(found["loss_before"].iloc[0])
    axes.axhline(before, color=GREY, linewidth=0.8, linestyle=":", zorder=1, label="before any move")
    for place, family in enumerate(dict.fromkeys(found["family"])):
        mine = (known["family"] == family).to_numpy()
        axes.scatter(*both[mine].T, s=30, zorder=3, label=_name(family), **_look(place))
    axes.legend(fontsize=7.5, frameon=False, loc="best")


def _success(axes: Any, found: Any) -> None:
    names = list(dict.fromkeys(found["public"]))
    places = np.arange(len(names))
    families, numbers = list(dict.fromkeys(found["family"])), list(dict.fromkeys(found["number"]))
    rates = found.groupby(["family", "number", "public"], sort=False)["rate"].mean()
    width = 0.5 / max(1, len(families) * len(numbers))  # lines that coincide are drawn beside each other
    for place, family in enumerate(families):
        look = _look(place)
        for turn, number in enumerate(numbers):
            values = [rates.get((family, number, name), np.nan) for name in names]
            aside = (place * len(numbers) + turn - 0.5 * (len(families) * len(numbers) - 1)) * width
            axes.plot(
                places + aside,
                values,
                color=look["c"],
                marker=look["marker"],
                linestyle=STYLES[turn % len(STYLES)],
                linewidth=1.1,
                markersize=5,
                label=f"{_name(family)}, {number}",
            )
    axes.set_ylim(-0.05, 1.05)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xticks(places, [shortened(name, 16) for name in names], parse_math=False)
    title = "True success, by family and number of surrogates"
    _headed(axes, title, "public data that surrogates are trained on", "")
    axes.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _look(place: int) -> dict[str, Any]:
    return {"c": CLASS_COLOURS[place % len(CLASS_COLOURS)], "marker": CLASS_MARKERS[place % len(CLASS_MARKERS)]}


def _name(family: str) -> str:
    return shortened(family, 24).replace("$", r"\$")
