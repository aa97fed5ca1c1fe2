"""The school district, year by year: nobody acts, individuals act, a collective acts, and the district defends itself.

Every arm is one world with the same students and the same chances; what differs is who acts, and whether the operator
defends itself. All numbers are read off the rounds of `oar.worlds.simulate`, whose models are real refits: how a class
is assigned is asked of the model that it meets, and what the class's own deeds change, of the model after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Crowd
from oar.worlds.records.record import Round
from oar.worlds.simulate import simulate
from oar_stories.school.actors import FIRST, Mask, high_second, per_hour
from oar_stories.school.people import ACHIEVEMENT, ACTIVITIES, N1, N2
from oar_stories.school.words import line_of, summary
from oar_stories.school.worlds import ARMS, INDIVIDUALS, STUDENTS, Arm, SchoolSettings
from oar_stories.story import OnStage, Scenario, Told, averages, known

MEASURES = (
    *("assigned", "assigned_N1", "accuracy", "per_hour", "acting", "hours"),
    *("asked", "reached", "critical_mass", "changed_N1", "changed_N2", "accuracy_fall", "burden"),
)


@dataclass(frozen=True, eq=False)
class Year:
    """One class of one arm, to be drawn.

    Attributes:
        crowd: as they are before anybody acts. applied: (n, 2), as they applied, which is what they were assigned by.
        reported: (n, 2), as they reported a year later. assigned: whom the model assigned to ℋ₁.
        parameters: of the model that assigned them. share: of high-achieving 𝒩₂ that it assigned to ℋ₁.
        accuracy: share of all whom it assigned to ℋ₁ just if they would succeed there.
    """

    crowd: Crowd
    applied: Array
    reported: Array
    assigned: Mask
    parameters: Any
    share: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Played:
    """An arm of the first district, to be drawn: its model, and its years."""

    model: Any
    years: tuple[Year, ...]


def run_school(settings: SchoolSettings, seed: int, on_stage: OnStage) -> Told:
    """Run every arm in several districts."""
    from oar_stories.school.drawing import draw_school, draw_school_year

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
        lines=[line_of(arm, means[arm.name, settings.rounds]) for arm in ARMS],
        summary=summary(settings, rows, means),
        still=lambda: draw_school(settings, means, played),
        film=lambda number: draw_school_year(settings, means, played, number),
        frames=settings.rounds,
    )


def seen(played: Round, model: Any, arm: Arm, settings: SchoolSettings) -> tuple[Year, dict[str, Any]]:
    """Return a year to be drawn, and what is measured of it: of how the class was assigned by the model it met."""
    crowd, moves = played.crowd, np.zeros_like(played.crowd.features)
    for act in played.acts:
        if act.deed.moves is not None:
            moves[act.mine] += act.deed.moves
    reported = crowd.features + moves
    # Individuals change before they apply; a collective after it was assigned.
    applied = reported if arm.way == INDIVIDUALS else crowd.features
    parameters = played.deployed.parameters
    assigned = predictions(model, parameters, applied) == FIRST
    second = high_second(crowd, settings.high)
    first = (crowd.groups == N1) & (crowd.features[:, ACHIEVEMENT] >= settings.high)
    hours = np.abs(moves[:, ACTIVITIES])
    measured = {
        "assigned": _mean(assigned[second]),
        "assigned_N1": _mean(assigned[first]),
        "accuracy": _mean(assigned == (crowd.codes == FIRST)),
        "per_hour": per_hour(model, parameters, settings.district),
        "acting": _mean(hours > 0),
        "hours": _mean(hours[hours > 0]),
        **_recorded(played),
    }
    year = Year(crowd, applied, reported, assigned, parameters, measured["assigned"], measured["accuracy"])
    return year, measured


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


SCHOOL = Scenario(
    "school",
    "the paper's school district: a proxy for the neighbourhood, and students who under-report it together",
    SchoolSettings(),
    {"rounds": 7, "people": 150, "repeats": 2},
    run_school,
)
