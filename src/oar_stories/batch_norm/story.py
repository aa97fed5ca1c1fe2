"""The batch-norm footnote: a network that is not trained any more, and flowers of a test batch that act through it.

Small networks are trained on half of Fisher's versicolor and virginica; then they are fixed. A flower of the other half
that they get wrong asks for its true species: one that none of them calls right in a batch of any size before anybody
moves, so that a success is never one that was there already. The other flowers of its test batch may change each of
their four lengths a little, and the network normalises by whatever batch it gets. Nothing is trained and no label is
asked for. Where statistics stay those of training, nobody can do anything: that is the control.

Every number is an audit's: statistics and network are computed again, on the moved batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.datasets import iris
from oar.errors import OptionError
from oar.models import TestTimeBatchNorm
from oar.models.batch_norm.model import Batch
from oar.people import Population
from oar.plans import Result
from oar.problem import Problem, Query
from oar.recourse import collective
from oar.solvers import ProjectedGradient
from oar_stories.story import OnStage, Scenario, Told, averages

Array = NDArray[np.float64]
SPECIES = ("versicolor", "virginica")
TRAINED = 50  # flowers that networks are trained on; the others are tested
HIDDEN, STEPS = 6, 150
SHARES, SIZES, BUDGETS = (0.25, 0.5, 0.75, 1.0), (1 / 8, 1 / 4, 1 / 2, 1.0), tuple(np.linspace(0.0, 1.0, 9))
QUICK_LOOP = ProjectedGradient(max_steps=60, tolerance=1e-4, restarts=0)
MEASURES = ("probability_before", "probability", "gain", "success")
MOST_SPLITS = 100


@dataclass(frozen=True)
class Arm:
    """A network, and whether its statistics are recomputed."""

    name: str
    hidden: tuple[int, ...]
    words: str
    frozen: bool = False

    @property
    def provable(self) -> bool:
        """Whether it can be proved that others cannot help, where they act at all: with one normalised layer."""
        return not self.frozen and len(self.hidden) <= 1


ARMS = (
    Arm("features", (), "normalised features (exact)"),
    Arm("hidden", (HIDDEN,), "one normalised hidden layer"),
    Arm("deep", (HIDDEN, HIDDEN), "two normalised hidden layers"),
    Arm("frozen", (), "frozen statistics", frozen=True),
)


EXACT = tuple(arm.name for arm in ARMS if not arm.hidden)


@dataclass(frozen=True, order=True)
class Point:
    """A point of the study: the batch's size, the share of it that acts, and how far each length may change."""

    people: int
    share: float
    budget: float


