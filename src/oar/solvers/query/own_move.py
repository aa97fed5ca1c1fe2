"""The query's own best move against a trained model (equation 2 of the paper).

For outputs that are linear in the features and a convex loss, the problem is convex: projected gradient finds the
optimum, and the Frank–Wolfe gap bounds what is left, so `loss − gap` is a proved lower bound (less what the refit
leaves uncertain). With a single logit the loss is monotone in it, and the very first step ends in the optimum: the
ball's extreme point along ±w. Otherwise many starts are tried.

Whether linear outputs can reach the goal at all: over the ball, a combination Σ_c λ_c (z_g − z_c), λ ≥ 0, is at most
its value at the query plus ε ‖Σ λ_c (w_g − w_c)‖_q. Where that is not positive for some λ, no move makes all leads
positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Fit, Training
from oar.plans import MemberPlan, Plan, Proposal
from oar.plans.parts_plan import SignalPathPlan
from oar.plans.proof import Hints
from oar.problem import Problem
from oar.solvers.centroids.spectral import BatchedObjective, Rows, minimise
from oar.solvers.query.shortest_move import goal_limits, multipliers_against, shortest_linear_move
from oar.solvers.settings import ProjectedGradient
from oar.streaming import SignalPath, StreamedTraining

Array = NDArray[np.float64]
TIGHT = 1e-10
SURELY = 1e-6  # share of a budget by which another must be smaller to be smaller whoever refits
AUDITED = 2e-8  # the norm of the training gradient that an audit's refit may leave


@dataclass(frozen=True, eq=False)
class OwnMove:
    """The query's move (d,), its loss, the gap there, and iterations taken."""

    move: Array
    loss: float
    gap: float
    steps: int
    residual: float


def solve(problem: Problem, settings: ProjectedGradient) -> Proposal:
    """Move the query alone; the model stays as it is."""
    streamed = problem.people.streamed
    training = StreamedTraining(problem) if streamed else problem.training()
    fit = training.fit(training.moved(None), training.start(), TIGHT)
    found = best_own_move(problem, training, problem.query_budget, fit, settings)
    # A sum of several classes' probabilities is not concave in the features, even of a linear model.
    convex: bool = problem.model.linear and problem.plain
    return Proposal(
        plan=_alone(problem, training, fit, found.move + 0.0),
        solver="projected-gradient",
        claimed_loss=found.loss,
        gap=found.gap,
        exact=convex and found.gap <= 1e-7 * found.loss,
        finished=found.gap <= max(settings.smallest_gap, 1e-7) * abs(found.loss),
        ended=f"It took {found.steps} steps; allow more with max_steps, or more random_starts.",
        steps=found.steps,
        passes=training.passes,
        residual=found.residual,
        hints=_hints(problem, training, fit) if convex else Hints(),
        **_prospects(problem, training, fit),
    )


def _prospects(problem: Problem, training: Any, fit: Fit) -> dict[str, Any]:
    """Say which budget reaches the goal of a linear model, where least loss is another aim than the goal's region."""
    if not (problem.model.linear and problem.plain) or problem.query.probability is not None:
        return {}
    shortest = shortest_linear_move(problem, training.matrix(fit.parameters))
    if shortest is None or not shortest.any():
        return {}
    least = float(problem.allowance.norm.length(shortest))
    return {
        "reachable": least < problem.query_budget * (1 - SURELY),
        "suffices": (
            f"The query can reach the goal with any budget above {least:.6g}, by the shortest move into its region "
            "(oar.solvers.shortest_move), which need not be the move of least loss."
        ),
    }


def _hints(problem: Problem, training: Any, fit: Fit) -> Hints:
    """Return the model's matrix, and multipliers for what the query must keep to get its goal."""
    matrix = training.matrix(fit.parameters)
    normals, slack = goal_limits(problem, matrix)
    against = multipliers_against(normals, slack, problem.allowance.norm, problem.query_budget)
    return Hints(multipliers=against, slopes=matrix)


def _alone(problem: Problem, training: Any, fit: Fit, move: Array) -> Plan:
    """Return a plan in which only the query moves."""
    if not problem.people.streamed:
        return MemberPlan(problem, move, np.zeros((problem.people.size, problem.people.dimensions)))
    nothing = np.zeros(training.parameter_count)
    return SignalPathPlan(
        problem, move, SignalPath(), training.spec, training.in_given_units(fit.parameters), nothing, training
    )


def best_own_move(
    problem: Problem, training: Training, budget: float, fit: Fit, settings: ProjectedGradient | None = None
) -> OwnMove:
    """Return the best move of the query within `budget` against the model as fitted to unmoved data."""
    settings = settings or ProjectedGradient()
    norm, query, target = problem.allowance.norm, problem.query_features, problem.goal_target

    def evaluate(moves: Array, rows: Rows) -> tuple[Array, Array]:
        judged = [training.goal(fit.parameters, query + move, target) for move in moves]
        return np.array([loss for loss, _, _ in judged]), np.stack([slope for _, _, slope in judged])

    def gap(moves: Array, gradients: Array, rows: Rows) -> Array:
        return np.maximum(budget * norm.dual.length(gradients) + np.einsum("bd,bd->b", gradients, moves), 0.0)

    objective = BatchedObjective(
        evaluate=evaluate,
        project=lambda moves, rows: norm.project(moves, np.full(len(moves), budget)),
        inner=lambda left, right, rows: np.einsum("bd,bd->b", left, right),
        gap=gap,
    )
    starts = np.zeros((1, query.size))
    if not problem.model.linear:
        heading = np.random.default_rng(settings.seed).normal(size=(2 * settings.random_starts, query.size))
        starts = np.concatenate([starts, norm.maximise(heading, np.full(len(heading), budget))])
    # The first step goes to the full response: past the ball, and projected back onto it.
    _, slopes = evaluate(starts, np.arange(len(starts)))
    sizes = norm.dual.length(slopes)
    first = 1e6 * max(budget, 1e-300) / np.where(sizes > 1e-100, sizes, 1.0)
    found = minimise(objective, starts, first, settings.most_steps, settings.smallest_gap)
    best = int(found.values.argmin())
    point = found.points[best : best + 1]
    only = np.zeros(1, dtype=np.intp)
    values, slopes = evaluate(point, only)
    return OwnMove(point[0], float(values[0]), float(gap(point, slopes, only)[0]), found.steps, fit.residual)
