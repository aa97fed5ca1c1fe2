"""The words on the school district's arms: a line of a table for each, and sentences that hold for any settings.

An arm in which nobody acted is not compared with others as if somebody had; nor is a collective whose first reports are
those of the last year, because no class was assigned by a model that they reached. What is equal is not called more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oar_stories.school.actors import STEP
from oar_stories.school.people import H1
from oar_stories.school.worlds import ARMS, ENOUGH, NOBODY, Arm, SchoolSettings

Rows = Sequence[Mapping[str, Any]]
COLLECTIVE, ALIKE, IN_FULL = "collective", "collective, all alike", "collective, in full"
DEFENDED, DEFENDED_ALIKE, DEFENDED_NOBODY = "defended", "defended, all alike", "defended, nobody"


def line_of(arm: Arm, measured: Mapping[str, Any]) -> tuple[str, ...]:
    """Return an arm's line of the table."""
    mean = {name: part["mean"] for name, part in measured.items()}
    low, high = measured["assigned"]["least"], measured["assigned"]["greatest"]
    return (
        arm.words,
        "–" if math.isnan(mean["assigned"]) else f"{mean['assigned']:.0%} ({low:.0%} to {high:.0%})",
        _weight(mean["per_hour"]),
        f"{mean['accuracy']:.0%}",
        f"{mean['acting']:.0%}",
        f"{mean['hours']:.1f}" if mean["acting"] else "–",
        f"{mean['changed_N1']:.0%}, {mean['changed_N2']:.0%}" if mean["acting"] else "–",
    )


def summary(settings: SchoolSettings, rows: Rows, means: Mapping[Any, Any]) -> list[str]:
    """Say what came out, and what did not."""
    story = _Story(settings, rows, means)
    return [
        *_who_did_not_act(story),
        *_shares(story),
        *_weights(story),
        *_who_leaves_out_hours(story),
        *_compared(story),
        *_defence(story),
        *_mass(story),
        *_collateral(story),
    ]


class _Story:
    """Measurements of the last year, and the arms in which somebody acted."""

    def __init__(self, settings: SchoolSettings, rows: Rows, means: Mapping[Any, Any]) -> None:
        self.settings, self.rows, self.last = settings, rows, settings.rounds
        self._means = means
        self.acted = {row["arm"] for row in rows if row["acting"] > 0}
        # Reports are read by the refit after them, so that those of the last year assign nobody any more.
        self.felt = {row["arm"] for row in rows if row["acting"] > 0 and row["year"] < self.last}

    def of(self, arm: str, what: str = "assigned") -> float:
        return float(self._means[arm, self.last][what]["mean"])


