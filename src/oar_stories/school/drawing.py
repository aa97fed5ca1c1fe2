"""The school district's pictures: the share of high-achieving 𝒩₂ students in ℋ₁ by year, and a boundary that moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from oar.pictures.figures import Picture
from oar_stories.class_probability import chances
from oar_stories.drawing_style import LETTERS, as_percentages, at_the_end, band, boundary, footnote, shade, tidy
from oar_stories.school.people import ACHIEVEMENT, ACTIVITIES, N1, N2

if TYPE_CHECKING:
    from oar.pictures.figures import Figure
    from oar_stories.school.story import Played, Year
    from oar_stories.school.worlds import SchoolSettings

FIRST = 0
PLACE_1, PLACE_2, SCHOOL_1 = r"$\mathcal{N}_1$", r"$\mathcal{N}_2$", r"$\mathcal{H}_1$"
LOOKS: dict[str, dict[str, Any]] = {
    "nobody": {"color": GREY, "marker": "s", "linestyle": "-"},
    "individual": {"color": VERMILLION, "marker": "^", "linestyle": "--"},
    "collective": {"color": GREEN, "marker": "o", "linestyle": "-"},
    "defended": {"color": PURPLE, "marker": "D", "linestyle": "-."},
}
WORDS = {
    "nobody": "nobody acts",
    "individual": "individuals take up\nactivities",
    "collective": f"{SCHOOL_1} students under-\nreport together",
    "defended": "under-reporting, but\nthe district defends",
}
BASELINE = "defended, nobody"  # what a defended arm is to be read against; drawn lightly, beside it
LIGHT: dict[str, Any] = {"color": PURPLE, "linestyle": (0, (1, 1)), "linewidth": 1.5, "alpha": 0.75}
TICK: dict[str, Any] = {"marker": "_", "markersize": 4, "markeredgewidth": 1.0, "linestyle": "none"}
KEYS: dict[str, dict[str, Any]] = {
    "boundary of year 1": {"linestyle": ":", "color": "black", "linewidth": 1.0},
    "district defends, nobody acts": LIGHT,
    "hours taken up before applying": {"color": VERMILLION, "linewidth": 0.8},
    "hours left out a year later": {"color": GREEN, "linewidth": 0.8, "marker": "_", "markersize": 5},
}
ACROSS, UP = (2.0, 10.2), (-0.4, 15.0)
SHOWN = 160  # students in a frame; more would be a blot
NEIGHBOURHOODS = {N1: (BLUE, "o", PLACE_1), N2: (ORANGE, "s", PLACE_2)}


def draw_school(settings: SchoolSettings, means: Mapping[Any, Any], played: Mapping[str, Played]) -> Figure:
    """Return the still: shares by year, and what the model asked for in the first and the last year."""
    figure = Picture(figsize=(10.4, 4.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    years = list(range(1, settings.rounds + 1))
    ends = []
    for name, look in LOOKS.items():
        end = band(left, years, [means[name, year]["assigned"] for year in years], **look)
        ends.append((WORDS[name], end, look["color"]))
    baseline = [means[BASELINE, year]["assigned"]["mean"] for year in years]
    left.plot(years, baseline, **LIGHT)
    ends.append(("the district defends,\nand nobody acts", baseline[-1], PURPLE))
    at_the_end(left, settings.rounds, [end for end in ends if not np.isnan(end[1])], 0.135)
    tidy(left, f"High-achieving {PLACE_2} students assigned to {SCHOOL_1}", "year", "share of them")
    as_percentages(left)
    left.set_xlim(0.7, settings.rounds + 0.2)
    left.set_xticks([year for year in years if settings.rounds <= 12 or year % 2])
    begins = _first_acting(means)
    if begins is not None:
        left.axvline(begins, color=GREY, linewidth=0.8, linestyle=":")
        left.annotate(" acting begins", (begins, 0.01), color=GREY, fontsize=LETTERS["note"])
    _draw_demands(right, settings, played)
    repeats = f"mean of {settings.repeats} simulated districts, bands from least to greatest" * (settings.repeats > 1)
    footnote(
        figure,
        f"{'Nobody acted in any arm. ' * (begins is None)}{_accuracies(settings, means)} {settings.people} students a "
        f"year; {repeats or 'one simulated district'}. High-achieving: {settings.high:g} grade points or more. Right: "
        "the first district.",
    )
    return figure


def _first_acting(means: Mapping[Any, Any]) -> int | None:
    """Return the first year in which somebody acts in some arm and district, if anybody ever does."""
    return min((year for (_, year), measured in means.items() if measured["acting"]["greatest"] > 0), default=None)


def _accuracies(settings: SchoolSettings, means: Mapping[Any, Any]) -> str:
    """Say what the defence costs: how accurate assignments are with it and without."""
    nobody, alone, together, defended, baseline = (
        f"{means[name, settings.rounds]['accuracy']['mean']:.0%}" for name in (*LOOKS, BASELINE)
    )
    told = f"if nobody acts {nobody}, and {baseline} if the district defends itself"
    if _first_acting(means) is not None:
        told += (
            f"; with individual action {alone}; with under-reporting {together}, and {defended} if it defends itself"
        )
    return f"Accuracy (who would succeed in {SCHOOL_1}), year {settings.rounds}: {told}."


def _draw_demands(axes: Any, settings: SchoolSettings, played: Mapping[str, Played]) -> None:
    """Draw the boundary of the first year, and of the last in every arm, over the last class."""
    last = played["nobody"].years[-1]
    _students(axes, last, last.crowd.features, settings)
    _boundary_of(axes, played["nobody"], 0, color="black", linewidth=1.4)
    axes.plot([], [], color="black", linewidth=1.4, label="model of year 1")
    axes.plot([], [], color=GREEN, linewidth=2.4, label=f"models of year {settings.rounds},\ncolours as on the left")
    for name, look in LOOKS.items():
        _boundary_of(axes, played[name], -1, color=look["color"], linestyle=look["linestyle"], linewidth=2.4)
    _boundary_of(axes, played[BASELINE], -1, **LIGHT)
    tidy(
        axes,
        f"The model assigns {SCHOOL_1} right of the line",
        "achievement (grade points)",
        "activities (hours a week)",
    )
    axes.set(xlim=ACROSS, ylim=UP)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.15), fontsize=LETTERS["note"], frameon=False, ncols=2)


def _students(axes: Any, year: Year, places: Any, settings: SchoolSettings) -> None:
    some = np.arange(min(SHOWN, year.crowd.size))
    for group, (colour, marker, name) in NEIGHBOURHOODS.items():
        rows = some[year.crowd.groups[some] == group]
        high = year.crowd.features[rows, ACHIEVEMENT] >= settings.high
        faint = {"linestyle": "none", "marker": marker, "color": colour, "markeredgewidth": 0}
        axes.plot(*places[rows[~high]].T, markersize=3.6, alpha=0.3, **faint)
        axes.plot(*places[rows[high]].T, markersize=5, alpha=0.75, **faint, label=f"{name}, high-achieving")


def _boundary_of(axes: Any, arm: Played, number: int, **look: Any) -> None:
    """Draw the boundary of the model that assigned an arm's class of a year, in the look of a line."""
    names = {"color": "colors", "linestyle": "linestyles", "linewidth": "linewidths"}  # lines and contours differ here
    chance = _chance(arm.model, arm.years[number].parameters, FIRST)
    boundary(
        axes,
        chance,
        ACROSS,
        UP,
        **{names.get(name, name): value if name == "alpha" else [value] for name, value in look.items()},
    )


