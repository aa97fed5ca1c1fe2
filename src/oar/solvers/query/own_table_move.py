"""The query's own best move on a table, while the model stays as it is: least loss within a budget, in whole moves.

One person has few columns, so every other value of every column is tried by the loss itself, beside the columns as they
are and alone, and so is the best response to the loss's slopes; what need not be whole is re-optimised for the best of
them. It goes on from there until nothing helps. That is a local search: it proves nothing. For the lowest cost that
reaches the goal, proved for linear models, see `oar.cheapest`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.models.wrap.cost_units import CostUnits
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.solvers.centroids.spectral import BatchedObjective, minimise
from oar.solvers.discrete.integer_moves import Lattice
from oar.solvers.feasible.regions import FeasibleRegions
from oar.solvers.settings import ProjectedGradient

Array = NDArray[np.float64]
TIGHT = 1e-10
MOST_ROUNDS = 100
GAINED = 1e-9  # of the loss
ONE = np.ones(1)


def solve(problem: Problem, settings: ProjectedGradient) -> Proposal:
    """Move the query alone, within its limits."""
    people, size = problem.people, problem.people.size
    measured = problem.measured(query=True).of(np.array([size]))
    training = CostUnits(problem.training(), measured.columns, measured.costs, problem.query_features)
    fit = training.fit(training.moved(None), training.start(), TIGHT)
    query, target = training.point, problem.goal_target
    whole, steps = Lattice(measured), 0

    def judged(move: Array) -> tuple[float, Array]:
        """Return the loss at a move (1, d), and its slopes."""
        loss, _, slope = training.goal(fit.parameters, query + move[0], target)
        return loss, slope[None]

    def with_rest(move: Array) -> Array:
        """Re-optimise what need not be whole."""
        if whole.discrete.all():
            return move
        fixed = np.where(whole.discrete, move, 0.0)
        limits = FeasibleRegions(whole.rest(fixed), ONE)

        def evaluate(points: Array, rows: NDArray[np.intp]) -> tuple[Array, Array]:
            loss, slope = judged(points[0] + fixed)
            return np.array([loss]), slope[None]

        objective = BatchedObjective(
            evaluate=evaluate,
            project=lambda points, rows: limits.project(points[0])[None],
            inner=lambda left, right, rows: np.array([(left * right).sum()]),
            gap=lambda points, slopes, rows: np.array([limits.gap(points[0], slopes[0])]),
        )
        rest = (move - fixed)[None]
        first = np.array([limits.span(evaluate(rest, np.zeros(1, dtype=np.intp))[1][0])])
        found = minimise(objective, rest, first, settings.most_steps, settings.smallest_gap)
        return whole.settled(found.points[0] + fixed, move)

    here = with_rest(np.zeros((1, measured.columns.size)))
    loss, slopes = judged(here)
    for steps in range(1, MOST_ROUNDS + 1):  # noqa: B007
        rest = np.where(whole.discrete, 0.0, here)
        others = [whole.response(-slopes)]
        others += [other + whole.shrunk(other, rest) for other in whole.others(here - rest)]
        others = [whole.settled(other, here) for other in others]
        best = with_rest(min(others, key=lambda move: judged(move)[0]))
        better, there = judged(best)
        if not better < loss - GAINED * abs(loss):
            break
        here, loss, slopes = best, better, there
    stuck = FeasibleRegions(measured.unruled, ONE).nobody_moves
    move = measured.exactly(here)[0]
    return Proposal(
        plan=MemberPlan(problem, move, np.zeros((size, people.dimensions))),
        solver="exchanges",
        claimed_loss=loss,
        gap=FeasibleRegions(measured.unruled, ONE).gap(here, slopes),
        exact=stuck,
        finished=steps < MOST_ROUNDS,
        steps=steps,
        passes=training.passes,
        residual=fit.residual,
    )
