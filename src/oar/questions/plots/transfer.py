"""Transfer as a picture: what surrogates predict against what is true, and success by data, number and family.

Families differ in colour and mark. Nothing of matplotlib's own state is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import CLASS_COLOURS, CLASS_MARKERS, GREY
from oar.pictures.numbers import shortened

if TYPE_CHECKING:
    from oar.questions.transfer import Transfer

STYLES = ("-", "--", ":", "-.")
LARGE = 20.0  # times the smallest loss: from there on axes are logarithmic
LEAST = 1e-3  # losses below this are drawn there, on such axes


def draw(transfer: Transfer) -> Any:
    """Return the figure."""
    from oar.pictures.figures import Picture

    figure = Picture(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    found = transfer.table()
    _losses(left, found)
    _success(right, found)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors="#444444")
        axes.set_axisbelow(True)
        axes.grid(color="#E4E4E4", linewidth=0.7)
    return figure


def _losses(axes: Any, found: Any) -> None:
    known = found[np.isfinite(found["predicted_loss"]) & np.isfinite(found["loss"])]
    both = known[["predicted_loss", "loss"]].to_numpy(dtype=float)
    axes.set_title("Goal loss, each plan", fontsize=9.5, loc="left")
    axes.set_xlabel("predicted by the surrogates", fontsize=8.5)
    axes.set_ylabel("true, audited", fontsize=8.5)
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
    axes.set_xlabel("public data that surrogates are trained on", fontsize=8.5)
    axes.set_title("True success, by family and number of surrogates", fontsize=9.5, loc="left")
    axes.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _look(place: int) -> dict[str, Any]:
    return {"c": CLASS_COLOURS[place % len(CLASS_COLOURS)], "marker": CLASS_MARKERS[place % len(CLASS_MARKERS)]}


def _name(family: str) -> str:
    return shortened(family, 24).replace("$", r"\$")
