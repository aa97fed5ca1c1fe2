"""Proved lower bounds: how far a refit can carry the query's outputs, whatever the members do.

For a linear output z = w·x + b with a free intercept and l2 > 0, write R_Δ for the risk on moved data, a = φ′ (which
rises), U = w_Δ − w* for how far the refit moves w, and b_Δ(w) for the best intercept of given weights.

1. R_Δ − l2/2 ‖w‖² is convex in (w, b), so min_b R_Δ − l2/2 ‖w‖² is convex in w: the risk without its intercept is
   l2-strongly convex, and ‖U‖ ≤ ‖∂_w R_Δ(w*, b_Δ(w*))‖ / l2.
2. b_Δ(w*) = b* + β solves Σ w̄_i a(z_i + s_i + β) = 0, where movers' outputs shift by |s_i| ≤ τ_i = sup |w*·δ_i| and no
   others'. The sum rises in β; with the m worst movers at −τ_i it is least, and where even that is ≥ 0, β is less.
3. Because that sum is 0, any c may be taken from all x_i in ∂_w R_Δ = Σ w̄ a′_i (x_i + δ_i) + l2 w*. With c the average
   of x by curvature φ″ the first-order effect of β cancels, and ‖∂_w R_Δ‖ is at most ‖∂_w R‖ + Σ w̄ ρ_i(β) ‖x_i − c‖
   plus, for each mover, w̄_i (|a′_i − a(z_i + β)| ‖x_i − c‖ + |a′_i| sup ‖δ_i‖), with ρ_i the remainder of
   a's Taylor series.
4. ∂b_Δ/∂w is minus an average of the moved x (by curvature), so the query's output changes by β and by U·(x† − an
   average of the moved people), at most ‖U‖ max_i (‖x† − x_i‖ + sup ‖δ_i‖).

With a penalised intercept all of (w, b) is strongly convex, and 1 alone does. Of m movers take the m largest terms.
Every term rises with the budgets and with m, so what is ruled out once is ruled out for all smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models import NearestCentroid
from oar.models.linear.losses import Linear, LinearSVM, Ridge, SoftmaxRegression
from oar.problem import Problem
from oar.questions.least.trials import after, halve, next_to_each_other

Array = NDArray[np.float64]
STEEPEST_BEND = 1 / (6 * 3**0.5)  # the largest |σ″|
HALVINGS = 50
SAFE = 1 + 1e-7  # rounding in sums, and what an audit lets pass


class BudgetBound:
    """Rules out budgets and numbers of members that cannot do; where nothing is proved, none."""

    able = 0

    def ruled_out(self, budgets: Array, members: int) -> bool:
        """Report whether it is proved that no `members` people with these budgets (n,) reach the goal."""
        return False

    def least_scale(self, budgets: Array, enough: float, members: int) -> float:
        """Return a factor on the budgets below which nothing reaches the goal; `enough` is one that does."""
        return halve(
            0.0, enough, lambda scale: None if self.ruled_out(scale * budgets, members) else scale, after(HALVINGS)
        )[0]

    def least_members(self, budgets: Array, enough: int) -> int:
        """Return a number of members below which no choice of them reaches the goal; `enough` is one that does."""
        # Nobody is not enough, as the goal is not there already.
        return halve(0, enough, lambda number: None if self.ruled_out(budgets, number) else number, next_to_each_other)[
            1
        ]


class MoveBound(BudgetBound):
    """Of moves that are no longer than budgets and limits let them be."""

    def __init__(self, problem: Problem) -> None:
        people = problem.people
        self.problem = problem
        self.rows = np.asarray(people.features, dtype=np.float64)
        self.weights = people.row_weights / people.row_weights.sum()
        self.able = int((problem.allowance.everyones(people.size) > 0).sum())

    def longest(self, budgets: Array) -> Array:
        """Return what no allowed move of each person is longer than (n,), in features' units and Euclidean norm."""
        p, measured = self.problem.allowance.norm.p, self._measured
        if measured is None:
            return budgets * (np.sqrt(self.rows.shape[1]) if p == np.inf else 1.0)
        region, costs = measured.unruled, measured.costs
        if not costs.size:
            return np.zeros_like(budgets)
        sides = np.maximum(-region.lower[:-1], region.upper[:-1]) / costs
        for each in region.levels:  # a switch changes two of its coordinates by 1
            sides[:, each.place] = 0.0
            sides[:, each.place.start] = np.sqrt(2.0)
        ball = budgets * (np.sqrt(costs.size) if p == np.inf else 1.0) / costs[costs > 0].min(initial=np.inf)
        ball = np.where((costs == 0).any(), np.inf, ball)
        return np.where(budgets > 0, np.minimum(ball, np.sqrt((sides**2).sum(axis=1))), 0.0)

    def reach_along(self, slope: Array, budgets: Array) -> Array:
        """Return sup |slope·δ| of each person's allowed moves (n,), or a little more."""
        measured = self._measured
        if measured is None:
            return budgets * float(self.problem.allowance.norm.dual.length(slope[None])[0])
        if not measured.costs.size or (measured.costs == 0).any():
            return self.longest(budgets) * float(np.linalg.norm(slope))
        region = replace(measured.unruled, radii=np.append(budgets, 0.0))
        ways = np.broadcast_to(slope[measured.columns] / measured.costs, region.lower.shape)
        return SAFE * np.maximum(region.farthest(ways)[1], region.farthest(-ways)[1])[:-1]

    @cached_property
    def _measured(self) -> Any:
        return self.problem.measured(False) if self.problem.limits else None


