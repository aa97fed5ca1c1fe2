"""The members' moves by projected gradient: a second opinion that does not know the closed form.

It works on every member's own move δ_i, not on class shifts: refit, gradient of the goal loss with
respect to each δ_i, step, projection onto each member's ball.

* Metric. ∂L/∂δ_i = m_i G_c with m_i = w_i/W_c. Measuring moves by Σ m_i ‖δ_i‖² makes the gradient G_c for
  every member of c; projections are made member by member, so this metric leaves them as they are. The number of
  iterations then depends neither on how many members there are nor on how unequal their weights are.
* Warm start. Where everyone may move equally far, "all members move by minus the individual's best move"
  gives the query exactly what its own move would (training is translation-equivariant). The search starts
  from the better of that and staying put, so it never ends above the individual's loss.
* Kink. Where the goal's centroid can reach the query, the loss has a kink that gradient steps bounce around; a search
  that ends unfinished is carried on with that kink rounded off, less and less.
* At the end each class's moves are averaged in proportion to budgets, which changes no centroid and breaks
  no limit (balls are convex), so that the plan can be published.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oar.actions.sets.norms import euclidean
from oar.plans import Proposal
from oar.problem import Problem, Query
from oar.solvers.centroids import query_moves
from oar.solvers.centroids.exact import no_signal, propose, reach_of
from oar.solvers.query.move_search import Array, BatchedObjective, Minimum, Rows, minimise
from oar.solvers.registry import OfCentroids, Task, searching
from oar.solvers.settings import SEARCH, ProjectedGradient, no_idle_draws, no_restarts

BLURS = (1e-2, 1e-4, 1e-6)


def solve(problem: Problem, settings: ProjectedGradient) -> Proposal:
    """Minimise the goal loss over all members' moves."""
    from scipy.sparse import csc_array

    people, allowance, reach = problem.people, problem.allowance, reach_of(problem)
    everyones = allowance.everyones(people.size)
    movers = np.flatnonzero(everyones > 0)
    radii, codes = everyones[movers], people.codes(0, people.size)[movers]
    classes, tolerance = len(people.classes), settings.smallest_gap
    # Column i holds m_i, by which i's move shifts its centroid, in the row of i's class: the product with moves (n, d)
    # gives the classes' shifts.
    masses = people.row_weights[movers] / people.class_sums(None)[codes]
    averaging = csc_array((masses, codes, np.arange(movers.size + 1)), shape=(classes, movers.size))

    def shifts(moves: Array) -> Array:
        return averaging @ moves

    def evaluate(points: Array, blur: float = 0.0) -> tuple[Array, Array]:
        loss, gradients = reach.loss_and_gradients(reach.offsets + shifts(points[0]), blur)
        return np.array([loss]), gradients.take(codes, axis=0)[None]

    def gap(points: Array, gradients: Array, rows: Rows) -> Array:
        each = radii * reach.norm.dual.length(gradients[0]) + np.einsum("nd,nd->n", gradients[0], points[0])
        return np.array([(masses * np.maximum(each, 0.0)).sum()])

    def search(start: Array, blur: float, max_steps: int) -> Minimum:
        objective = BatchedObjective(
            evaluate=lambda points, rows: evaluate(points, blur),
            project=lambda points, rows: reach.norm.project(points, radii[None]),
            inner=lambda left, right, rows: np.array([(masses * np.einsum("nd,nd->n", left[0], right[0])).sum()]),
            gap=gap,
        )
        first = np.array([max(radii.max(initial=0.0), np.finfo(float).tiny)])
        return minimise(objective, start, first, max_steps, tolerance)

    # A rival's centroid that lies on the query has no gradient; it is sent off in a fixed direction, a little.
    stuck = (euclidean(reach.offsets) == 0)[:, None]
    stuck[reach.goal] = False
    nudge = np.where(stuck, 1e-3 * reach.norm.farthest(reach.offsets, np.ones(classes)), 0.0)
    starts = [(radii[:, None] * nudge.take(codes, axis=0))[None]]
    if allowance.same_for_everyone:
        own = replace(problem, query=Query(problem.query_features, problem.query.goal))
        search_settings = ProjectedGradient(random_starts=settings.random_starts, seed=settings.seed)
        individual = query_moves.solve(own, members=False, settings=search_settings).plan.query_move
        starts.append(np.broadcast_to(-individual, starts[0].shape))
    start = min(starts, key=lambda moves: float(evaluate(moves)[0][0]))
    found = search(start, 0.0, settings.most_steps)
    best, steps = found, found.steps
    for blur in BLURS if not best.finished[0] else ():
        found = search(found.points, blur * float(reach.radii[reach.goal]), settings.most_steps - steps)
        steps += found.steps
        true_value, _ = evaluate(found.points)
        if true_value[0] < best.values[0]:
            best = Minimum(found.points, true_value, found.finished, found.steps)

    # s_c = Σ m_i δ_i / Σ m_i ε_i, so that δ_i = ε_i s_c has the same class means.
    total = np.bincount(codes, weights=masses * radii, minlength=classes)[:, None]
    directions = shifts(best.points[0]) / np.where(total > 0, total, 1.0)
    moves, passes = (directions + 0.0, np.zeros(people.dimensions)), len(starts) + steps
    return propose(problem, reach, *moves, solver="projected-gradient", tolerance=tolerance, steps=steps, passes=passes)


class CentroidsByGradient(OfCentroids):
    """A second opinion that does not know the closed form."""

    name, settings, auto = "projected-gradient", ProjectedGradient, False

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Minimise over all members' moves."""
        no_signal(task.signal)
        no_restarts(settings)
        alike = task.problem.allowance.same_for_everyone
        no_idle_draws(settings, "" if alike else "members have budgets of their own, and none starts at random")
        return solve(task.problem, searching(settings, SEARCH))
