"""Descent over rounds with everything that a plan may move: members, the query, and columns of a table in cost.

Moves are (n + 1, r): everyone's row, the query's last, of those coordinates that somebody may move, in units of what a
change costs (1 for plain features). That is what searches on tables of one refit work in, so the same exchange search
over whole steps and levels goes on here, with a rollout of all rounds in place of a refit.

Where budgets are shared over the rounds of a table, what a person spends in each is settled first, by where a unit does
the most, in one round alone, and evenly; the best plan of these counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import CostRegion
from oar.errors import NumericsError
from oar.models.training import Array, Fit
from oar.online import Back, OnlineProblem, Path, Rollout
from oar.progress import is_late
from oar.solvers.descent.descent import SLOWLY, DescentEnd, DescentProblem, DescentSettings, LossPoint
from oar.solvers.descent.retrained import exactly
from oar.solvers.discrete.exchanges import ExchangeSearch
from oar.solvers.discrete.integer_moves import Lattice
from oar.solvers.feasible.sets import FeasibleBalls, FeasibleRegions, FeasibleSet
from oar.solvers.feasible.shared_budgets import SharedBudgets, allotted
from oar.solvers.registry import Task

Rows = NDArray[np.intp]
DONE = Fit(np.zeros(0), None, 0.0, True)  # rules retrain as tightly as they do
ROUNDING = 1e-9  # of a budget
GAINED = 1e-6  # of the loss
TRIED = 60  # rows that try to spend a shared budget elsewhere
MOST_ROUNDS = 4  # in which alone shared budgets of a table are spent, to start with


@dataclass(frozen=True, eq=False)
class RolledOut:
    """All rounds after some moves, and the slopes there once they were asked for: an outcome, and a step."""

    path: Path
    loss: float
    slopes: Array | None = None  # (n + 1, r)
    back: Back | None = None
    memory: ClassVar[None] = None
    fit: ClassVar[Fit] = DONE

    @property
    def outcome(self) -> RolledOut:
        """The outcome itself."""
        return self


@dataclass(frozen=True, eq=False)
class EveryonesRollouts:
    """The loss after all rounds, of moves (n + 1, r) in cost; `made` moves were made before."""

    rollout: Rollout
    columns: Rows
    costs: Array
    made: Array | float = 0.0
    from_scratch: ClassVar[bool] = False

    def wide(self, moves: Array) -> Array:
        """Return moves (n + 1, d) of all features, in their own units."""
        found = np.zeros((len(moves), self.rollout.problem.people.dimensions))
        found[:, self.columns] = (moves + self.made) / self.costs
        return found

    def outcome(self, moves: Array, memory: None = None, precision: float = 0.0) -> RolledOut:
        """Roll out all rounds that matter."""
        wide = self.wide(moves)
        path = self.rollout.forward(wide[:-1], counted=True, query_move=wide[-1])
        return RolledOut(path, float(self.rollout.problem.weights @ path.losses))

    def refit(self, moves: Array, near: LossPoint | None, precision: float) -> LossPoint:
        """Return the point of these moves."""
        found = self.outcome(moves)
        return LossPoint(moves, found.loss, found)

    def tighten(self, point: LossPoint, precision: float) -> LossPoint:
        """Return the point as it is: rules retrain as tightly as they do."""
        return point

    def differentiate(self, point: LossPoint, near: LossPoint | None = None) -> LossPoint:
        """Return the same point with its gradient (n + 1, r)."""
        return self.signalled(point.moves, point.kept)

    def signalled(self, moves: Array, outcome: RolledOut, memory: None = None) -> LossPoint:
        """Return the point that an outcome is about, with its gradient: sweep back."""
        wide = self.wide(moves)
        back = self.rollout.gradient(outcome.path, wide[:-1], query_move=wide[-1])
        slopes = np.vstack([back.gradient, back.query])[:, self.columns] / self.costs
        return LossPoint(moves, outcome.loss, replace(outcome, slopes=slopes, back=back), gradient=slopes)

    def from_there(self, made: Array) -> EveryonesRollouts:
        """Return the same where moves (n + 1, r) are counted from these."""
        return replace(self, made=self.made + made)

    def falls_at(self, step: RolledOut, moves: Array) -> Array:
        """Return minus everyone's slopes (n + 1, r) by the signals of all rounds, had they moved like this instead."""
        assert step.slopes is not None
        assert step.back is not None
        walk, back, there = self.rollout, step.back, -step.slopes
        if any(size > 0 and not pairs for size, pairs in zip(back.adjoints, back.signals, strict=True)):
            return there
        wide, falls = self.wide(moves)[:-1], np.zeros((len(moves) - 1, there.shape[1]))
        with suppress(NumericsError):
            for number, pairs in enumerate(back.signals):
                rows, training = walk.rows(number), walk.bound(number)
                features = training.moved(wide[rows]) if pairs else None
                for parameters, signal in pairs:
                    slopes = training.score_gradients(parameters, features, signal)
                    falls[rows] += training.weights[:, None] * slopes[:, self.columns] / self.costs
            there[:-1] = falls
        return there