def _chance(model: Any, parameters: Any, code: int) -> Any:
    return lambda points: chances(model, parameters, points, code)


def draw_school_year(
    settings: SchoolSettings, means: Mapping[Any, Any], played: Mapping[str, Played], number: int
) -> Figure:
    """Return a frame: every arm's boundary in a year, over its class as it applied, and what it reported after it."""
    figure = Picture(figsize=(8.4, 7.8))  # laid out by hand, so that nothing jumps from frame to frame
    figure.subplots_adjust(left=0.075, right=0.985, top=0.905, bottom=0.14, wspace=0.06, hspace=0.13)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, name in zip(panels.flat, LOOKS, strict=True):
        _draw_arm(axes, name, settings, played, number)
    for axes in panels[1]:
        axes.set_xlabel("achievement (grade points)", fontsize=LETTERS["label"])
    for axes in panels[:, 0]:
        axes.set_ylabel("activities when applying (hours a week)", fontsize=LETTERS["note"])
    begins = _first_acting(means)
    acting = "nobody acts" if begins is None or number + 1 < begins else f"acting since year {begins}"
    opening = "Year" if settings.repeats == 1 else "First district, year"
    figure.suptitle(
        f"{opening} {number + 1} of {settings.rounds} ({acting}): the model assigns {SCHOOL_1} in the coloured area",
        fontsize=LETTERS["title"] + 0.5,
        y=0.985,
    )
    handles, labels = panels[0, 0].get_legend_handles_labels()
    for words, look in KEYS.items():
        handles += panels[0, 0].plot([], [], **look)
        labels.append(words)
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.005), "ncols": 3}
    figure.legend(handles, labels, **place, fontsize=LETTERS["note"], frameon=False)
    return figure


