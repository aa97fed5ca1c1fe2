"""Figure 2 for every model: does collective action beat individual action beyond nearest centroid?

Every point is solved and audited by the front door (`oar.individual`, `oar.collective`): moves are made, the model is
refitted from scratch, and the query is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from oar.checks import need_jax
from oar.plans import Result
from oar.problem import Problem
from oar.recourse import collective, individual
from oar_paper.other_models.cases import Arena, Contender, ExtendedSettings, arenas

WAYS = ("individual", "collective", "one_shot")
Way = Callable[[Problem], Result]


@dataclass(frozen=True)
class Point:
    """One audited result.

    Attributes:
        place: ε, or the share that takes part.
        loss, success: audited. claimed: the loss that the solver expected.
        gap: the solver's first-order certificate. finished: whether it closed. status: in a word.
    """

    place: float
    loss: float
    success: bool
    claimed: float
    gap: float
    finished: bool
    steps: int
    status: str


@dataclass(frozen=True)
class BreakEven:
    """From `at` on (audited there and at every larger share tried) the collective beats the individual.

    `above` is the largest share tried where it did not: the answer lies between the two.
    """

    above: float
    at: float


@dataclass(frozen=True)
class Cell:
    """One model on one data set.

    Attributes:
        people: how many people the model is trained on; sampled: whether these are a random sample.
        guaranteed: whether the collective cannot do worse where everyone takes part.
        before: the loss without any move.
        budgets: points along ε with everyone taking part, by way of recourse.
        shares: points along the share that takes part, at ε = share_budget; the individual needs nobody.
        break_even: None where the collective does not beat the individual even with everyone.
    """

    data: str
    model: str
    title: str
    people: int
    sampled: bool
    guaranteed: bool
    before: float
    budgets: dict[str, list[Point]]
    share_budget: float
    shares: dict[str, list[Point]]
    break_even: BreakEven | None

    @property
    def individual(self) -> Point:
        """The individual's result at the budget of the second axis."""
        return next(point for point in self.budgets["individual"] if point.place == self.share_budget)

    @property
    def points(self) -> list[Point]:
        """Every audited point."""
        return [point for axis in (self.budgets, self.shares) for way in axis.values() for point in way]


@dataclass(frozen=True)
class Extended:
    """All models on all data sets."""

    settings: ExtendedSettings
    data: dict[str, dict[str, str]]
    cells: list[Cell]

    def of(self, data: str) -> list[Cell]:
        """Return one data set's cells, in the order of the models."""
        return [cell for cell in self.cells if cell.data == data]


def extended_stages(settings: ExtendedSettings) -> tuple[str, ...]:
    """Return what `find_extended` announces, in order."""
    titles = ("Iris", "MNIST")[: len(arenas(settings))]
    return tuple(f"{title}: {' '.join(one.title.split())}" for title in titles for one in settings.contenders)


def find_extended(settings: ExtendedSettings, on_cell: Callable[[int], None] | None = None) -> Extended:
    """Solve and audit everything; `on_cell(number)` is called before every cell."""
    need_jax("oar reproduce --extended")
    data: dict[str, dict[str, str]] = {}
    cells: list[Cell] = []
    for make in arenas(settings):
        arena = make(settings.seed)
        data[arena.key] = {"title": arena.title, "pair": arena.pair, "preparation": arena.preparation}
        for contender in settings.contenders:
            if on_cell is not None:
                on_cell(len(cells))
            with np.errstate(over="ignore", invalid="ignore"):  # training tries rates that are too high, and recovers
                cells.append(study(arena, contender, settings))
    return Extended(settings, data, cells)


def study(arena: Arena, contender: Contender, settings: ExtendedSettings) -> Cell:
    """Solve and audit one model on one data set, along both axes."""
    ways: dict[str, Way] = {
        "individual": lambda problem: individual(problem, solver=contender.alone),
        "collective": lambda problem: collective(problem, solver=contender.together),
        "one_shot": lambda problem: collective(problem, solver=contender.one_shot),
    }

    def run(way: str, budget: float, share: float = 1.0) -> Result:
        return ways[way](arena.problem(contender, budget, share))

    results = {way: {budget: run(way, budget) for budget in settings.budgets} for way in WAYS}
    budgets = {way: [_point(budget, result) for budget, result in row.items()] for way, row in results.items()}
    fixed, everyone = settings.share_budget, results["collective"][settings.share_budget]
    rival = results["individual"][fixed].loss

    def at(way: str, share: float) -> Point:
        return _point(share, run(way, fixed, share))

    shares = {
        way: [*(at(way, share) for share in settings.shares), _point(1.0, results[way][fixed])]
        for way in ("collective", "one_shot")
    }
    together = shares["collective"]
    together += _halvings(together, rival, contender.bisections, lambda share: at("collective", share))
    together.sort(key=lambda point: point.place)
    people = arena.people(arena.count(contender)).size
    return Cell(
        data=arena.key,
        model=contender.key,
        title=contender.title,
        people=people,
        sampled=people < len(arena.features),
        guaranteed=contender.guaranteed,
        before=everyone.loss_before,
        budgets=budgets,
        share_budget=fixed,
        shares=shares,
        break_even=break_even(together, rival),
    )


def break_even(points: list[Point], rival: float) -> BreakEven | None:
    """Return the share from which on, among those tried, the collective's loss is below the rival's."""
    found = None
    for point in sorted(points, key=lambda point: -point.place):
        if point.loss >= rival:
            return found and BreakEven(point.place, found.at)
        found = BreakEven(0.0, point.place)
    return found


def _halvings(points: list[Point], rival: float, times: int, at: Callable[[float], Point]) -> Iterator[Point]:
    """Yield points that halve the interval of the break-even share."""
    between = break_even(points, rival)
    if between is None:
        return
    low, high = between.above, between.at
    for _ in range(times):
        point = at(0.5 * (low + high))
        low, high = (low, point.place) if point.loss < rival else (point.place, high)
        yield point


def _point(place: float, result: Result) -> Point:
    proposal = result.proposal
    return Point(
        place=place,
        loss=result.loss,
        success=result.success,
        claimed=proposal.claimed_loss,
        gap=result.gap,
        finished=proposal.finished,
        steps=proposal.steps,
        status=str(result.status),
    )
