"""Other plans for the same end, that really differ: in which columns move, or in who moves.

The best plan that is found comes first. Then its problem is put again with something of it forbidden: the columns that
bear most of the effort, the members who did most (by first-order credit), everybody else, all classes but one, a random
half. Each is solved and audited like any other.

Two plans differ by the larger of two distances from 0 to 1:

    columns   ½ Σ_j |a_j − b_j|            between the shares of the effort that columns bear (total variation)
    people    1 − |A ∩ B| / |A ∪ B|        between those who move (Jaccard)

and count as different from DIFFERENT on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.actions.limits.limit import Limit, Limits
from oar.checks import check_seed, check_whole, with_near_names
from oar.errors import OARError
from oar.people.wording import counted
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.problem import Problem
from oar.progress import Progress
from oar.questions.collateral import Collateral, collateral
from oar.questions.credit import credit
from oar.recourse import collective
from oar.typing import SolverLike

DIFFERENT = 0.5
SHOWN = 3  # columns that are named
MOST_TRIED = 12  # problems that are solved at the most, the first included
Mask = NDArray[np.bool_]
HALF = 0.5
ROUNDS = 4  # of forbidding ever more


@dataclass(frozen=True, eq=False)
class Alternative:
    """One plan among others.

    Attributes:
        how: what it does differently, in words.
        result: the audited result.
        profile: (m,) the share of all effort that each column bears. movers: (n,) who moves.
        columns: the columns' names.
    """

    how: str
    result: Result
    profile: NDArray[np.float64]
    movers: NDArray[np.bool_]
    columns: tuple[str, ...]

    @staticmethod
    def of(how: str, result: Result) -> Alternative:
        """Look at who does what in a result's plan."""
        efforts = Efforts.of(result.plan)
        columns, costs = efforts.names, efforts.each
        total = costs.sum()
        profile = costs.sum(axis=0) / total if total else np.zeros(len(columns))
        return Alternative(how, result, profile, np.asarray(costs.any(axis=1)), columns)

    @cached_property
    def collateral(self) -> Collateral:
        """The side effects of the plan."""
        return collateral(self.result)

    @property
    def features(self) -> str:
        """The columns that bear most of the effort, in words."""
        most = [column for column in np.argsort(-self.profile, kind="stable")[:SHOWN] if self.profile[column] > 0]
        return ", ".join(f"{self.columns[column]} {self.profile[column]:.0%}" for column in most)

    def distance(self, other: Alternative) -> float:
        """Return how far two plans differ, from 0 to 1: in columns or in people, whichever is more."""
        either = int((self.movers | other.movers).sum())
        people = 1 - int((self.movers & other.movers).sum()) / either if either else 0.0
        return max(0.5 * float(np.abs(self.profile - other.profile).sum()), people)


@dataclass(frozen=True, eq=False)
class Alternatives(ShownAsText):
    """Plans that differ: the best one that was found, then those that succeed by effort, then others by goal loss.

    Attributes:
        plans: the plans.
        asked: the number of plans that were requested.
        tried: how many problems were solved.
        dropped: what was tried and left out, in words.
    """

    plans: tuple[Alternative, ...]
    asked: int
    tried: int
    dropped: tuple[str, ...]

    def __len__(self) -> int:
        """Count the plans."""
        return len(self.plans)

    def __iter__(self) -> Iterator[Alternative]:
        """Walk over the plans."""
        return iter(self.plans)

    def __getitem__(self, position: int) -> Alternative:
        """Return a plan by its position."""
        return self.plans[position]

    @property
    def explanation(self) -> str:
        """The number of plans found, and the fate of whatever else was tried."""
        found = f"{counted(len(self), 'plan was', 'plans that differ were')} found of {self.asked} asked for"
        return " ".join([f"{found}; {counted(self.tried, 'problem was', 'problems were')} solved.", *self.dropped])

    def frame(self) -> Any:
        """Return a DataFrame with one row a plan, and what it costs.

        Columns are plan (what it does otherwise), success, goal loss, effort, people (who move), collateral (bystanders
        whose predictions change), actors changed (whose predictions change among those whose own data do), features
        (that bear most of the effort) and distance (from the nearest other plan). A plan that asks everybody leaves no
        bystanders: compare both counts.
        """
        import pandas

        each: dict[str, Callable[[Alternative], Any]] = {
            "plan": lambda plan: plan.how,
            "success": lambda plan: plan.result.success,
            "goal loss": lambda plan: plan.result.loss,
            "effort": lambda plan: plan.result.audit.effort,
            "people": lambda plan: plan.result.audit.movers,
            "collateral": lambda plan: plan.collateral.bystanders.changed,
            "actors changed": lambda plan: plan.collateral.actors.changed,
            "features": lambda plan: plan.features,
            "distance": lambda plan: min((plan.distance(one) for one in self.plans if one is not plan), default=np.nan),
        }
        columns = {name: [told(plan) for plan in self.plans] for name, told in each.items()}
        return pandas.DataFrame(columns, index=pandas.RangeIndex(1, len(self) + 1))

    def plot(self) -> Any:
        """Return a matplotlib Figure: effort and people of every plan, whether it succeeds, and its collateral."""
        from oar.questions.plots import draw_alternatives

        return draw_alternatives(self)

    def __str__(self) -> str:
        """Show the table and the explanation."""
        if not self.plans:
            return self.explanation
        return f"{self.frame().to_string(float_format='{:.4g}'.format)}\n\n{self.explanation}"

    def __repr__(self) -> str:
        """Show how many there are, in one line."""
        succeed = sum(plan.result.success for plan in self.plans)
        return f"Alternatives({len(self)} of {self.asked} asked for, {succeed} succeed)"


