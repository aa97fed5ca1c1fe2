"""The school district's pictures: the share of high-achieving 𝒩₂ students in ℋ₁ by year, and a boundary that moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from oar.pictures.figures import Picture
from oar.worlds.draw_look import LETTERS, as_percentages, at_the_end, band, boundary, footnote, shade, tidy
from oar.worlds.scenario_chance import chances
from oar.worlds.scenario_school_people import ACHIEVEMENT, ACTIVITIES, N1, N2

if TYPE_CHECKING:
    from oar.pictures.figures import Figure
    from oar.worlds.scenario_school import Played, Year
    from oar.worlds.scenario_school_worlds import SchoolSettings

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
        end = band(left, years, [means[name, year]["share"] for year in years], **look)
        ends.append((WORDS[name], end, look["color"]))
    at_the_end(left, settings.rounds, ends, 0.135)
    tidy(left, f"High-achieving {PLACE_2} students assigned to {SCHOOL_1}", "year", "share of them")
    as_percentages(left)
    left.set_xlim(0.7, settings.rounds + 0.2)
    left.set_xticks([year for year in years if settings.rounds <= 12 or year % 2])
    if 1 < settings.since <= settings.rounds:
        left.axvline(settings.since, color=GREY, linewidth=0.8, linestyle=":")
        left.annotate(" acting begins", (settings.since, 0.03), color=GREY, fontsize=LETTERS["note"])
    _draw_demands(right, settings, played)
    repeats = f"mean of {settings.repeats} simulated districts, bands from least to greatest" * (settings.repeats > 1)
    footnote(
        figure,
        f"{settings.people} students a year; {repeats or 'one simulated district'}. High-achieving: {settings.high:g} "
        "grade points or more. Right: the first district.",
    )
    return figure


def _draw_demands(axes: Any, settings: SchoolSettings, played: Mapping[str, Played]) -> None:
    """Draw the boundary of the first year, and of the last in every arm, over the last class."""
    last = played["nobody"].years[-1]
    _students(axes, last, last.crowd.features, settings)
    first = played["nobody"]
    boundary(axes, _chance(first.model, first.years[0].parameters, FIRST), ACROSS, UP, colors="black", linewidths=1.4)
    axes.plot([], [], color="black", linewidth=1.4, label="model of year 1")
    axes.plot([], [], color=GREEN, linewidth=2.4, label=f"models of year {settings.rounds},\ncolours as on the left")
    for name, look in LOOKS.items():
        arm = played[name]
        chance = _chance(arm.model, arm.years[-1].parameters, FIRST)
        boundary(axes, chance, ACROSS, UP, colors=look["color"], linestyles=look["linestyle"], linewidths=2.4)
    tidy(axes, f"{SCHOOL_1} is for who is right of the line", "achievement (grade points)", "activities (hours a week)")
    axes.set(xlim=ACROSS, ylim=UP)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.15), fontsize=LETTERS["note"], frameon=False, ncols=2)


def _students(axes: Any, year: Year, places: Any, settings: SchoolSettings, strong: bool = False) -> None:
    some = np.arange(min(SHOWN, year.crowd.size))
    for group, (colour, marker, name) in NEIGHBOURHOODS.items():
        rows = some[year.crowd.groups[some] == group]
        high = year.crowd.features[rows, ACHIEVEMENT] >= settings.high
        faint = {"linestyle": "none", "marker": marker, "color": colour, "markeredgewidth": 0}
        axes.plot(*places[rows[~high]].T, markersize=3.6, alpha=0.3, **faint)
        axes.plot(*places[rows[high]].T, markersize=5, alpha=0.75, **faint, label=f"{name}, high-achieving")


def _chance(model: Any, parameters: Any, code: int) -> Any:
    return lambda points: chances(model, parameters, points, code)


def draw_school_year(settings: SchoolSettings, played: Mapping[str, Played], number: int) -> Figure:
    """Return a frame: every arm's boundary in a year, over its class as it reported."""
    figure = Picture(figsize=(8.4, 7.6))  # laid out by hand, so that nothing jumps from frame to frame
    figure.subplots_adjust(left=0.075, right=0.985, top=0.905, bottom=0.115, wspace=0.06, hspace=0.13)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, (name, look) in zip(panels.flat, LOOKS.items(), strict=True):
        arm = played[name]
        year = arm.years[number]
        chance = _chance(arm.model, year.parameters, FIRST)
        shade(axes, chance, ACROSS, UP, look["color"])
        _left_out(axes, year, look["color"])
        _students(axes, year, year.reported, settings)
        boundary(
            axes,
            _chance(arm.model, arm.years[0].parameters, FIRST),
            ACROSS,
            UP,
            colors="black",
            linewidths=1.0,
            linestyles=":",
        )
        boundary(axes, chance, ACROSS, UP, colors=look["color"], linewidths=2.8)
        share = "–" if np.isnan(year.share) else f"{year.share:.0%}"
        tidy(axes, WORDS[name].replace("under-\nreport", "under-report").replace("\n", " "), "", "")
        axes.text(
            0.02, 0.98, f"{share} of high-achieving {PLACE_2} in {SCHOOL_1}", transform=axes.transAxes, va="top",
            fontsize=LETTERS["label"], fontweight="bold", color=look["color"],
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2},
        )  # fmt: skip
        axes.set(xlim=ACROSS, ylim=UP)
    for axes in panels[1]:
        axes.set_xlabel("achievement (grade points)", fontsize=LETTERS["label"])
    for axes in panels[:, 0]:
        axes.set_ylabel("activities as reported (hours a week)", fontsize=LETTERS["label"])
    acting = "nobody acts yet" if number + 1 < settings.since else f"acting since year {settings.since}"
    figure.suptitle(
        f"Year {number + 1} of {settings.rounds} ({acting}): {SCHOOL_1} is for who is in the coloured area",
        fontsize=LETTERS["title"] + 0.5,
        y=0.985,
    )
    handles, labels = panels[0, 0].get_legend_handles_labels()
    handles += panels[0, 0].plot([], [], ":", color="black", linewidth=1.0)
    handles += panels[0, 0].plot([], [], "-", color=GREY, linewidth=0.8)
    labels += ["boundary of year 1", "hours added or left out"]
    figure.legend(
        handles,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.015),
        ncols=4,
        fontsize=LETTERS["note"],
        frameon=False,
    )
    return figure


def _left_out(axes: Any, year: Year, colour: str) -> None:
    """Draw how far the hours that students report are from those they had."""
    some = np.arange(min(SHOWN, year.crowd.size))
    before, after = year.crowd.features[some], year.reported[some]
    moved = before[:, ACTIVITIES] != after[:, ACTIVITIES]
    axes.vlines(
        before[moved, ACHIEVEMENT],
        before[moved, ACTIVITIES],
        after[moved, ACTIVITIES],
        color=colour,
        linewidth=0.6,
        alpha=0.5,
    )
