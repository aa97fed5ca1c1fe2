"""German credit over the years: what becomes of advice that people follow, and of one applicant whom others help.

**Advice.** Applicants whom the model refuses are told what to change as if the model stood still. A share of them does
so, the model is retrained on what they hand in, and the advice is judged again. That is done for every label policy,
because it decides the outcome: labels may stay ("keep"), follow the features ("oracle": by the model that fits the
whole table best), or be the operator's own prediction ("relabel"). It is done with the same 1,000 people and one refit,
where nothing but the advice changes the model, and with new applicants every year, whose loans grow.

**One applicant.** Somebody whom the model refuses asks a collective for help, with and without strategic individuals
around, who each game the model for themselves; or goes the shortest way by itself (`applicant`). What
either costs is told beside what it brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import choose
from oar.errors import OptionError
from oar.models import SoftmaxRegression
from oar.online import Window
from oar.worlds.actors.individuals import AdvisedIndividuals
from oar.worlds.operators.plain import Operator
from oar.worlds.people.arrivals import FromBatches, FromPopulation
from oar.worlds.people.labels import KEEP
from oar.worlds.protocol import Array
from oar.worlds.simulate import simulate
from oar.worlds.world import World
from oar_stories.class_probability import chances
from oar_stories.credit.applicant import HELPED, ByItself, asked
from oar_stories.credit.people import GOOD, GOOD_LABEL, NEW, SAME, Advised, asking, loans, nature
from oar_stories.credit.words import (
    ADOPTIONS,
    KEYS,
    NICE,
    POLICIES,
    SHORTEST,
    credit_facts,
    credit_lines,
    credit_summary,
)
from oar_stories.story import OnStage, Scenario, Told, averages

MEASURES = ("next", "first", "all", "accuracy", "refused", "chance", "success", "burden", "effort")
REACH = 6.0  # how far advice may send people, in cost


@dataclass(frozen=True)
class CreditSettings:
    """The settings of the credit scenario.

    Attributes:
        rounds: years. people: new applicants a year. repeats: how often it is done, with other draws.
        share: of applicants who are in the collective. budget: how far each may move, in cost.
        drift: by how many standard deviations loans become larger and longer in a year, where applicants are new.
        penalty: of the bank's logistic regression.
    """

    rounds: int = 8
    people: int = 1000
    repeats: int = 3
    share: float = 0.1
    budget: float = 0.5
    drift: float = 0.03
    penalty: float = 1e-2

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, least in (("rounds", 2), ("people", 100), ("repeats", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"--{name}: must be a whole number of at least {least}, got {value!r}.")
        if not 0 <= self.share <= 1:
            raise OptionError(f"--share: must be a share from 0 to 1, got {self.share!r}.")
        if not (0 <= self.budget < float("inf") and 0 < self.penalty < float("inf")):
            raise OptionError(f"--budget: must be a number of at least 0, got {self.budget!r}.")

    def arrivals(self, come: str) -> FromBatches | FromPopulation:
        """Return who applies."""
        table = loans()
        if choose("come", come, (SAME, NEW)) == SAME:
            return FromBatches([table.population], label=nature)
        return FromPopulation(
            table.population, self.people, groups=table.groups, drift=self.drift * table.drift, label=nature
        )

    def world(self, come: str, labels: str, others: Any = (), **asked: Any) -> World:
        """Return the bank's world."""
        same = loans().population if come == SAME else None
        operator = Operator(SoftmaxRegression(l2=self.penalty), Window(1))
        return World(self.arrivals(come), operator, others=others, labels=labels, history=same, holdout=same, **asked)


@dataclass(frozen=True)
class Case:
    """A world in which advice is given."""

    come: str
    advice: str
    labels: str
    adoption: float

    def actor(self) -> Any:
        """Return those who are advised."""
        if self.advice == NICE:
            return Advised(self.adoption, REACH)
        return AdvisedIndividuals(1.0, GOOD_LABEL, REACH, follow=self.adoption, name="applicants")