@dataclass(frozen=True, eq=False)
class Output:
    """One linear output of a model as it is, and everyone's targets."""

    slope: Array
    intercept: float
    targets: Array


class LinearBound(MoveBound):
    """Of linear models whose risk is strongly convex."""

    def __init__(self, problem: Problem, model: Linear) -> None:
        super().__init__(problem)
        self.model = model
        # B ≤ 1/2 is of several logits; of one against 0 it is p (1 − p).
        self._steepest = 0.25 if isinstance(model, SoftmaxRegression) else model.steepest
        matrix, targets = model.fit(problem.people), model.targets(problem.people)
        self.outputs = [Output(row[:-1], float(row[-1]), targets[:, at]) for at, row in enumerate(matrix)]
        self.now = np.array([one.slope @ problem.query_features + one.intercept for one in self.outputs])

    def ruled_out(self, budgets: Array, members: int) -> bool:
        """Compare how far outputs can change with how far the goal is away."""
        changes = np.array([self.change(one, budgets, members) for one in self.outputs]) * SAFE
        problem, now = self.problem, self.now
        if problem.regresses:
            off = np.abs(now - problem.goal_target) - problem.within
            return bool((changes < off).any())
        if now.size == 1:
            return bool(changes[0] < (-now[0] if problem.goal == 1 else now[0]))
        others = np.arange(now.size) != problem.goal
        return bool((changes[others] + changes[problem.goal] < now[others] - now[problem.goal]).any())

    def change(self, one: Output, budgets: Array, members: int) -> float:
        """Return what no refit changes the query's output by more than."""
        reach, longest = self.reach_along(one.slope, budgets), self.longest(budgets)
        at = self.rows @ one.slope + one.intercept
        query, weights, l2 = self.problem.query_features, self.weights, self.model.l2
        if self.model.penalise_intercept:
            wide = np.column_stack([self.rows, np.ones(len(at))])
            least, most = self._slopes(at - reach, one), self._slopes(at + reach, one)
            pull = self._slopes(at, one) * weights @ wide + l2 * np.append(one.slope, one.intercept)
            each = np.minimum(self._steepest * reach, most - least) * np.linalg.norm(wide, axis=1)
            each += np.maximum(np.abs(least), np.abs(most)) * longest
            moved = (float(np.linalg.norm(pull)) + largest(weights * each, members)) / l2
            return moved * float(np.sqrt(1 + query @ query))
        up = self._shift(at, one, reach, members, 1.0)
        down = self._shift(at, one, reach, members, -1.0)
        shift = max(up, down)
        if not np.isfinite(shift):
            return np.inf
        bend = weights * self.model.bend(at[None], one.targets[None], np.ones((1, at.size)))[0]
        centred = self.rows - bend @ self.rows / bend.sum()
        lengths = np.linalg.norm(centred, axis=1)
        pull = float(np.linalg.norm(self._slopes(at, one) * weights @ centred + l2 * one.slope))
        pull += float((self._remainders(bend, shift) * lengths).sum())
        least, most = self._slopes(at - down - reach, one), self._slopes(at + up + reach, one)
        each = np.minimum(self._steepest * reach, most - least) * lengths
        each += np.maximum(np.abs(least), np.abs(most)) * longest
        pull += largest(weights * each, members)
        far = np.linalg.norm(self.rows - query, axis=1) + longest
        return pull / l2 * float(far[weights > 0].max()) + shift

    def _slopes(self, outputs: Array, one: Output) -> Array:
        return self.model.slopes(outputs[None], one.targets[None])[0]

    def _remainders(self, bend: Array, shift: float) -> Array:
        """Return w̄ ρ_i: what is left of a(z + β) − a(z) − a′(z) β, |β| ≤ shift."""
        if isinstance(self.model, Ridge):
            return np.zeros_like(bend)
        return 0.5 * shift**2 * np.minimum(STEEPEST_BEND * self.weights, bend * np.exp(min(shift, 700.0)))

    def _shift(self, at: Array, one: Output, reach: Array, members: int, sign: float) -> float:
        """Return how far up (sign 1) or down (−1) the intercept can go while the weights stay."""

        def settled(shift: float) -> bool:
            there = sign * self._slopes(at + sign * shift, one)
            back = sign * self._slopes(at + sign * (shift - reach), one)
            return bool(self.weights @ there - SAFE * largest(self.weights * (there - back), members) >= 0)

        high = max(float(reach.max(initial=0.0)), 1e-12)
        while not settled(high):
            high *= 2
            if high > 1e6:
                return np.inf
        return halve(0.0, high, lambda shift: shift if settled(shift) else None, after(HALVINGS))[1]