def _draw_arm(axes: Any, name: str, settings: SchoolSettings, played: Mapping[str, Played], number: int) -> None:
    """Draw an arm's year; beside the arm that the district defends itself against, the one where nobody acts."""
    arm, colour = played[name], LOOKS[name]["color"]
    year = arm.years[number]
    shade(axes, _chance(arm.model, year.parameters, FIRST), ACROSS, UP, colour)
    _hours_changed(axes, year, colour)
    _students(axes, year, year.applied, settings)
    _boundary_of(axes, arm, 0, color="black", linewidth=1.0, linestyle=":")
    _boundary_of(axes, arm, number, color=colour, linewidth=2.8)
    told = [f"{_shown(year)} of high-achieving {PLACE_2} in {SCHOOL_1}, accuracy {year.accuracy:.0%}"]
    if name == "defended":
        baseline = played[BASELINE].years[number]
        _boundary_of(axes, played[BASELINE], number, **LIGHT)
        told.append(f"if nobody acts: {_shown(baseline)}, accuracy {baseline.accuracy:.0%}")
    tidy(axes, WORDS[name].replace("under-\nreport", "under-report").replace("\n", " "), "", "")
    white = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2}
    for row, (words, weight) in enumerate(zip(told, ("bold", "normal"), strict=False)):
        place = {"transform": axes.transAxes, "va": "top", "fontsize": LETTERS["note"]}
        axes.text(0.02, 0.98 - 0.075 * row, words, **place, fontweight=weight, color=colour, bbox=white)
    axes.set(xlim=ACROSS, ylim=UP)


def _shown(year: Year) -> str:
    return "–" if np.isnan(year.share) else f"{year.share:.0%}"


def _hours_changed(axes: Any, year: Year, colour: str) -> None:
    """Draw what becomes of hours: a line to a point for those taken up, a line from it to a tick for those left out."""
    some = np.arange(min(SHOWN, year.crowd.size))
    across = year.crowd.features[some, ACHIEVEMENT]
    had, applied, reported = (part[some, ACTIVITIES] for part in (year.crowd.features, year.applied, year.reported))
    for before, after in ((had, applied), (applied, reported)):
        moved = before != after
        axes.vlines(across[moved], before[moved], after[moved], color=colour, linewidth=0.6, alpha=0.6)
    left_out = applied != reported
    axes.plot(across[left_out], reported[left_out], color=colour, **TICK)
