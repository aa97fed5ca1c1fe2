"""The trade-off between plans as a picture: effort, people, success and collateral.

Colours are Okabe & Ito's, and success also shows in the marker. Nothing of matplotlib's own state is touched.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from oar.people.wording import counted

if TYPE_CHECKING:
    from oar.questions.alternatives import Alternatives

BLUE, VERMILLION, GREY, BLACK = "#0072B2", "#D55E00", "#6B6B6B", "#1B1B1B"
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


def draw(plans: Alternatives) -> Any:
    """Return the figure: a marker for each plan, and a list of what they are."""
    from matplotlib.figure import Figure

    rows = plans.frame()
    texts = [_said(row) for _, row in rows.iterrows()]
    lines = sum(text.count("\n") + 2 for text in texts) + KEY.count("\n") + 1
    height = max(4.2, LINE * lines + MARGINS)
    figure = Figure(figsize=(8.4, height), layout="constrained")
    axes, beside = figure.subplots(1, 2, width_ratios=(1.25, 1))
    axes.set_xlabel("people who move", fontsize=9)
    axes.set_ylabel("effort (sum of all moves)", fontsize=9)
    axes.set_title("What each plan asks", fontsize=9.5, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors="#444444")
    axes.grid(color="#E4E4E4", linewidth=0.7)
    axes.set_axisbelow(True)
    beside.set_axis_off()
    if not len(rows):
        axes.text(0.5, 0.5, "no plan was found", ha="center", va="center", transform=axes.transAxes, color=GREY)
        return figure
    right, top = 1.25 * float(rows["people"].max()), 1.25 * float(rows["effort"].max())
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
            axes.plot([row["people"], x], [row["effort"], y], color=BLACK, linewidth=0.9, zorder=4)
            axes.text(x, y, f"{number}", color=colour, bbox=BOX | {"edgecolor": colour}, **NUMBER)
        said.append((f"{number}", colour, text))
    _list(beside, said, LINE / (height - MARGINS))
    return figure


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