def _weight(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")  # + 0.0: nought has no sign of its own


def _who_did_not_act(story: _Story) -> list[str]:
    settings = story.settings
    idle = [arm.words for arm in ARMS if arm.way != NOBODY and arm.name not in story.acted]
    reasons = [
        (settings.since > story.last, f"acting begins in year {settings.since}, after the last"),
        (settings.share == 0, "the share of those who act is 0"),
        (settings.budget == 0, "the budget is 0"),
        (0 < settings.budget < STEP, f"the budget is below {STEP:g} hours, the least by which they change hours"),
    ]
    why = ": " + ", and ".join(words for holds, words in reasons if holds) if any(holds for holds, _ in reasons) else ""
    if idle and not story.acted:
        return [f"Nobody acted in any arm{why}. Arms differ by the defence alone."]
    said = [f"Nobody acted in some arms ({'; '.join(idle)}){why}."] if idle else []
    if COLLECTIVE in story.acted - story.felt:
        said.append(
            f"The collective reported fewer hours in year {story.last} for the first time, which is the last: no class "
            "was assigned by a model that this reached."
        )
    return said


def _shares(story: _Story) -> list[str]:
    if math.isnan(story.of("nobody")):
        return [f"In year {story.last} no district has a high-achieving N2 student, so there are no shares of them."]
    parts = [f"{story.of('nobody'):.0%} of high-achieving N2 students are assigned to {H1} if nobody acts"]
    if "individual" in story.acted:
        parts.append(f"{story.of('individual'):.0%} if individuals do")
    if COLLECTIVE in story.felt:
        parts.append(f"{story.of(COLLECTIVE):.0%} if {H1}'s students under-report together")
    if DEFENDED in story.felt:
        parts.append(f"{story.of(DEFENDED):.0%} if they do and the district defends itself")
    parts.append(f"{story.of(DEFENDED_NOBODY):.0%} if the district defends itself and nobody acts")
    return [f"In year {story.last}, {', '.join(parts[:-1])}, and {parts[-1]}."]


def _weights(story: _Story) -> list[str]:
    ways = {"individual": "individual", COLLECTIVE: "collective"}
    parts = [f"{_weight(story.of('nobody', 'per_hour'))} without action"]
    parts += [
        f"{_weight(story.of(arm, 'per_hour'))} with {way} action" for arm, way in ways.items() if arm in story.felt
    ]
    return [f"The weight of an hour of activities is {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}."]


def _who_leaves_out_hours(story: _Story) -> list[str]:
    ways = {COLLECTIVE: "if OAR's signal says who", ALIKE: "if all members leave out the same"}
    parts = [
        f"{story.of(arm, 'acting'):.0%} {how}, {story.of(arm, 'burden'):.1f} a member on average"
        for arm, how in ways.items()
        if arm in story.acted
    ]
    said = [f"Of all students of year {story.last} hours are left out by {'; '.join(parts)}."] if parts else []
    if ALIKE in story.felt:
        said.append(f"If all leave out the same, the share is {story.of(ALIKE):.0%}.")
    if IN_FULL in story.felt:
        said.append(
            f"If those whom the signal asks leave out all that they may, the share is {story.of(IN_FULL):.0%}, and an "
            f"hour's weight {_weight(story.of(IN_FULL, 'per_hour'))}."
        )
    return [] if math.isnan(story.of("nobody")) else said


def _compared(story: _Story) -> list[str]:
    said = []
    alone, together = story.of("individual"), story.of(COLLECTIVE)
    if "individual" in story.acted and COLLECTIVE in story.felt:
        if alone > together:
            said.append("Individual action got more of them in than collective action.")
        if alone < together:
            said.append("Collective action got more of them in than individual action.")
        if alone == together:
            said.append("Individual and collective action got equally many of them in.")
        right = [f"{story.of(arm, 'accuracy'):.0%} with {arm} action" for arm in ("individual", COLLECTIVE)]
        said.append(f"Accuracy, of all assignments, is {' and '.join(right)}.")
    if "individual" in story.acted:
        stays = ", and leaves the proxy in the model" * (
            "individual" in story.felt and story.of("individual", "per_hour") > 0
        )
        said.append(f"Individual action has to be repeated by every class{stays}.")
    if COLLECTIVE in story.felt and together <= story.of("nobody"):
        said.append("Collective action did not raise the share here.")
    return said


def _defence(story: _Story) -> list[str]:
    said = []
    if {COLLECTIVE, DEFENDED} <= story.felt and story.of(DEFENDED) >= story.of(COLLECTIVE):
        said.append("The defence did not lower the share here.")
    if {DEFENDED_ALIKE, DEFENDED} <= story.felt and story.of(DEFENDED_ALIKE) > story.of(DEFENDED):
        said.append(
            "The signal does not know what the defence does to data: against it, all alike get more, "
            f"{story.of(DEFENDED_ALIKE):.0%}."
        )
    costs = story.of(DEFENDED_NOBODY, "accuracy") < story.of("nobody", "accuracy")
    said.append(
        f"The defence {'costs accuracy' if costs else 'does not cost accuracy here'}: where nobody acts it is "
        f"{story.of(DEFENDED_NOBODY, 'accuracy'):.0%} with the defence, and {story.of('nobody', 'accuracy'):.0%} "
        "without."
    )
    return said


def _mass(story: _Story) -> list[str]:
    """Say how many members it takes, in the first and the last year of acting."""
    if COLLECTIVE not in story.acted:
        return []
    words = []
    for year in dict.fromkeys((story.settings.since, story.last)):
        here = [row for row in story.rows if (row["arm"], row["year"]) == (COLLECTIVE, year)]
        masses = [row["critical_mass"] for row in here if row["acting"] > 0]
        some = [mass for mass in masses if mass > 0]
        parts = [
            (len(here) - len(masses), "nobody acts"),
            (masses.count(0.0), "nobody is needed that year"),
            (len(some), f"{np.mean(some or [0]):.0%} of members are enough"),
            (int(sum(np.isnan(masses))), "all of them are not enough"),
        ]
        told = ", ".join(f"in {count} of {len(here)} districts {what}" for count, what in parts if count)
        words.append(f"in year {year}, {told}")
    return [f"For {ENOUGH:.0%} of those who ask to get {H1} after the year's refit: {'; '.join(words)}."]


def _collateral(story: _Story) -> list[str]:
    """Say what collective action does to others."""
    if COLLECTIVE not in story.acted:
        return []
    points = round(-100 * story.of(COLLECTIVE, "accuracy_fall"))
    where = f"{abs(points)} points {'above' if points > 0 else 'below'}" if points else "within half a point of"
    return [
        f"After year {story.last}'s refit, {story.of(COLLECTIVE, 'changed_N1'):.0%} of N1's students and "
        f"{story.of(COLLECTIVE, 'changed_N2'):.0%} of N2's are assigned otherwise with collective action than had "
        f"nobody acted, and accuracy is {where} what it would be."
    ]
