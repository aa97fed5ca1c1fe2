"""German credit over the years: what becomes of advice that people follow, and of one applicant whom others help.

**Advice.** Applicants whom the model refuses are told what to change as if the model stood still. A share of them does
so, the model is retrained on what they hand in, and the advice is judged again. That is done for every label policy,
because it decides the outcome: labels may stay ("keep"), follow the features ("oracle": by the model that fits the
whole table best), or be the operator's own prediction ("relabel"). It is done with the same 1,000 people and one refit,
where nothing but the advice changes the model, and with new applicants every year, whose loans grow.

**One applicant.** Somebody whom the model refuses asks a collective for help; and the same with strategic individuals
around, who each game the model for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.errors import OptionError, choose
from oar.models import SoftmaxRegression
from oar.online import Window
from oar.problem import Query
from oar.worlds.actors_individuals import AdvisedIndividuals, StrategicIndividuals
from oar.worlds.arrivals import FromBatches, FromPopulation
from oar.worlds.collective import Collective
from oar.worlds.labels import KEEP, ORACLE, RELABEL
from oar.worlds.operator import Operator
from oar.worlds.parts import Array
from oar.worlds.policies import OneShot
from oar.worlds.scenario import OnStage, Scenario, Told, averages, known
from oar.worlds.scenario_chance import chances
from oar.worlds.scenario_credit_people import GOOD, Advised, loans
from oar.worlds.simulate import simulate
from oar.worlds.world import World

SAME, NEW = "same people", "new applicants"
NICE, SHORTEST = "nice", "shortest"
ADVICE = {
    NICE: "columns copied from the nearest who was granted credit",
    SHORTEST: "the shortest way over the boundary",
}
POLICIES = (KEEP, ORACLE, RELABEL)
ADOPTIONS = (0.0, 0.1, 0.5, 1.0)
MEASURES = ("next", "first", "all", "accuracy", "refused", "chance", "success", "burden")
REACH = 6.0  # how far advice may send people, in cost
GOOD_LABEL = "good"
GAMING, GAIN = 0.5, 1.0  # the share of strategic individuals, and how far each goes for credit, in cost
HELPED = ("nobody", "collective", "collective and strategic individuals")


@dataclass(frozen=True)
class CreditSettings:
    """What can be set.

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


@cache
def _nature() -> Array:
    return np.asarray(SoftmaxRegression(l2=1e-3).fit(loans().population))[0]


def nature(features: Array) -> Any:
    """Return the labels that the logistic regression of the whole table finds likelier: the oracle's."""
    found = features @ _nature()[:-1] + _nature()[-1] > 0
    return np.array(loans().classes, dtype=object)[found.astype(np.intp)]


