"""Usefulness of members: what each one's part of a plan gains, and who could gain most, to first order.

How much is known depends on the model: for moves and one refit the answers to the signal (`BySignal`), for labels and
leavers the scores of what was and of what is handed in (`ByScores`), over rounds the slopes of the rollout
(`BySlopes`), of people in parts the answers again, by passes over them (`ByPasses`), and of a model that is only
trained and asked nothing but how much somebody does (`Usefulness`). A member is a person, who over rounds may have
several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.plans import Plan
from oar.problem import Problem
from oar.questions.least.trials import halve, next_to_each_other
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import Refit, Retraining, retraining_of
from oar.solvers.descent.parts import PartsObjective, PathAndOwn
from oar.solvers.outer.best_members import Ranking
from oar.streaming import SignalPath
from oar.tolerances import SOLVED, TIGHT

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Persons:
    """Members, each counted once: rows (n,) that are one person's are one member of (m,)."""

    def __init__(self, problem: Problem) -> None:
        self._persons, self._last = problem.persons, problem.last_rows
        self.size = int(self._last.sum())

    def sums(self, values: Array) -> Array:
        """Return what all rows of each member come to (m,)."""
        return np.bincount(self._persons, weights=values, minlength=self.size).astype(np.float64, copy=False)

    def of(self, rows: Mask) -> Mask:
        """Return the members (m,) of whom any of these rows (n,) is."""
        return self.sums(rows.astype(np.float64)) > 0

    def rows(self, members: Mask) -> Mask:
        """Return all rows (n,) of these members (m,)."""
        return members[self._persons]

    def last(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what each member's last row has of these values (n,)."""
        found = np.empty(self.size, dtype=values.dtype)
        found[self._persons[self._last]] = values[self._last]
        return found


class Usefulness:
    """The usefulness of members by how much they do; nothing is known of those who do nothing."""

    def __init__(self, problem: Problem, signal: Any) -> None:
        self.problem, self.crowd = problem, Persons(problem)
        self.retraining: Retraining = retraining_of(problem)

    def acting(self, plan: Plan) -> Mask:
        """Return which members (m,) do something in a plan."""
        return self.crowd.of(plan.contribution().acts(self.retraining.before))

    def gains(self, given: Contribution, refit: Any) -> Array:
        """Return the gain (n,) of what each row hands in, at the refit to it."""
        before = self.retraining.before
        old, new = before.over(before), given.over(before)
        lengths = self.problem.allowance.norm.length(np.zeros_like(old[0]) if new[0] is None else new[0])
        changed = np.abs(new[1] - old[1]).sum(axis=1) + (new[2] != old[2])
        return old[2] * (lengths / max(float(lengths.max(initial=0.0)), 1e-300) + changed)

    def order(self, plan: Plan | None) -> NDArray[np.intp]:
        """Return members, the most useful first, after a plan (None: before any move); perhaps not all."""
        given = Contribution() if plan is None else plan.contribution()
        refit = None if plan is None else self.retraining.refit(given)
        if plan is None or refit is None:
            return np.zeros(0, dtype=np.intp)
        acting = np.flatnonzero(self.acting(plan))
        return acting[np.argsort(-self.crowd.sums(self.gains(given, refit))[acting], kind="stable")]

    def left_out(self, plan: Plan, ended: Callable[[], bool]) -> Iterator[Contribution]:
        """Yield what is handed in without who does nothing and as many of the least useful as refits allow; less."""
        given, retraining = plan.contribution(), self.retraining
        whole, acting = retraining.refit(given), self.acting(plan)
        if whole is None:
            return
        sums = self.crowd.sums(self.gains(given, whole))
        order = np.flatnonzero(acting)[np.argsort(sums[acting], kind="stable")]

        def without(leaving: int) -> Contribution:
            members = acting.copy()
            members[order[:leaving]] = False
            return given.if_only(self.crowd.rows(members), retraining.before)

        def too_many(leaving: int) -> int | None:
            refit = None if ended() else retraining.refit(without(leaving), whole)
            return None if refit is not None and retraining.said(refit, plan.query_move).success else leaving

        may_leave, _ = halve(0, len(order), too_many, next_to_each_other)
        for leaving in dict.fromkeys((may_leave, may_leave // 2, 0)):  # one refit may be lucky, where it is random
            yield without(leaving)


class ByScores(Usefulness):
    """The usefulness of labels, leavers and moves by the scores of what is handed in instead of what was."""

    def gains(self, given: Contribution, refit: Any) -> Array:
        """Return w' s' − w s of each row, with s its score under the signal at the refit."""
        retraining: Any = self.retraining
        signal = retraining.signal(refit)
        if signal is None:
            return super().gains(given, refit)
        _, targets, weights = given.over(retraining.before)
        model, training = self.problem.model, refit.training
        old = np.ascontiguousarray(model.target_rows(retraining.before.targets))
        was = training.scores(refit.fit.parameters, training.moved(None), signal, old)
        now = retraining.scores(refit, signal, targets)
        return (weights * now - retraining.before.weights * was) / weights.sum()


class BySlopes(Usefulness):
    """The usefulness of moves over rounds by the slopes of the rollout."""

    def gains(self, given: Contribution, refit: Any) -> Array:
        """Return −⟨dL/dδ, δ⟩ of each row."""
        moves = np.zeros_like(self.retraining.features) if given.moves is None else given.moves
        return -np.einsum("nd,nd->n", self._slopes(given, refit), moves)

    def order(self, plan: Plan | None) -> NDArray[np.intp]:
        """Return members, the most useful first, by what full moves in all of their rounds would gain."""
        there = Contribution() if plan is None else plan.contribution()
        refit, radii = self.retraining.refit(there), self.problem.allowance.everyones(self.problem.people.size)
        if refit is None:
            return np.zeros(0, dtype=np.intp)
        gains = self.crowd.sums(radii * self.problem.allowance.norm.dual.length(self._slopes(there, refit)))
        able = np.flatnonzero(self.crowd.of(radii > 0))
        return able[np.argsort(-gains[able], kind="stable")]

    def _slopes(self, given: Contribution, refit: Any) -> Array:
        retraining: Any = self.retraining
        try:
            slopes: Array = retraining.rollout.gradient(refit.path, given.moves).gradient
        except NumericsError:
            return np.zeros_like(retraining.features)
        return slopes


class BySignal(Usefulness):
    """The usefulness of moves in one refit by everybody's answer to the signal."""

    def __init__(self, problem: Problem, signal: Any) -> None:
        super().__init__(problem, signal)
        self._ranking = Ranking(problem, signal, False)

    def gains(self, given: Contribution, refit: Refit) -> Array:
        """Return what each row's move gains, by slopes from where it was to where it is."""
        answering = self._ranking.answering
        each = answering.in_cost(np.asarray(given.moves))
        outcome = answering.refit(each)
        try:
            here, there = answering.slopes(outcome, None), answering.slopes(outcome, each)
        except NumericsError:
            here = there = each
        return answering.weights * np.einsum("nd,nd->n", 0.5 * (here + there), each)

    def order(self, plan: Plan | None) -> NDArray[np.intp]:
        """Return members, the most useful first, by what their full move from where they stand gains."""
        return self._ranking.after(None if plan is None else plan.contribution().moves)


class ByPasses(Usefulness):
    """The usefulness of people in parts by their answers to the signal, one number a person."""

    def __init__(self, problem: Problem, signal: Any) -> None:
        self.problem, self.crowd = problem, Persons(problem)

    def acting(self, plan: Plan) -> Mask:
        """Return who may move: in such a plan all of them do."""
        return plan.problem.allowance.everyones(plan.problem.people.size) > 0

    def order(self, plan: Plan | None) -> NDArray[np.intp]:
        """Return members, the most useful first, by what their full move from where they stand gains."""
        problem, training, walk = self.problem, self.problem.training(), getattr(plan, "walk", SignalPath())
        objective = PartsObjective(problem, training, SOLVED)
        there = objective.refit(PathAndOwn(walk, np.zeros(problem.people.dimensions)), None, TIGHT)
        stride = objective.differentiate(there, None).gradient.stride
        gains, able = training.gains(walk, stride), problem.allowance.everyones(problem.people.size) > 0
        return np.argsort(-np.where(able, gains, -np.inf), kind="stable")[: int(able.sum())]

    def left_out(self, plan: Plan, ended: Callable[[], bool]) -> Iterator[Contribution]:
        """Yield nothing: nobody's contribution is changed but by planning anew."""
        yield from ()


def usefulness_of(problem: Problem, signal: Any = "auto") -> Usefulness:
    """Return what is known of the usefulness of a problem's members."""
    kinds = (
        (problem.people.streamed, ByPasses),
        (problem.over_rounds, BySlopes),
        (problem.model.only_asked, Usefulness),
        (problem.levers.given, ByScores),
    )
    return next((kind for applies, kind in kinds if applies), BySignal)(problem, signal)