@dataclass(frozen=True)
class BatchNormSettings:
    """The settings of the batch-norm scenario.

    Attributes:
        people: flowers in the largest test batch beside the one that asks; smaller ones have ½, ¼ and ⅛ of them.
        budget: the most that each length may change by, in cm.
        hidden: the most hidden layers that networks have, of 0, 1 and 2.
        repeats: divisions into training and test flowers, each with networks and a flower that asks.
    """

    people: int = 40
    budget: float = 0.4
    hidden: int = 2
    repeats: int = 4

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, least, most in (("people", 8, 49), ("hidden", 0, 2), ("repeats", 1, MOST_SPLITS)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise OptionError(f"--{name}: must be a whole number from {least} to {most}, got {value!r}.")
        if not 0 < self.budget < float("inf"):
            raise OptionError(f"--budget: must be a number above 0, got {self.budget!r}.")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The networks that are looked at."""
        return tuple(arm for arm in ARMS if len(arm.hidden) <= self.hidden)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of batches."""
        return tuple(round(part * self.people) for part in SIZES)

    @property
    def budgets(self) -> tuple[float, ...]:
        """By how much lengths may change."""
        return tuple(round(float(part) * self.budget, 9) for part in BUDGETS)

    @property
    def middle(self) -> Point:
        """The point where curves cross: the largest batch, everybody, half of the budget."""
        return Point(self.people, 1.0, self.budgets[len(BUDGETS) // 2])

    def curves(self) -> set[Point]:
        """Return the points of all curves: one of size, share and budget varies."""
        middle = self.middle
        found = {replace(middle, people=size) for size in self.sizes}
        found |= {replace(middle, share=share) for share in SHARES}
        return found | {replace(middle, budget=budget) for budget in self.budgets}

    def every(self) -> set[Point]:
        """Return every size with every share and every budget."""
        return {Point(size, share, budget) for size in self.sizes for share in SHARES for budget in self.budgets}


@dataclass(frozen=True, eq=False)
class Case:
    """One division of the flowers: trained networks by arm, the test batch (n, d), who asks, and what for."""

    models: Mapping[str, TestTimeBatchNorm]
    batch: Array
    query: Array
    goal: str
    names: tuple[str, ...]

    def problem(self, arm: str, point: Point) -> Problem:
        """Return what is asked: the first so many of the batch act."""
        acts = np.arange(point.people) < round(point.share * point.people)
        people = Population(self.batch[: point.people], ["unlabelled"] * point.people)
        action = Perturb(point.budget, norm=np.inf, participants=acts)
        return Problem(people, self.models[arm], Query(self.query, self.goal), action)

    def highest_before(self, sizes: tuple[int, ...]) -> float:
        """Return the highest chance that any network gives to the truth before anybody moves, in batches of any size.

        A batch may call a flower right merely by who is in it. Below ½ here, nothing of what comes of moves was there
        before them.
        """
        batches = [Batch(self.batch[:size], np.ones(size)) for size in sizes]
        return max(
            float(model.probabilities(batch, self.query)[model.classes.index(self.goal)])
            for model in self.models.values()
            for batch in batches
        )

    def planned(self, arm: str, point: Point) -> Result:
        """Return the audited plan; the exact one where there is one."""
        exact = arm in EXACT
        return collective(self.problem(arm, point), solver="exact" if exact else QUICK_LOOP, progress=False)


def cases(settings: BatchNormSettings, seed: int) -> Iterator[Case]:
    """Yield divisions of the flowers in which every network calls some test flower wrong, in a batch of every size."""
    flowers = iris()
    some = np.flatnonzero(np.isin(flowers.labels, [flowers.class_names.index(name) for name in SPECIES]))
    features, names = flowers.features[some], np.array(flowers.class_names)[flowers.labels[some]]
    for split in range(MOST_SPLITS):
        order = np.random.default_rng([seed, split]).permutation(some.size)
        training, test = order[:TRAINED], order[TRAINED:]
        models = _trained(settings.arms, features[training], names[training], split)
        every = [
            Case(models, np.delete(features[test], asks, axis=0)[: settings.people], query, goal, flowers.feature_names)
            for asks, (query, goal) in enumerate(zip(features[test], names[test].tolist(), strict=True))
        ]
        chances = [case.highest_before(settings.sizes) for case in every]
        if min(chances) < 0.5:
            yield every[int(np.argmin(chances))]


def _trained(arms: tuple[Arm, ...], features: Array, names: NDArray[Any], seed: int) -> dict[str, TestTimeBatchNorm]:
    """Return each arm's network; the frozen one is that of the features, with the statistics of training."""
    found: dict[str, TestTimeBatchNorm] = {}
    for arm in arms:
        if arm.frozen:
            found[arm.name] = replace(found["features"], momentum=0.0)
        else:
            found[arm.name] = TestTimeBatchNorm.trained(features, names, arm.hidden, seed=seed, steps=STEPS)
    return found


def run_batchnorm(settings: BatchNormSettings, seed: int, on_stage: OnStage) -> Told:
    """Plan and audit at every point of the curves, for every network; at every point there is, for the exact one."""
    from oar_stories.batch_norm.drawing import draw_batchnorm, draw_batchnorm_step

    rows: list[dict[str, Any]] = []
    arms, first, found = settings.arms, None, 0
    steps = len(arms) * settings.repeats
    on_stage("training networks", 0, steps)
    for repeat, case in zip(range(settings.repeats), cases(settings, seed), strict=False):
        first, found = first or case, repeat + 1
        for number, arm in enumerate(arms):
            on_stage(f"flower {repeat + 1}: {arm.words}", repeat * len(arms) + number, steps)
            for point in sorted(settings.every() if arm.name == "features" else settings.curves()):
                rows.append(_row(arm, repeat, point, case.planned(arm.name, point)))
    if first is None:
        raise OptionError(
            f"--seed: some flower must be called wrong by all networks in batches of every size, got {seed}, with none."
        )
    on_stage("drawing", steps, steps)
    means = averages(rows, ("arm", "people", "share", "budget"), MEASURES)
    shown, ran = first, replace(settings, repeats=found)
    return Told(
        rows=rows,
        facts={"arms": {arm.name: {"about": arm.words, "points": _points(means, arm)} for arm in arms}},
        header=("network", "before", "probability of its species", "successes", "proved optimal"),
        lines=[_line(arm, rows, settings) for arm in arms],
        summary=_summary(settings, rows),
        still=lambda: draw_batchnorm(ran, means),
        film=lambda number: draw_batchnorm_step(ran, shown, number),
        frames=len(settings.budgets),
    )


def batchnorm(seed: int = 0, **settings: Any) -> Told:
    """Run the scenario; settings are those of `BatchNormSettings`."""
    return run_batchnorm(BATCHNORM.with_settings(settings), seed, lambda *_: None)


def _row(arm: Arm, repeat: int, point: Point, result: Result) -> dict[str, Any]:
    told = result.audit.queries[0]
    before, after = told.probability_before, told.probability
    assert before is not None  # networks give probabilities
    assert after is not None
    return {
        "arm": arm.name,
        "repeat": repeat,
        "people": point.people,
        "share": point.share,
        "budget": point.budget,
        "probability_before": before,
        "probability": after,
        "gain": after - before,
        "success": result.success,
        "exact": result.exact,
        "impossible": result.impossible and not result.success,
        "movers": result.audit.movers,
    }


def _points(means: Mapping[Any, Any], arm: Arm) -> list[dict[str, Any]]:
    return [
        {"people": people, "share": share, "budget": budget, **found}
        for (name, people, share, budget), found in means.items()
        if name == arm.name
    ]


def _at_most(rows: list[dict[str, Any]], arm: Arm, settings: BatchNormSettings) -> list[dict[str, Any]]:
    """Return an arm's rows where everybody in the largest batch does all it may."""
    return [
        row
        for row in rows
        if (row["arm"], row["people"], row["share"], row["budget"])
        == (arm.name, settings.people, 1.0, settings.budgets[-1])
    ]


def _line(arm: Arm, rows: list[dict[str, Any]], settings: BatchNormSettings) -> tuple[str, ...]:
    """Return what came of an arm with the whole batch and the whole budget."""
    found = _at_most(rows, arm, settings)

    def mean(name: str) -> float:
        return float(np.mean([row[name] for row in found]))

    proved = sum(row["exact"] for row in found)
    reached = sum(row["success"] for row in found)
    return (
        arm.words,
        f"{mean('probability_before'):.0%}",
        f"{mean('probability'):.0%}",
        f"{reached} of {len(found)}",
        f"{proved} of {len(found)}",
    )


def _summary(settings: BatchNormSettings, rows: list[dict[str, Any]]) -> list[str]:
    """Say what came out, and what did not."""
    top = settings.budgets[-1]
    said = []
    for arm in settings.arms:
        found = _at_most(rows, arm, settings)
        reached = sum(row["success"] for row in found)
        before, after = (np.mean([row[name] for row in found]) for name in ("probability_before", "probability"))
        said.append(
            f"{arm.words.capitalize()}: with {settings.people} flowers that change each length by up to {top:g} cm, "
            f"the true species' probability goes from {before:.0%} to {after:.0%}, and {reached} of {len(found)} "
            "flowers get it."
        )
    said.append("None of these flowers was called right already, before anybody moved, in a batch of any size.")
    provable = {arm.name for arm in settings.arms if arm.provable}
    tried = [
        row for row in rows if row["arm"] in provable and row["budget"] > 0 and round(row["share"] * row["people"]) > 0
    ]
    said.append(
        f"In {sum(row['impossible'] for row in tried)} of the {len(tried)} cases with one normalised layer in which "
        "others may move, it is proved that no moves within the limits are enough"
        + ("; with two layers nothing could prove that." if settings.hidden > 1 else ".")
    )
    repeats = len({row["repeat"] for row in rows})
    if repeats < settings.repeats:
        said.append(
            f"Only {repeats} of {settings.repeats} divisions are told: in the others of {MOST_SPLITS}, no flower is "
            "called wrong by every network in batches of every size."
        )
    return said


BATCHNORM = Scenario(
    "batchnorm",
    "a fixed network that normalises by its test batch: other flowers of the batch change what one is taken for",
    BatchNormSettings(),
    {"people": 16, "hidden": 1, "repeats": 1},
    run_batchnorm,
)
