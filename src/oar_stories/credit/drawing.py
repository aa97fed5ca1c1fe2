"""German credit's pictures: how much advice stays valid, what becomes of one applicant, and advice that slips away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from oar.pictures.figures import Picture
from oar_stories.credit.applicant import AS_A_MEMBER, ITSELF, OWN_SHORTEST
from oar_stories.drawing_style import LETTERS, as_percentages, at_the_end, band, footnote, tidy

if TYPE_CHECKING:
    from oar.pictures.figures import Figure
    from oar_stories.credit.story import CreditSettings, Scores

SAME, NEW, NICE, SHORTEST = "same people", "new applicants", "nice", "shortest"
ADOPTIONS = (0.0, 0.1, 0.5, 1.0)
LOOKS: dict[str, dict[str, Any]] = {
    "keep": {"color": VERMILLION, "marker": "v"},
    "oracle": {"color": BLUE, "marker": "o"},
    "relabel": {"color": GREEN, "marker": "s"},
}
WORDS = {
    "keep": "labels stay",
    "oracle": "labels follow\nthe features",
    "relabel": "labels are the\nmodel's own",
}
COLLECTIVE, GAMED = "collective", "collective and strategic individuals"
APPLICANT: dict[tuple[str | None, float | None, str], dict[str, Any]] = {  # by way, adoption, and who helps
    (None, None, "nobody"): {"color": GREY, "marker": "s", "words": "nobody does anything"},
    (None, None, COLLECTIVE): {"color": PURPLE, "marker": "o", "words": "a collective helps: {a_year:.3g} a year"},
    (None, None, GAMED): {"color": ORANGE, "marker": "^", "words": "… while others game the model"},
    (OWN_SHORTEST, 0.0, ITSELF): {"color": BLACK, "linestyle": ":", "words": "it goes far enough: {once:.2g}, once"},
    (AS_A_MEMBER, 0.0, ITSELF): {"color": BLACK, "linestyle": "--", "words": "it goes as one member: {once:.2g}, once"},
}  # fmt: skip
BANDS = ("nobody", COLLECTIVE)
BINS = np.linspace(0, 1, 21)  # 50 % is an edge


def draw_credit(settings: CreditSettings, means: Mapping[Any, Any], overall: Mapping[Any, Any]) -> Figure:
    """Return the still."""
    figure = Picture(figsize=(11.6, 5.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.05, 1, 1))
    _draw_adoption(left, overall)
    _draw_first(middle, settings, means)
    _draw_applicant(right, settings, means, overall)
    repeated = f"Means of {settings.repeats} repetitions, bands from least to greatest. " * (settings.repeats > 1)
    footnote(
        figure,
        f"German credit, logistic regression, refitted every year. {repeated}Advice is valid if the refitted model "
        "grants credit where it sent people. On the right, with what the moves of all who make them cost.",
    )
    return figure


def _draw_adoption(axes: Any, overall: Mapping[Any, Any]) -> None:
    ends, places = [], list(range(len(ADOPTIONS)))
    for labels, look in LOOKS.items():
        for advice, line, width in ((NICE, "-", 2.4), (SHORTEST, ":", 1.5)):
            parts = [
                overall[SAME, advice, labels if adoption else "keep", adoption, None]["next"] for adoption in ADOPTIONS
            ]
            heights = [part["mean"] for part in parts]
            axes.plot(places, heights, linestyle=line, linewidth=width, markersize=2.2 * width, **look)
            if advice == NICE:
                ends.append((WORDS[labels], heights[-1], look["color"]))
    tidy(axes, "Advice that is still valid after one refit,\nthe same 1,000 people", "share that follows it", "")
    as_percentages(axes)
    axes.set_xticks(places, ["0", "10 %", "50 %", "100 %"])
    axes.set_xlim(-0.1, places[-1] + 0.1)
    at_the_end(axes, places[-1], ends, 0.15)
    for line, width, words in (
        ("-", 2.4, "NICE: copy the nearest who got credit"),
        (":", 1.5, "shortest way to credit"),
    ):
        axes.plot([], [], color="black", linestyle=line, linewidth=width, label=words)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=LETTERS["note"], frameon=False)


def _draw_first(axes: Any, settings: CreditSettings, means: Mapping[Any, Any]) -> None:
    years = list(range(1, settings.rounds + 1))
    nobody = [means[NEW, NICE, "keep", 0.0, None, year]["first"] for year in years]
    ends = [("nobody\nfollows it", band(axes, years, nobody, color=GREY, linestyle="--"), GREY)]
    for labels, look in LOOKS.items():
        end = band(axes, years, [means[NEW, NICE, labels, 1.0, None, year]["first"] for year in years], **look)
        ends.append((WORDS[labels], end, look["color"]))
    tidy(
        axes,
        "Year 1's advice (NICE) that is still valid if\nall follow it, new applicants every year",
        "refits so far",
        "",
    )
    as_percentages(axes)
    axes.set_xticks(years)
    at_the_end(axes, settings.rounds, ends, 0.15)


def _draw_applicant(axes: Any, settings: CreditSettings, means: Mapping[Any, Any], overall: Mapping[Any, Any]) -> None:
    years = list(range(1, settings.rounds + 1))
    low, high = 0.25, 0.75
    for (way, adoption, helped), look in APPLICANT.items():
        spreads = [means[NEW, way, "keep", adoption, helped, year]["chance"] for year in years]
        if helped not in BANDS:  # those of two can be told apart
            spreads = [{key: spread["mean"] for key in spread} for spread in spreads]
        effort = overall[NEW, way, "keep", adoption, helped]["effort"]["mean"]
        words = look["words"].format(a_year=effort, once=effort * settings.rounds)
        band(axes, years, spreads, label=words, **{key: value for key, value in look.items() if key != "words"})
        low = min(low, *(spread["least"] for spread in spreads))
        high = max(high, *(spread["greatest"] for spread in spreads))
    axes.axhline(0.5, color=BLACK, linewidth=0.9, linestyle=":")
    axes.annotate("above the dotted line: credit", (years[0], high), fontsize=LETTERS["note"], va="center")
    tidy(axes, "One refused applicant's chance,\nnew applicants every year", "refits so far", "")
    as_percentages(axes)
    axes.set_ylim(low - 0.02, high + 0.02)
    axes.set_xticks(years)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=LETTERS["note"], frameon=False)


def draw_credit_year(settings: CreditSettings, scores: Mapping[str, Scores], number: int) -> Figure:
    """Return a frame: what the model of a year says of the first year's advice, for every label policy."""
    figure = Picture(figsize=(8.6, 4.2))  # laid out by hand, so that nothing jumps from frame to frame
    figure.subplots_adjust(left=0.085, right=0.97, top=0.76, bottom=0.13, wspace=0.2)
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (labels, seen) in zip(panels, scores.items(), strict=True):
        colour = LOOKS[labels]["color"]
        now = seen.of_advice[number]
        _, _, bars = axes.hist(now, BINS, weights=np.full(now.size, 1 / now.size), color=colour)
        for bar in bars:
            bar.set_alpha(0.9 if bar.get_x() >= 0.5 - 1e-9 else 0.35)
        axes.axvline(0.5, color="black", linewidth=1.2)
        tidy(axes, WORDS[labels].replace("\n", " "), "model's chance of repayment", "")
        axes.text(
            0.03, 0.97, f"{seen.valid[number].mean():.0%} valid", transform=axes.transAxes, va="top", color=colour,
            fontsize=LETTERS["title"] + 1, fontweight="bold",
        )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(0, 0.4))
        axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.set_yticks([0, 0.2, 0.4], ["0", "20 %", "40 %"])
    panels[0].set_ylabel("share of year 1's advice", fontsize=LETTERS["label"])
    when = "when it was given" if not number else f"after {number} refit{'s' * (number > 1)}"
    which = "" if settings.repeats == 1 else f" First of {settings.repeats} repetitions."
    figure.suptitle(
        f"Year 1's advice (NICE) {when}; everybody follows advice, every year.\n"
        f"Right of the black line credit is granted.{which}",
        fontsize=LETTERS["title"] + 0.5,
    )
    return figure