def asking() -> int:
    """Return who asks: somebody who did repay and is refused, more clearly than three quarters of those like that."""
    table = loans()
    scores = table.features @ _nature()[:-1] + _nature()[-1]
    wronged = np.flatnonzero((scores <= 0) & (table.codes == GOOD))
    return int(wronged[np.argsort(scores[wronged], kind="stable")[wronged.size // 4]])


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
    """What the models of the years say of the first year's advice, to be drawn: chances of credit, (years + 1, m)."""

    of_advice: Array
    valid: NDArray[np.bool_]


def run_credit(settings: CreditSettings, seed: int, on_stage: OnStage) -> Told:
    """Run every world."""
    from oar.worlds.draw_credit import draw_credit, draw_credit_year

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
        facts=_facts(settings, means, after_one),
        header=("advice", "labels", *(f"{adoption:.0%} follow it" for adoption in ADOPTIONS)),
        lines=_lines(after_one),
        summary=_summary(settings, means, after_one),
        still=lambda: draw_credit(settings, means, after_one),
        film=lambda number: draw_credit_year(settings, scores, number),
        frames=settings.rounds + 1,
    )


KEYS = ("come", "advice", "labels", "adoption", "helped")


def advised(settings: CreditSettings, case: Case, seed: int) -> tuple[list[dict[str, Any]], Scores]:
    """Return what became of advice, year by year, and how the models of the years see that of the first year."""
    world, rounds = settings.world(case.come, case.labels, [case.actor()]), 1 if case.come == SAME else settings.rounds
    model, rows, scores, told = world.operator.model, [], [], np.zeros((0, 0))
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
        rows.append(
            {
                "part": "advice",
                "come": case.come,
                "advice": case.advice,
                "labels": case.labels,
                "adoption": case.adoption,
                "year": each.number + 1,
                "next": by_round.get(each.number),
                "first": by_round.get(0),
                "all": each.validity,
                "accuracy": each.accuracy,
                "refused": float(refused.mean()),
                "burden": done.burden_total / done.moved if done.moved else None,
            }
        )
    return rows, Scores(np.array(scores), np.array(scores) > 0.5)


def asked(settings: CreditSettings, helped: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what the applicant who asks gets, year by year."""
    query = Query(loans().features[asking()], goal=GOOD_LABEL)
    others = [StrategicIndividuals(GAMING, GOOD_LABEL, GAIN)] if helped == HELPED[2] else []
    collective = Collective("collective", query, Perturb(settings.budget), share=settings.share)
    alone = helped == HELPED[0]
    world = settings.world(NEW, KEEP, others, **({"query": query} if alone else {"collective": collective}))
    policy = None if alone else OneShot()
    for each in simulate(world, policy, rounds=settings.rounds, seed=seed, critical_masses=False):
        (outcome,) = each.outcomes.values()
        yield {
            "part": "applicant",
            "come": NEW,
            "labels": KEEP,
            "helped": helped,
            "year": each.number + 1,
            "accuracy": each.accuracy,
            "chance": float(np.exp(-outcome.loss)),
            "success": float(outcome.success),
            "burden": None if alone else each.actors["collective"].burden_mean,
        }


def _facts(settings: CreditSettings, means: Mapping[Any, Any], overall: Mapping[Any, Any]) -> dict[str, Any]:
    years = range(1, settings.rounds + 1)
    return {
        "oracle": "the likelier label by the logistic regression of the whole table",
        "cases": [
            {
                **{name: value for name, value in zip(KEYS, key, strict=True) if value is not None},
                "all years": known(measured),
                "years": [{"year": year, **known(means[*key, year])} for year in years if (*key, year) in means],
            }
            for key, measured in overall.items()
        ],
    }


def valid(overall: Mapping[Any, Any], come: str, advice: str, labels: str, adoption: float) -> dict[str, float]:
    """Return how much advice is valid after the next refit: mean, least and greatest."""
    return dict(overall[come, advice, labels if adoption else KEEP, adoption, None]["next"])


def _lines(overall: Mapping[Any, Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{come}, {advice}",
            labels,
            *(f"{valid(overall, come, advice, labels, adoption)['mean']:.2f}" for adoption in ADOPTIONS),
        )
        for come, advice in ((SAME, NICE), (SAME, SHORTEST), (NEW, NICE))
        for labels in POLICIES
    ]


def _summary(settings: CreditSettings, means: Mapping[Any, Any], overall: Mapping[Any, Any]) -> list[str]:
    """Say what came out, and what did not."""

    def falls(come: str, advice: str, labels: str) -> str:
        return " → ".join(f"{valid(overall, come, advice, labels, adoption)['mean']:.2f}" for adoption in ADOPTIONS)

    last = [means[NEW, None, KEEP, None, helped, settings.rounds] for helped in HELPED]
    got = [one["chance"]["mean"] for one in last]
    said = [
        "Of advice that 0 / 10 / 50 / 100 % of the same people follow, one refit leaves valid: "
        f"{falls(SAME, SHORTEST, KEEP)} (shortest way) and {falls(SAME, NICE, KEEP)} (NICE) if labels stay, "
        f"{falls(SAME, NICE, ORACLE)} (NICE) if they follow the features.",
        f"In year {settings.rounds} the applicant who asks has a chance of {got[0]:.0%} if nobody helps, "
        f"{got[1]:.0%} with a collective, and {got[2]:.0%} if others game the model meanwhile.",
    ]
    baseline = valid(overall, NEW, NICE, KEEP, 0.0)["mean"]
    if baseline < 0.995:
        said.append(
            f"With new applicants every year {1 - baseline:.0%} of all advice fails at the next refit though nobody "
            "follows it: other people and drift move the model, too."
        )
    if valid(overall, SAME, NICE, ORACLE, 1.0)["mean"] < 0.995:
        said.append("Labels that follow the features do not keep all advice valid here.")
    if got[1] <= got[0]:
        said.append("The collective did not help the applicant here.")
    elif last[1]["success"]["mean"] < 1:
        said.append("The collective did not get the applicant credit in every repetition.")
    return said


CREDIT = Scenario(
    "credit",
    "German credit: whether advice stays valid when people follow it, and one applicant whom others help",
    CreditSettings(),
    {"rounds": 5, "people": 300, "repeats": 1},
    run_credit,
)
