"""The members' moves by projected gradient: a second opinion that does not know the closed form.

It works on every member's own move δ_i, not on class shifts: refit, gradient of the goal loss with
respect to each δ_i, step, projection onto each member's ball.

* Metric. ∂L/∂δ_i = m_i G_c with m_i = w_i/W_c. Measuring moves by Σ m_i ‖δ_i‖² makes the gradient G_c for
  every member of c; projections are made member by member, so this metric leaves them as they are. The number of
  iterations then depends neither on how many members there are nor on how unequal their weights are.
* Warm start. Where everyone may move equally far, "all members move by minus the individual's best move"
  gives the query exactly what its own move would (training is translation-equivariant). The search starts
  from the better of that and staying put, so it never ends above the individual's loss.
* At the end each class's moves are averaged in proportion to budgets, which changes no centroid and breaks
  no limit (balls are convex), so that the plan can be published.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from oar.actions.norms import euclidean
from oar.models.nearest_centroid import goal_loss
from oar.plans import Proposal
from oar.problem import Problem, Query
from oar.solvers import query_moves
from oar.solvers.centroid import propose
from oar.solvers.reach import reach_of
from oar.solvers.settings import ProjectedGradient
from oar.solvers.spectral import Array, Objective, Rows, minimise


def solve(problem: Problem, settings: ProjectedGradient) -> Proposal:
    """Minimise the goal loss over all members' moves."""
    people, allowance, reach = problem.people, problem.allowance, reach_of(problem)
    everyones = allowance.everyones(people.size)
    movers = np.flatnonzero(everyones > 0)
    radii, codes = everyones[movers], people.codes(0, people.size)[movers]
    classes = len(people.classes)
    weights = np.ones(movers.size) if people.weights is None else people.weights[movers]
    masses = weights / people.class_sums(None)[codes]  # m_i: by how much member i's move shifts its centroid

    def shifts(moves: Array) -> Array:
        weighted = masses[:, None] * moves
        return np.stack([np.bincount(codes, weights=column, minlength=classes) for column in weighted.T], axis=1)

    def evaluate(points: Array, rows: Rows) -> tuple[Array, Array]:
        offsets = reach.offsets + shifts(points[0])
        return goal_loss(euclidean(offsets), reach.goal)[None], reach.gradients(offsets)[codes][None]

    def gap(points: Array, gradients: Array, rows: Rows) -> Array:
        each = radii * reach.norm.dual.length(gradients[0]) + (gradients[0] * points[0]).sum(axis=1)
        return np.array([masses @ np.maximum(each, 0.0)])

    objective = Objective(
        evaluate=evaluate,
        project=lambda points, rows: reach.norm.project(points, radii[None]),
        inner=lambda left, right, rows: np.array([masses @ (left[0] * right[0]).sum(axis=1)]),
        gap=gap,
    )
    starts = [np.zeros((1, movers.size, people.dimensions))]
    if allowance.same_for_everyone:
        own = dataclasses.replace(problem, query=Query(problem.query_features, problem.query.goal))
        individual = query_moves.solve(own, members=False, settings=ProjectedGradient()).plan.query_move
        starts.append(np.broadcast_to(-individual, starts[0].shape))
    start = min(starts, key=lambda moves: float(evaluate(moves, np.zeros(1, dtype=np.intp))[0][0]))
    found = minimise(
        objective,
        start,
        np.array([max(radii.max(initial=0.0), np.finfo(float).tiny)]),
        settings.max_steps,
        settings.tolerance,
    )

    # s_c = Σ m_i δ_i / Σ m_i ε_i, so that δ_i = ε_i s_c has the same class means.
    total = np.bincount(codes, weights=masses * radii, minlength=classes)[:, None]
    directions = shifts(found.points[0]) / np.where(total > 0, total, 1.0)
    return propose(
        problem,
        reach,
        directions + 0.0,
        np.zeros(people.dimensions),
        solver="projected-gradient",
        tolerance=settings.tolerance,
        steps=found.steps,
        passes=1 + len(starts) - 1 + found.steps,
    )