def cases() -> Iterator[Case]:
    """Yield every world in which advice is given; where nobody follows it, labels are nobody's business."""
    for come, advice in ((SAME, NICE), (SAME, SHORTEST), (NEW, NICE)):
        yield Case(come, advice, KEEP, 0.0)
        for labels in POLICIES:
            for adoption in ADOPTIONS[1:]:
                yield Case(come, advice, labels, adoption)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores that each year's model gives to the first year's advice: chances of credit, (years + 1, m)."""

    of_advice: Array
    valid: NDArray[np.bool_]


def run_credit(settings: CreditSettings, seed: int, on_stage: OnStage) -> Told:
    """Run every world."""
    from oar_stories.credit.drawing import draw_credit, draw_credit_year

    every = list(cases())
    steps, done = settings.repeats * (len(every) + len(HELPED)), 0
    rows: list[dict[str, Any]] = []
    scores: dict[str, Scores] = {}
    for repeat in range(settings.repeats):
        for case in every:
            on_stage(f"{case.come}, labels {case.labels}, {case.adoption:.0%} follow advice", done, steps)
            found, seen = advised(settings, case, 1000 * seed + repeat)
            rows += [{"repeat": repeat, **row} for row in found]
            if not repeat and (case.come, case.adoption) == (NEW, 1.0):
                scores[case.labels] = seen
            done += 1
        for helped in HELPED:
            on_stage(f"one applicant: {helped}", done, steps)
            rows += [{"repeat": repeat, **row} for row in asked(settings, helped, 1000 * seed + repeat)]
            done += 1
    on_stage("drawing", steps, steps)
    rows = [{name: row.get(name) for name in ("part", *KEYS, "repeat", "year", *MEASURES)} for row in rows]
    means = averages(rows, (*KEYS, "year"), MEASURES)
    after_one = averages(rows, KEYS, MEASURES)  # over years and repetitions
    return Told(
        rows=rows,
        facts=credit_facts(settings, means, after_one),
        header=("advice", "labels", *(f"{adoption:.0%} follow it" for adoption in ADOPTIONS)),
        lines=credit_lines(after_one),
        summary=credit_summary(settings, means, after_one),
        still=lambda: draw_credit(settings, means, after_one),
        film=lambda number: draw_credit_year(settings, scores, number),
        frames=settings.rounds + 1,
    )


def advised(settings: CreditSettings, case: Case, seed: int) -> tuple[list[dict[str, Any]], Scores]:
    """Return what became of advice, year by year, and how the models of the years see that of the first year.

    Where applicants are new every year, what the one who asks can do by itself is told among it.
    """
    world, rounds = settings.world(case.come, case.labels, [case.actor()]), 1 if case.come == SAME else settings.rounds
    model, scores, told = world.operator.model, [], np.zeros((0, 0))
    rows: list[dict[str, Any]] = []
    applicant = ByItself(loans().features[asking()], settings.budget)
    for each in simulate(world, rounds=rounds, seed=seed):
        (act,) = each.acts
        if not each.number:
            assert act.deed.advice is not None
            told = act.deed.advice[0][act.deed.advice[1] == GOOD]
            scores.append(chances(model, each.deployed.parameters, told, GOOD))
        scores.append(chances(model, each.state.parameters, told, GOOD))
        by_round = {one.given: one.valid for one in each.advice}
        done = each.actors[act.name]
        refused = chances(model, each.deployed.parameters, each.crowd.features, GOOD) <= 0.5
        where = {"come": case.come, "labels": case.labels, "adoption": case.adoption, "year": each.number + 1}
        rows.append(
            {
                "part": "advice",
                **where,
                "advice": case.advice,
                "next": by_round.get(each.number),
                "first": by_round.get(0),
                "all": each.validity,
                "accuracy": each.accuracy,
                "refused": float(refused.mean()),
                "burden": done.burden_total / done.moved if done.moved else None,
                "effort": done.burden_total,
            }
        )
        if case.come == NEW:
            rows += [{"part": "applicant", **where, **row} for row in applicant.year(model, each)]
    return rows, Scores(np.array(scores), np.array(scores) > 0.5)


CREDIT = Scenario(
    "credit",
    "German credit: whether advice stays valid when people follow it, and one applicant whom others help",
    CreditSettings(),
    {"rounds": 5, "people": 300, "repeats": 1},
    run_credit,
    parts=("advice", "applicant"),
)