class CentroidBound(MoveBound):
    """Of nearest centroid on a table: no class's centroid moves by more than its members' longest moves add up to."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        model = NearestCentroid()
        self.distances = model.distances(model.fit(problem.people), problem.query_features)
        self.codes = problem.people.codes(0, problem.people.size)
        self.class_weights = np.bincount(self.codes, weights=self.weights, minlength=len(problem.people.classes))

    def ruled_out(self, budgets: Array, members: int) -> bool:
        """Look at each duel: the two centroids' moves together must make up for its lead."""
        goal, longest = self.problem.goal, self.longest(budgets)
        each = self.weights * longest / self.class_weights[self.codes]
        for code in range(len(self.distances)):
            fighting = (self.codes == code) | (self.codes == goal)
            lead = self.distances[goal] - self.distances[code]
            if code != goal and SAFE * largest(np.where(fighting, each, 0.0), members) < lead:
                return True
        return False


def bound_of(problem: Problem) -> BudgetBound:
    """Return what rules out budgets and numbers of members."""
    model = problem.model
    other = problem.levers.given or problem.over_rounds or problem.people.streamed
    if other or not problem.plain or problem.query.probability is not None:
        return BudgetBound()
    if model.plain_means:
        return CentroidBound(problem) if problem.limits else BudgetBound()
    if not isinstance(model, SoftmaxRegression | Ridge | LinearSVM) or not model.l2 > 0:
        return BudgetBound()
    if isinstance(model, SoftmaxRegression) and len(problem.people.classes) != 2:
        return BudgetBound()  # several intercepts depend on each other
    if isinstance(model, LinearSVM) and not model.penalise_intercept:
        return BudgetBound()  # its best intercept need not be unique
    try:
        return LinearBound(problem, model)
    except NumericsError:
        return BudgetBound()


def largest(values: Array, number: int) -> float:
    """Return the sum of the so many largest values ≥ 0."""
    if number >= values.size:
        return float(values.sum())
    return float(np.partition(values, values.size - number)[values.size - number :].sum()) if number else 0.0
