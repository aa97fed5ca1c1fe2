"""Other plans for the same end, that really differ: in what is done, or in who does it.

The best plan that is found comes first. Then its problem is put again with something of it forbidden: the columns that
bear most of the effort, all actions but one, the members who did most (by first-order credit, or by refits without each
of them), everybody else, all classes but one, a round of several, all rounds but one, a random half. Each is solved and
audited like any other.

Two plans differ by the larger of two distances from 0 to 1:

    columns   ½ Σ_j |a_j − b_j|            between the shares of the effort that columns bear (total variation)
    people    1 − |A ∩ B| / |A ∪ B|        between those who act (Jaccard)

and count as different from DIFFERENT on. Another label and leaving are columns, too, which bear as large a share of all
as people do them: a move, another label and leaving count alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of, parts_of
from oar.actions.limits.limit import Limit, Limits
from oar.actions.participation import Best
from oar.checks import check_seed, check_whole, with_near_names
from oar.errors import OARError
from oar.people.wording import counted
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.plans.refits import Refits
from oar.problem import Problem
from oar.progress import OnStep, Progress, is_late, shared_time
from oar.questions.collateral import Collateral, collateral
from oar.questions.least.trials import with_members
from oar.questions.sharing.first_order import first_order, refusal
from oar.recourse import planned
from oar.solvers.registry import EffortLike, bounded, current_effort, default_effort
from oar.typing import SolverLike

DIFFERENT = 0.5
SHOWN = 3  # columns that are named
MOST_TRIED = 12  # problems that are solved at the most, the first included
Mask = NDArray[np.bool_]
HALF = 0.5
ROUNDS = 4  # of forbidding ever more
DONE = ("label", "leaving")  # what members may do besides moving, as a column
IN_WORDS = {"Perturb": "by moves alone", "Relabel": "by other labels alone", "Withhold": "by leaving alone"}
REFITTED = 60  # actors at the most of whom each is left out to see how useful it is
RANKED = (1,)  # points on the path: to rank members takes no more
OUT_OF_TIME = "The time was over before other ways were tried."


@dataclass(frozen=True, eq=False)
class Alternative:
    """One plan among others.

    Attributes:
        how: what it does differently, in words.
        result: the audited result.
        profile: (m,) the share of all effort that each column bears; where labels change or members leave, of all that
            is done.
        movers: (n,) who acts: moves, gets another label or leaves.
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
        efforts, refits = Efforts.of(result.plan), Refits(result.plan)
        costs = efforts.each
        total = costs.sum()
        profile = costs.sum(axis=0) / total if total else np.zeros(len(efforts.names))
        if not result.problem.levers.given:
            return Alternative(how, result, profile, refits.actors, efforts.names)
        _, targets, weights = refits.planned.over(refits.before)
        leaves = weights != refits.before.parts[2]
        changes = (targets != refits.before.parts[1]).any(axis=1) & ~leaves
        done = np.array([efforts.movers.sum(), changes.sum(), leaves.sum()], dtype=np.float64)
        done /= max(1.0, done.sum())
        return Alternative(how, result, np.append(done[0] * profile, done[1:]), refits.actors, (*efforts.names, *DONE))

    @cached_property
    def collateral(self) -> Collateral:
        """The side effects of the plan."""
        return collateral(self.result)

    @property
    def features(self) -> str:
        """The columns that bear most, in words."""
        most = [column for column in np.argsort(-self.profile, kind="stable")[:SHOWN] if self.profile[column] > 0]
        return ", ".join(f"{self.columns[column]} {self.profile[column]:.0%}" for column in most)

    def distance(self, other: Alternative) -> float:
        """Return how far two plans differ, from 0 to 1: in columns or in people, whichever is more."""
        either = int((self.movers | other.movers).sum())
        people = 1 - int((self.movers & other.movers).sum()) / either if either else 0.0
        mine, theirs = (dict(zip(one.columns, one.profile.tolist(), strict=True)) for one in (self, other))
        return max(0.5 * sum(abs(mine.get(name, 0.0) - theirs.get(name, 0.0)) for name in mine | theirs), people)


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

        Columns are plan (what it does otherwise), success, goal loss, effort, people (who act), collateral (bystanders
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
            "people": lambda plan: int(plan.movers.sum()),
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
    problem: Problem,
    n: int = 3,
    *,
    seed: int = 0,
    solver: SolverLike = "auto",
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Alternatives:
    """Return up to n plans for the same goal that differ substantially in what is done or by whom, with their costs.

    Fewer are returned where fewer are found, which is no proof that there are none; `explanation` lists what was left
    out.

    Args:
        problem: the problem to solve.
        n: how many plans, the best one included.
        seed: of the random halves of the members.
        solver: as in `oar.collective`.
        effort: as in `oar.collective`, for the best plan; the others, of which many are tried, get less of it.
        time_limit: seconds for all plans together, of which each that is still asked for may take an equal part; what
            has been found by then is returned. None is no limit.
        progress: as in `oar.collective`.
    """
    check_whole("n", n, 1)
    check_seed(seed)
    with bounded("alternatives", progress, effort, time_limit) as on_step:
        first = _planned(problem, solver, on_step, n)
        best = Alternative.of("the best found", first)
        if not best.movers.any():
            return Alternatives((), int(n), 1, (f"No member does anything in the best plan. {first.explanation}",))
        return _others(problem, best, n, seed, lambda idea, left: _solved(idea, solver, on_step, left))


def _others(
    problem: Problem, best: Alternative, n: int, seed: int, solved: Callable[[Idea, int], Alternative | str]
) -> Alternatives:
    """Try other ways, until enough of them differ, or there is no time or no other way."""
    found, dropped, tried = [best], [], 1
    for idea in ideas(problem, best.result, seed) if n > 1 else ():
        if tried == MOST_TRIED or _enough(best, found, n):
            break
        if is_late():
            dropped.append(OUT_OF_TIME)
            break
        tried += 1
        plan = solved(idea, max(1, n - len(_different(found, n)[0])))
        if isinstance(plan, str):
            dropped.append(plan)
        else:
            found.append(plan)
            if plan.result.success or not best.result.success:  # with still more forbidden it would only do worse
                idea.learn(plan.result)
    kept, similar = _different(found, n)
    return Alternatives(tuple(kept), int(n), tried, (*dropped, *similar))


def _planned(problem: Problem, solver: Any, on_step: OnStep, left: int) -> Result:
    """Solve and audit, in an equal part of the time for the plans that are left."""
    with shared_time(left):
        return planned(problem, solver, "auto", on_step)


def _solved(idea: Idea, solver: Any, on_step: OnStep, left: int) -> Alternative | str:
    """Return an idea's plan, or a sentence on why there is none."""
    try:
        with default_effort(current_effort().trials):
            plan = Alternative.of(idea.how, _planned(idea.problem, solver, on_step, left))
    except OARError as error:
        return f"Not {idea.how}: {error}"
    if not plan.movers.any():
        return f"Not {idea.how}: nobody does anything then."
    if not plan.result.success and not plan.result.loss < plan.result.loss_before:
        return f"Not {idea.how}: that does not lower the goal loss."
    return plan


def _enough(best: Alternative, found: list[Alternative], n: int) -> bool:
    """Report whether n plans differ; all successes, where the best one is: others would only take their places."""
    counted_in = [plan for plan in found if plan.result.success or not best.result.success]
    return len(_different(counted_in, n)[0]) >= n


def _different(found: list[Alternative], n: int) -> tuple[list[Alternative], list[str]]:
    """Keep the first, and of the others those that differ from all kept; say which do not."""

    def price(plan: Alternative) -> tuple[bool, float, int]:  # successes by their effort, then others by their loss
        cost = plan.result.audit.effort if plan.result.success else plan.result.loss
        return not plan.result.success, cost, int(plan.movers.sum())

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
    columns = problem.people.encoding is not None and problem.moves
    kinds: list[_WithoutColumns | _WithoutTheMostUseful] = [
        *([_WithoutColumns(problem, best)] if columns else []),
        _WithoutTheMostUseful(problem, useful),
    ]
    yield from _of_one_kind(problem)
    yield from (kind.next() for kind in kinds if kind.goes_on)
    most = _most_useful(useful, np.floor)
    yield _by(problem, most, f"by the {counted(int(most.sum()), 'most useful member', 'most useful members')} alone")
    yield from _in_rounds(problem, useful)
    if not problem.regresses:
        codes = Refits(best.plan).before.parts[1].argmax(axis=1)
        for code, label in enumerate(problem.people.classes):
            some = (useful != 0) & (codes == code)
            if some.any() and not some[useful != 0].all():
                yield _by(problem, some, f"by members of class {label!r} alone")
    for _ in range(ROUNDS - 1):
        yield from (kind.next() for kind in kinds if kind.goes_on)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(useful))
    for some, how in zip(np.array_split(order, 2), ("a random half", "the other half"), strict=True):
        yield _by(problem, np.isin(np.arange(useful.size), some), f"by {how} of the members")


