"""The school district, year by year: nobody acts, individuals act, a collective acts, and the district defends itself.

Every arm is one world with the same students and the same chances; what differs is who acts, and whether the operator
defends itself. All numbers are read off the rounds of `oar.worlds.simulate`, whose models are real refits: how a class
is assigned is asked of the model that it meets, and what the class's own deeds change, of the model after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.worlds.judging import predictions
from oar.worlds.parts import Array, Crowd
from oar.worlds.record import Round
from oar.worlds.scenario import OnStage, Scenario, Told, averages, known
from oar.worlds.scenario_school_actors import FIRST, Mask, high_second, per_hour
from oar.worlds.scenario_school_people import ACHIEVEMENT, ACTIVITIES, H1, N1, N2
from oar.worlds.scenario_school_worlds import ARMS, ENOUGH, INDIVIDUALS, STUDENTS, Arm, SchoolSettings
from oar.worlds.simulate import simulate

MEASURES = (
    *("share", "share_N1", "accuracy", "per_hour", "acting", "hours"),
    *("asked", "reached", "critical_mass", "changed_N1", "changed_N2", "accuracy_fall", "burden"),
)


@dataclass(frozen=True, eq=False)
class Year:
    """One class of one arm, to be drawn.

    Attributes:
        crowd: as they are. reported: (n, 2), as they handed it in. assigned: who was assigned to ℋ₁.
        parameters: of the model that assigned them. share: of high-achieving 𝒩₂ that it assigned to ℋ₁.
    """

    crowd: Crowd
    reported: Array
    assigned: Mask
    parameters: Any
    share: float


@dataclass(frozen=True, eq=False)
class Played:
    """An arm of the first district, to be drawn: its model, and its years."""

    model: Any
    years: tuple[Year, ...]


def run_school(settings: SchoolSettings, seed: int, on_stage: OnStage) -> Told:
    """Run every arm in several districts."""
    from oar.worlds.draw_school import draw_school, draw_school_year

    rows: list[dict[str, Any]] = []
    played: dict[str, Played] = {}
    steps, done = len(ARMS) * settings.repeats, 0
    for repeat in range(settings.repeats):
        for arm in ARMS:
            on_stage(f"district {repeat + 1}: {arm.words}", done, steps)
            world = settings.world(arm, 1000 * seed + repeat)
            years = []
            for each in simulate(world, settings.policy(arm), rounds=settings.rounds, seed=1000 * seed + repeat):
                year, measured = seen(each, world.operator.model, arm, settings)
                rows.append({"arm": arm.name, "repeat": repeat, "year": each.number + 1, **measured})
                years.append(year)
            if not repeat:
                played[arm.name] = Played(world.operator.model, tuple(years))
            done += 1
    on_stage("drawing", steps, steps)
    means = averages(rows, ("arm", "year"), MEASURES)
    facts = {
        "arms": {
            arm.name: {
                "about": arm.words,
                "years": [{"year": year, **known(means[arm.name, year])} for year in range(1, settings.rounds + 1)],
            }
            for arm in ARMS
        }
    }
    return Told(
        rows=rows,
        facts=facts,
        header=("arm", "high-achieving N2 in H1", "hour's weight", "accuracy", "acting", "hours", "changed in N1, N2"),
        lines=[_line(arm, means[arm.name, settings.rounds]) for arm in ARMS],
        summary=_summary(settings, means) + _mass_and_collateral(settings, rows, means),
        still=lambda: draw_school(settings, means, played),
        film=lambda number: draw_school_year(settings, played, number),
        frames=settings.rounds,
    )


def seen(played: Round, model: Any, arm: Arm, settings: SchoolSettings) -> tuple[Year, dict[str, Any]]:
    """Return a year to be drawn, and what is measured of it: of how the class was assigned by the model it met."""
    crowd, moves = played.crowd, np.zeros_like(played.crowd.features)
    for act in played.acts:
        if act.deed.moves is not None:
            moves[act.mine] += act.deed.moves
    # Individuals change before they apply; a collective after it was assigned.
    applied = crowd.features + moves if arm.way == INDIVIDUALS else crowd.features
    parameters = played.deployed.parameters
    assigned = predictions(model, parameters, applied) == FIRST
    plainly = predictions(model, parameters, crowd.features) == FIRST
    second = high_second(crowd, settings.high)
    first = (crowd.groups == N1) & (crowd.features[:, ACHIEVEMENT] >= settings.high)
    hours = np.abs(moves[:, ACTIVITIES])
    measured = {
        "share": _mean(assigned[second]),
        "share_N1": _mean(assigned[first]),
        "accuracy": _mean(plainly == (crowd.codes == FIRST)),
        "per_hour": per_hour(model, parameters, settings.district),
        "acting": _mean(hours > 0),
        "hours": _mean(hours[hours > 0]),
        **_recorded(played),
    }
    return Year(crowd, crowd.features + moves, assigned, parameters, measured["share"]), measured


def _recorded(played: Round) -> dict[str, float]:
    """Return what the world itself writes down: of the model after the year, and against the one had nobody acted."""
    (outcome,), nothing = played.outcomes.values(), float("nan")
    changed = {group: record.changed for group, record in played.groups.items()}
    return {
        "asked": _mean(outcome.reached),
        "reached": float(outcome.success),
        "critical_mass": played.critical_mass.get(STUDENTS, nothing),
        "changed_N1": changed.get(N1, nothing),
        "changed_N2": changed.get(N2, nothing),
        "accuracy_fall": played.accuracy_fall,
        "burden": sum(each.burden_mean for each in played.actors.values()),  # there is at most one
    }


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _line(arm: Arm, measured: Mapping[str, Any]) -> tuple[str, ...]:
    mean = {name: part["mean"] for name, part in measured.items()}
    low, high = measured["share"]["least"], measured["share"]["greatest"]
    return (
        arm.words,
        f"{mean['share']:.0%} ({low:.0%} to {high:.0%})",
        f"{mean['per_hour']:+.2f}".replace("-", "−"),
        f"{mean['accuracy']:.0%}",
        f"{mean['acting']:.0%}",
        f"{mean['hours']:.1f}" if mean["acting"] else "–",
        f"{mean['changed_N1']:.0%}, {mean['changed_N2']:.0%}" if mean["acting"] else "–",
    )


def _summary(settings: SchoolSettings, means: Mapping[Any, Any]) -> list[str]:
    """Say what came out, and what did not."""
    last = {arm.name: means[arm.name, settings.rounds] for arm in ARMS}

    def of(arm: str, what: str = "share") -> float:
        return float(last[arm][what]["mean"])

    said = [
        f"In year {settings.rounds}, {of('nobody'):.0%} of high-achieving N2 students are assigned to {H1} if nobody "
        f"acts, {of('individual'):.0%} if individuals do, {of('collective'):.0%} if {H1}'s students under-report "
        f"together, and {of('defended'):.0%} if the district defends itself against that."
    ]
    weight = f"{of('individual', 'per_hour'):+.2f} with individual action and {of('collective', 'per_hour'):+.2f} with"
    said.append(
        f"The weight of an hour of activities is {of('nobody', 'per_hour'):+.2f} without action, {weight} collective "
        "action.".replace("-", "−")
    )
    signal, alike = of("collective", "acting"), of("collective, all alike", "acting")
    said.append(
        f"OAR's signal asks {signal:.0%} of students to leave out hours, {of('collective', 'burden'):.1f} a member on "
        f"average. If all members leave out the same, {alike:.0%} do, {of('collective, all alike', 'burden'):.1f} a "
        f"member, and the share is {of('collective, all alike'):.0%}; if those whom the signal asks leave out all that "
        f"they may, it is {of('collective, in full'):.0%}, and an hour's weight "
        f"{of('collective, in full', 'per_hour'):+.2f}.".replace("-", "−")
    )
    if of("individual") >= of("collective"):
        said.append(
            "Individual action got more of them in; it has to be repeated by every class, and leaves the "
            "proxy in the model."
        )
    if of("collective") <= of("nobody"):
        said.append("Collective action did not raise the share here.")
    if of("defended") >= of("collective"):
        said.append("The defence did not lower the share here.")
    if of("defended, all alike") > of("defended"):
        said.append(
            "The signal does not know what the defence does to data: against it, all alike get more, "
            f"{of('defended, all alike'):.0%}."
        )
    if of("defended, nobody", "accuracy") < of("nobody", "accuracy"):
        said.append(
            f"The defence costs: where nobody acts, accuracy is {of('defended, nobody', 'accuracy'):.0%} with it and "
            f"{of('nobody', 'accuracy'):.0%} without."
        )
    return said


def _mass_and_collateral(
    settings: SchoolSettings, rows: Sequence[Mapping[str, Any]], means: Mapping[Any, Any]
) -> list[str]:
    """Say how many members it takes, and what collective action does to others."""
    first, last = min(settings.since, settings.rounds), settings.rounds
    words = []
    for year in dict.fromkeys((first, last)):
        here = [row["critical_mass"] for row in rows if (row["arm"], row["year"]) == ("collective", year)]
        some = [mass for mass in here if mass > 0]
        parts = [
            (here.count(0.0), "nobody is needed that year"),
            (len(some), f"{np.mean(some or [0]):.0%} of members are enough"),
            (sum(np.isnan(here)), "all of them are not enough"),
        ]
        told = ", ".join(f"in {count} of {len(here)} districts {what}" for count, what in parts if count)
        words.append(f"in year {year}, {told}")
    after = {name: part["mean"] for name, part in means["collective", last].items()}
    better = "above" if after["accuracy_fall"] <= 0 else "below"
    return [
        f"For {ENOUGH:.0%} of those who ask to get {H1} after the year's refit: {'; '.join(words)}.",
        f"With collective action {after['changed_N1']:.0%} of N1's students and {after['changed_N2']:.0%} of N2's are "
        f"assigned otherwise than had nobody acted, and accuracy is {100 * abs(after['accuracy_fall']):.0f} points "
        f"{better} what it would be.",
    ]


SCHOOL = Scenario(
    "school",
    "the paper's school district: a proxy for the neighbourhood, and students who under-report it together",
    SchoolSettings(),
    {"rounds": 7, "people": 150, "repeats": 2},
    run_school,
)