@with_near_names
def alternatives(
    problem: Problem, n: int = 3, *, seed: int = 0, solver: SolverLike = "auto", progress: Progress = None
) -> Alternatives:
    """Return up to n plans for the same goal that differ substantially in which columns or who moves, with their costs.

    Fewer are returned where fewer are found, which is no proof that there are none; `explanation` lists what was left
    out.

    Args:
        problem: the problem, with moves alone.
        n: how many plans, the best one included.
        seed: of the random halves of the members.
        solver: as in `oar.collective`.
        progress: as in `oar.collective`.
    """
    check_whole("n", n, 1)
    check_seed(seed)
    problem.only_moves("oar.questions.alternatives")
    best = Alternative.of("the best found", collective(problem, solver=solver, progress=progress))
    if not best.movers.any():
        return Alternatives((), int(n), 1, (f"No member moves in the best plan. {best.result.explanation}",))
    found, dropped, tried = [best], [], 1
    for idea in ideas(problem, best.result, seed) if n > 1 else ():
        if tried == MOST_TRIED or _enough(best, found, n):
            break
        tried += 1
        plan = _solved(idea, solver, progress)
        if isinstance(plan, str):
            dropped.append(plan)
        else:
            found.append(plan)
            if plan.result.success or not best.result.success:  # with still more forbidden it would only do worse
                idea.learn(plan.result)
    kept, similar = _different(found, n)
    return Alternatives(tuple(kept), int(n), tried, (*dropped, *similar))


def _solved(idea: Idea, solver: Any, progress: Progress) -> Alternative | str:
    """Return an idea's plan, or a sentence on why there is none."""
    try:
        plan = Alternative.of(idea.how, collective(idea.problem, solver=solver, progress=progress))
    except OARError as error:
        return f"Not {idea.how}: {error}"
    if not plan.movers.any():
        return f"Not {idea.how}: nobody moves then."
    if not plan.result.success and not plan.result.loss < plan.result.loss_before:
        return f"Not {idea.how}: that does not lower the goal loss."
    return plan


def _enough(best: Alternative, found: list[Alternative], n: int) -> bool:
    """Report whether n plans differ; all successes, where the best one is: others would only take their places."""
    counted_in = [plan for plan in found if plan.result.success or not best.result.success]
    return len(_different(counted_in, n)[0]) >= n


def _different(found: list[Alternative], n: int) -> tuple[list[Alternative], list[str]]:
    """Keep the first, and of the others those that differ from all kept; say which do not."""

    def price(plan: Alternative) -> tuple[bool, float]:  # successes by their effort, then others by their loss
        return not plan.result.success, plan.result.audit.effort if plan.result.success else plan.result.loss

    kept, similar = found[:1], []
    for plan in sorted(found[1:], key=price):
        if len(kept) == n:
            similar.append(f"Left out {plan.how}: {counted(n, 'plan comes', 'plans come')} before it.")
            continue
        near = next((other for other in kept if plan.distance(other) < DIFFERENT), None)
        if near is None:
            kept.append(plan)
        else:
            similar.append(f"Left out {plan.how}: too like {near.how} ({plan.distance(near):.2f} < {DIFFERENT:g}).")
    return kept, similar


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
    chosen = members & problem.allowance.acting(members.size)
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
        was = {name: limits.columns.get(name, Limit()) for name in self._forbidden}
        stay = {name: Limit(immutable=True, cost=one.cost, unit=one.unit) for name, one in was.items()}
        own = {
            person: {name: limit for name, limit in theirs.items() if name not in self._forbidden}
            for person, theirs in limits.own.items()
        }
        kept = {who: each for who, each in own.items() if each}
        forbidding = dataclasses.replace(limits, columns=dict(limits.columns) | stay, own=kept)
        names = ", ".join(self._forbidden)
        return Idea(f"without changing {names}", lambda: self._problem.with_action(limits=forbidding), self._learn)


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