def _of_one_kind(problem: Problem) -> Iterator[Idea]:
    """Walk over plans with one action alone, where several go together."""
    parts = parts_of(problem.action)
    for part in parts if len(parts) > 1 else ():
        yield Idea(IN_WORDS[type(part).__name__], partial(dataclasses.replace, problem, action=part))


def _in_rounds(problem: Problem, useful: NDArray[np.float64]) -> Iterator[Idea]:
    """Walk over plans without the round in which most is done, and in each round alone."""
    if not problem.over_rounds:
        return
    when: NDArray[np.intp] = problem.stream.when  # type: ignore[attr-defined]
    done = {int(number): float(np.abs(useful[when == number]).sum()) for number in np.unique(when[useful != 0])}
    first = sorted(done, key=lambda number: -done[number])
    if len(first) > 1:
        yield _by(problem, when != first[0], f"without round {first[0]}")
        yield from (_by(problem, when == number, f"in round {number} alone") for number in first)


def _by(problem: Problem, members: Mask, how: str) -> Idea:
    """Return the problem with participation restricted to these members."""
    if problem.levers.given:
        return Idea(how, lambda: with_members(problem, members))
    chosen = members & problem.allowance.acting(members.size)
    fewer: Any = chosen
    if problem.best is not None and chosen.sum() > problem.best.number:
        fewer = Best(problem.best.number, chosen)
    return Idea(how, lambda: problem.with_action(participants=fewer, seed=None))


def _usefulness(result: Result) -> NDArray[np.float64]:
    """Return how useful everyone is (n,), not 0 for whoever acts, and 0 for who stays.

    That is by first-order credit; where there is none by how much worse a refit without each is, and of many, or of a
    black box, by effort and weight.
    """
    refits = Refits(result.plan)
    acts, people = refits.actors, result.problem.people
    if not refusal(refits):
        useful = first_order(refits, result.loss_before - result.loss, rules=RANKED)[0][:-1]
    elif acts.sum() <= REFITTED and not result.problem.model.only_asked:
        useful = np.zeros(people.size)
        for member in np.flatnonzero(acts):
            others = acts.copy()
            others[member] = False
            useful[member] = refits.verdict(refits.if_only(others)).loss - result.loss
    else:
        stirs = ~Efforts.of(result.plan).movers  # but has another label, or leaves
        useful = (Efforts.of(result.plan).totals + stirs) * people.row_weights
    useful = np.where(np.isfinite(useful), useful, 0.0)
    return np.where(acts, np.where(useful == 0, np.finfo(float).tiny, useful), 0.0)


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
