"""The query's own best move, alone (equation 2 of the paper) or together with the members (joint).

For a query at z the members' best answer is known in closed form (`reach`), so only z is searched:

    F(z) = log(1 + Σ_{c≠g} exp(near(z, ball_g) − far(z, ball_c))),        ‖z − x†‖_p ≤ ε

with balls of radius r_c around the centroids (all r_c = 0: the individual alone). By the envelope theorem
∇near and ∇far are the unit vectors from the nearest and farthest points to z. F is not convex, so the
search starts from many points, side by side, and keeps the best. What is proved is a lower bound
(`Reach.relaxed`), not that the best start was among them.

F has a kink where the query touches the goal's ball (near = 0), and optima like to sit in it; there a gradient
method bounces. A search that ends unfinished is therefore carried on with near blurred to √(near² + τ²) − τ,
for smaller and smaller τ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm, euclidean
from oar.plans import Proposal
from oar.problem import Problem
from oar.solvers.centroid import propose
from oar.solvers.reach import Reach, reach_of
from oar.solvers.settings import ProjectedGradient
from oar.solvers.spectral import Array, Minimum, Objective, Rows, minimise

MOST_RIVALS = 12
BLURS = (1e-2, 1e-4, 1e-6, 1e-8)


def solve(problem: Problem, members: bool, settings: ProjectedGradient) -> Proposal:
    """Move the query, and the members too if `members`, to the least goal loss found."""
    reach = reach_of(problem, members, query=True)
    batch = QueryBatch(
        reach.offsets[None], np.array([reach.goal]), reach.radii[None], np.array([reach.query_budget]), reach.norm
    )
    found = best_moves(batch, settings)
    query_move = found.points[0] + 0.0
    at_query = Reach(reach.offsets - query_move, reach.goal, reach.unit, reach.scale, reach.norm, reach.tie)
    return propose(
        problem,
        reach,
        at_query.directions(),
        query_move,
        solver="projected-gradient",
        finished=bool(found.finished[0]),
        steps=found.steps,
    )


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Independent queries to be moved: offsets (b, k, d), goals (b,), radii (b, k), budgets (b,)."""

    offsets: Array
    goals: NDArray[np.intp]
    radii: Array
    budgets: Array
    norm: Norm


def best_moves(batch: QueryBatch, settings: ProjectedGradient) -> Minimum:
    """Return the best move (b, d) of each query, over all starts."""
    starts = start_moves(batch, settings)
    count, tries, dimensions = starts.shape
    owner = np.repeat(np.arange(count), tries)
    found = _search(batch, owner, starts.reshape(-1, dimensions), 0.0, settings)
    chosen = found.values.reshape(count, tries).argmin(axis=1) + tries * np.arange(count)
    points, values, finished = found.points[chosen], found.values[chosen], found.finished[chosen]

    steps, unsure = found.steps, np.flatnonzero(~finished)
    exactly = _objective(batch, unsure, 0.0)
    blurred = points[unsure]
    for blur in BLURS if unsure.size else ():
        softened = _search(batch, unsure, blurred, blur, settings)
        blurred, steps = softened.points, steps + softened.steps
        true_values, _ = exactly.evaluate(blurred, np.arange(unsure.size))
        better = true_values < values[unsure]
        points[unsure[better]], values[unsure[better]] = blurred[better], true_values[better]
        finished[unsure] = softened.finished
    return Minimum(points, values, finished, steps)


def _search(
    batch: QueryBatch, owner: NDArray[np.intp], starts: Array, blur: float, settings: ProjectedGradient
) -> Minimum:
    # Distances have slope 1, so a first step of the budget's size reaches across the ball.
    first = np.maximum(batch.budgets[owner], np.finfo(float).tiny)
    return minimise(_objective(batch, owner, blur), starts, first, settings.max_steps, settings.tolerance)


def start_moves(batch: QueryBatch, settings: ProjectedGradient) -> Array:
    """Return starts (b, s, d): stay, towards the goal, away from rivals, across to the goal, random ones."""
    count, classes, dimensions = batch.offsets.shape
    everyone = np.arange(count)
    to_goal = batch.offsets[everyone, batch.goals]
    distances = euclidean(batch.offsets)
    distances[everyone, batch.goals] = np.inf
    rivals = distances.argsort(axis=1)[:, : min(classes - 1, MOST_RIVALS)]
    to_rivals = np.take_along_axis(batch.offsets, rivals[..., None], axis=1)
    random = np.random.default_rng(settings.seed).normal(size=(count, settings.random_starts, dimensions))
    headings = np.concatenate([-to_rivals, to_goal[:, None] - to_rivals, random], axis=1)
    budgets = batch.budgets[:, None]
    return np.concatenate(
        [
            np.zeros((count, 1, dimensions)),
            batch.norm.project(to_goal[:, None], budgets),
            batch.norm.maximise(headings, np.broadcast_to(budgets, headings.shape[:2])),
        ],
        axis=1,
    )


def _objective(batch: QueryBatch, owner: NDArray[np.intp], blur: float) -> Objective:
    """Return F and its gradient over moves (b, d); row j of the points belongs to query owner[j].

    `blur` is τ as a share of the query's budget.
    """
    norm = batch.norm

    def evaluate(moves: Array, rows: Rows) -> tuple[Array, Array]:
        queries = owner[rows]
        goals, each = batch.goals[queries], np.arange(len(rows))
        offsets = batch.offsets[queries] - moves[:, None]
        radii = batch.radii[queries]
        # The farthest points of all balls, then the nearest point for the goal's.
        ends = offsets + norm.farthest(offsets, radii)
        goal_offsets = offsets[each, goals]
        ends[each, goals] = goal_offsets + norm.project(-goal_offsets, radii[each, goals])
        distances = euclidean(ends)
        units = ends / np.where(distances > 0, distances, 1.0)[..., None]
        if blur:
            width, near = blur * batch.budgets[queries], distances[each, goals]
            softened = np.hypot(near, width)
            distances[each, goals] = softened - width
            units[each, goals] *= (near / softened)[:, None]
        exponents = distances[each, goals][:, None] - distances
        exponents[each, goals] = -np.inf
        highest = np.maximum(exponents.max(axis=1), 0.0)[:, None]
        shares = np.exp(exponents - highest)
        values = highest[:, 0] + np.log1p(shares.sum(axis=1) + np.expm1(-highest[:, 0]))
        pulls = np.exp(exponents - values[:, None])
        # ∂d_c/∂z = −u_c with u_c the unit vector from z to the end point, so ∇F = Σ_c q_c (u_c − u_g).
        gradients = np.einsum("bc,bcd->bd", pulls, units) - pulls.sum(axis=1)[:, None] * units[each, goals]
        return values, gradients

    def gap(moves: Array, gradients: Array, rows: Rows) -> Array:
        budgets = batch.budgets[owner[rows]]
        return np.maximum(budgets * norm.dual.length(gradients) + (gradients * moves).sum(axis=1), 0.0)

    return Objective(
        evaluate=evaluate,
        project=lambda moves, rows: norm.project(moves, batch.budgets[owner[rows]]),
        inner=lambda left, right, rows: np.einsum("bd,bd->b", left, right),
        gap=gap,
    )
