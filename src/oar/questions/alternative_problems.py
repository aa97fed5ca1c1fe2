"""Ideas for doing the same otherwise: the problem again, with something of an earlier plan forbidden.

They come in turns, so that few tries already go several ways; forbidding goes on from what the last try of the same
kind did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.actions.limits.limit import Limit, Limits
from oar.errors import OARError
from oar.people.wording import counted
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.problem import Problem
from oar.questions.credits.credit import credit

Mask = NDArray[np.bool_]
HALF = 0.5
ROUNDS = 4  # of forbidding ever more


@dataclass(frozen=True, eq=False)
class Idea:
    """A problem to be solved instead.

    Attributes:
        how: what is done otherwise, in words that go on from "a plan".
        make: makes the problem; raises an OARError where limits and what is forbidden contradict each other.
        learn: to be told the result, if there is one.
    """

    how: str
    make: Callable[[], Problem]
    learn: Callable[[Result], None] = lambda result: None

    @cached_property
    def problem(self) -> Problem:
        """The problem."""
        return self.make()


def ideas(problem: Problem, best: Result, seed: int) -> Iterator[Idea]:
    """Walk over ways of doing otherwise than the best plan."""
    useful = _usefulness(best)
    kinds: list[_WithoutColumns | _WithoutTheMostUseful] = [
        *([_WithoutColumns(problem, best)] if problem.people.encoding is not None else []),
        _WithoutTheMostUseful(problem, useful),
    ]
    yield from (kind.next() for kind in kinds if kind.goes_on)
    most = _most_useful(useful, np.floor)
    yield _by(problem, most, f"by the {counted(int(most.sum()), 'most useful member', 'most useful members')} alone")
    if not problem.regresses:
        codes = problem.people.codes(0, problem.people.size)
        for code, label in enumerate(problem.people.classes):
            some = (useful != 0) & (codes == code)
            if some.any() and not some[useful != 0].all():
                yield _by(problem, some, f"by members of class {label!r} alone")
    for _ in range(ROUNDS - 1):
        yield from (kind.next() for kind in kinds if kind.goes_on)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(useful))
    for some, how in zip(np.array_split(order, 2), ("a random half", "the other half"), strict=True):
        yield _by(problem, np.isin(np.arange(useful.size), some), f"by {how} of the members")


def _by(problem: Problem, members: Mask, how: str) -> Idea:
    """Return the problem with participation restricted to these members."""
    mask = problem.allowance.mask
    chosen = members if mask is None else members & mask
    return Idea(how, lambda: problem.with_action(participants=chosen, seed=None))


def _usefulness(result: Result) -> NDArray[np.float64]:
    """Return everyone's first-order credit (n,), or where there is none its effort by weight; 0 for who stays."""
    people = result.problem.people
    try:
        found, useful = credit(result, progress=False), np.zeros(people.size)
        useful[found.members] = found.credits
    except OARError:
        useful = Efforts.of(result.plan).totals * people.row_weights
    return useful


def _most_useful(useful: NDArray[np.float64], rounded: Callable[[float], float]) -> Mask:
    """Return the half of those who do anything who do most; one person at least.

    An odd number is rounded so that what is left is no more than half: it is to differ.
    """
    order = np.argsort(-useful, kind="stable")
    order = order[useful[order] != 0]
    chosen = np.zeros(useful.size, dtype=bool)
    chosen[order[: max(1, int(rounded(HALF * order.size)))]] = True
    return chosen


class _WithoutColumns:
    """Forbid the columns that bear half of the effort of the last plan, and all that were forbidden before."""

    def __init__(self, problem: Problem, best: Result) -> None:
        self._problem, self._forbidden, self.goes_on = problem, [], True  # type: Problem, list[str], bool
        self._learn(best)

    def _learn(self, result: Result) -> None:
        efforts = Efforts.of(result.plan)
        names, costs = efforts.names, efforts.each
        totals = costs.sum(axis=0)
        order = np.argsort(-totals, kind="stable")
        count = int(np.searchsorted(np.cumsum(totals[order]), HALF * totals.sum())) + 1
        self._forbidden += [names[column] for column in order[:count] if totals[column] > 0]
        self.goes_on = True

    def next(self) -> Idea:
        self.goes_on = False  # until a plan says what else there is to forbid
        limits = part_of(self._problem.action, Perturb).limits or Limits()  # type: ignore[union-attr]
        columns = dict(limits.columns) | {name: _stays(limits.columns.get(name)) for name in self._forbidden}
        own = {
            person: {name: limit for name, limit in theirs.items() if name not in self._forbidden}
            for person, theirs in limits.own.items()
        }
        forbidding = dataclasses.replace(limits, columns=columns, own={who: each for who, each in own.items() if each})
        names = ", ".join(self._forbidden)
        return Idea(f"without changing {names}", lambda: self._problem.with_action(limits=forbidding), self._learn)


def _stays(limit: Limit | None) -> Limit:
    """Return a limit that keeps a column as it is; what others say of its cost stays."""
    return Limit(immutable=True) if limit is None else Limit(immutable=True, cost=limit.cost, unit=limit.unit)


class _WithoutTheMostUseful:
    """Leave out the half of the members who did most in the last plan, and all who were left out before."""

    def __init__(self, problem: Problem, useful: NDArray[np.float64]) -> None:
        self._problem, self._out, self.goes_on = problem, _most_useful(useful, np.ceil), True

    def _learn(self, result: Result) -> None:
        self._out |= _most_useful(_usefulness(result), np.ceil)
        self.goes_on = True

    def next(self) -> Idea:
        self.goes_on = False
        how = f"without the {counted(int(self._out.sum()), 'most useful member', 'most useful members')}"
        idea = _by(self._problem, ~self._out, how)
        return dataclasses.replace(idea, learn=self._learn)