@dataclass(frozen=True, eq=False)
class Found:
    """The best moves of everyone (n, d) and the query (d,), and the end of the descent that led there."""

    each: Array
    query_move: Array
    end: DescentEnd
    before: Back
    steps: int
    stuck: bool

    @property
    def left(self) -> Array:
        """The slopes (n, d) that are left."""
        found: Array = self.end.point.kept.back.gradient
        return found


def best_of_everyone(task: Task, settings: Any, rollout: Rollout) -> Found:
    """Return the best plan found for members and, of a joint task, the query."""
    problem = task.problem
    if problem.limits is None:
        return _Search(task, settings, rollout, None).best()
    if not problem.has_totals:
        return _Search(task, settings, rollout, problem.measured(query=task.query)).best()
    return _SharedOnTable(task, settings, rollout).best()


class _SharedOnTable:
    """Plans for a table whose people share a budget over rounds, each found with what they spend in each round settled.

    After the best of these few people try, one after the other, to spend it all in another round.
    """

    def __init__(self, task: Task, settings: Any, rollout: Rollout) -> None:
        problem = task.problem
        query = replace(problem.query, budget=problem.query_budget) if task.query else problem.query
        self.problem, self.task, self.settings, self.rollout = problem, task, settings, rollout
        self._apart = replace(problem, query=query, shared=False)
        self._budgets = budgets_of(problem)

    def best(self) -> Found:
        """Return the best plan found."""
        found = min(map(self._settled, self._allotments()), key=lambda one: one.end.loss)
        while not is_late():
            radii = self._spent_elsewhere(found)
            better = None if radii is None else self._settled(radii)
            if better is None or not better.end.loss < found.end.loss:
                break
            found = better
        return found

    def _measured(self, radii: Array) -> CostRegion:
        measured: CostRegion = self._apart.with_action(budget=radii).measured(query=self.task.query)
        return measured

    def _settled(self, radii: Array) -> Found:
        """Return the best plan found in which rows go no farther than these radii (n,)."""
        return _Search(self.task, self.settings, self.rollout, self._measured(radii)).best()

    def _allotted(self, order: Rows) -> Array:
        return allotted(self.problem.persons, order, self.problem.radii, self._budgets)

    def _allotments(self) -> Iterator[Array]:
        """Yield how far each row (n,) may go: the steepest rows first, those of one round first, and evenly."""
        problem = self.problem
        path = self.rollout.forward(None, counted=True)
        steep = problem.steepness(self.rollout.gradient(path, None).gradient)
        yield self._allotted(np.argsort(-steep, kind="stable"))
        by_round = [steep[problem.stream.when == number].max(initial=0.0) for number in range(problem.rounds)]
        for number in np.argsort(np.negative(by_round), kind="stable")[:MOST_ROUNDS]:
            yield self._allotted(np.lexsort((-steep, problem.stream.when != number)))
        times = np.bincount(problem.persons, weights=problem.radii > 0)
        yield np.minimum(problem.radii, (self._budgets / np.maximum(times, 1.0))[problem.persons])

    def _spent_elsewhere(self, found: Found) -> Array | None:
        """Return radii (n,) with which somebody does better in another round; None where nobody does, or many could.

        Each tries its best response there alone, by a rollout.
        """
        problem = self.problem
        able = np.flatnonzero(problem.radii > 0)
        if able.size > TRIED:
            return None
        alone = self._measured(np.minimum(problem.radii, self._budgets[problem.persons]))
        objective = EveryonesRollouts(self.rollout, alone.columns, alone.costs)
        moves = np.vstack([found.each, found.query_move])[:, alone.columns] * alone.costs
        responses = Lattice(alone).response(-objective.signalled(moves, objective.outcome(moves)).gradient)
        best, better = found.end.loss, False
        for row in able:
            trial = moves.copy()
            trial[:-1][problem.persons == problem.persons[row]] = 0.0
            trial[row] = responses[row]
            with suppress(NumericsError):
                loss = objective.outcome(trial).loss
                if loss < best - GAINED * abs(best):
                    moves, best, better = trial, loss, True
        return self._all_spent(problem.lengths(objective.wide(moves)[:-1])) if better else None

    def _all_spent(self, lengths: Array) -> Array:
        """Return radii (n,) of these lengths, with what whole steps leave of a budget on its person's longest row."""
        problem = self.problem
        rest = self._budgets - np.bincount(problem.persons, weights=lengths)
        order = np.lexsort((-lengths, problem.persons))
        _, first = np.unique(problem.persons[order], return_index=True)
        longest = order[first]
        radii = lengths.copy()
        radii[longest] += np.maximum(rest, 0.0)
        return np.minimum(radii, problem.radii)


def budgets_of(problem: OnlineProblem) -> Array:
    """Return everyone's total (m,) over all rounds."""
    found = np.zeros(int(problem.persons.max()) + 1)
    np.maximum.at(found, problem.persons, np.where(problem.radii > 0, problem.totals, 0.0))
    return found


class _Search:
    """One search with settled budgets: a descent from several starts and, on a table, exchanges of whole moves."""

    def __init__(self, task: Task, settings: Any, rollout: Rollout, measured: CostRegion | None) -> None:
        problem = task.problem
        self.problem, self.task, self.measured = problem, task, measured
        columns, costs = np.arange(problem.people.dimensions), np.ones(problem.people.dimensions)
        limits = _balls(problem, task.query)
        if measured is not None:
            columns, costs = measured.columns, measured.costs
            limits = FeasibleRegions(measured.region, np.ones(problem.people.size + 1))
        self.objective = EveryonesRollouts(rollout, columns, costs)
        self.descent = DescentProblem(self.objective, limits, DescentSettings.of(settings), task.on_step)
        self.settings = settings

    def best(self) -> Found:
        """Return the best moves found."""
        whole = None if self.measured is None else Lattice(self.measured)
        stay = np.zeros((self.problem.people.size + 1, self.objective.columns.size))
        unmoved = self.objective.signalled(stay, self.objective.outcome(stay))
        known = [start[:, self.objective.columns] * self.objective.costs for start in self.task.starts]
        in_steps = whole is not None and bool(whole.discrete.any())
        if in_steps and self.settings.response != "spectral":  # best responses are whole
            best, steps = DescentEnd(unmoved, np.inf, [unmoved.loss], "steps"), 0
        else:
            best, steps = self._descended(stay, unmoved, known)
        stuck = not self.descent.feasible.radii.any()
        if whole is not None:
            assert self.measured is not None
            regions = FeasibleRegions(whole.region, self.descent.feasible.weights)
            search = ExchangeSearch(self.problem, replace(self.descent, feasible=regions), whole, unmoved.kept, steps)
            best = search.best(best, known)
            steps, stuck = search.steps, FeasibleRegions(self.measured.unruled, regions.weights).nobody_moves
            moves = exactly(self.problem, self.measured, best.moves)
        else:
            moves = self.objective.wide(best.moves) + 0.0
        return Found(moves[:-1], moves[-1], best, unmoved.kept.back, steps, stuck)

    def _descended(self, stay: Array, unmoved: LossPoint, known: list[Array]) -> tuple[DescentEnd, int]:
        """Descend from where everybody stands, from known moves, slowly, and at random."""
        descent, most = self.descent, self.descent.settings.max_steps
        best = descent.improved(stay, most, unmoved)
        steps = best.steps
        for start in [*known, *self._more(stay, best)]:
            if time.monotonic() > descent.settings.deadline or best.loss <= self.problem.model.least_loss:
                break
            with suppress(NumericsError):  # where it cannot be trained, other starts stand
                found = descent.improved(start, most, longest=SLOWLY)
                steps += found.steps
                best = min(best, found, key=lambda end: end.loss)
        return best, steps

    def _more(self, stay: Array, first: DescentEnd) -> Iterator[Array]:
        if self.settings.response == "spectral" and (self.settings.restarts or first.ended != "closed"):
            yield stay
        rng = np.random.default_rng(self.settings.seed)
        for _ in range(self.settings.restarts or 0):
            yield self.descent.feasible.respond(rng.standard_normal(stay.shape))


@dataclass(frozen=True, eq=False)
class WholeMoves:
    """Limits of a table's people over rounds, for moves that keep to all of them but budgets."""

    problem: OnlineProblem

    def project(self, moves: Array) -> Array:
        """Return moves (n, d) near these that keep budgets: whose do already as they are, others in fewer steps."""
        problem, lengths = self.problem, self.problem.lengths(moves)
        allowed = problem.radii
        if problem.has_totals:
            order = np.lexsort((problem.stream.when, -lengths))
            caps = np.minimum(lengths, problem.radii)
            allowed = allotted(problem.persons, order, caps, budgets_of(problem))
        beyond = lengths > allowed * (1 + ROUNDING)
        if not beyond.any():
            return moves
        apart = replace(problem, shared=False) if problem.has_totals else problem
        # Coordinates that nobody may move any more are dropped: they stay.
        measured = apart.with_action(budget=np.where(beyond, allowed, 0.0)).measured(query=False)
        given = np.vstack([moves[:, measured.columns], np.zeros(measured.columns.size)]) * measured.costs
        whole = Lattice(measured.towards(given))
        shorter = whole.settled(whole.response(given), np.zeros_like(given))
        return np.where(beyond[:, None], exactly(problem, measured, shorter)[:-1], moves)


def _balls(problem: OnlineProblem, query: bool) -> FeasibleSet:
    """Return everyone's balls or shared budgets and, last, the query's."""
    norm = problem.allowance.norm
    own = problem.query_budget if query else 0.0
    radii, totals = np.append(problem.radii, own), np.append(problem.totals, own)
    if not problem.has_totals:
        return FeasibleBalls(norm, radii, np.ones(radii.size))
    return SharedBudgets(norm, radii, np.append(problem.persons, problem.persons.max() + 1), totals)
