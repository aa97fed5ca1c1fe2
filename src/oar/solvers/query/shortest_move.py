"""The query's shortest move into the goal's region: exact, whatever the norm.

Nearest centroid predicts the goal in the polyhedron of all z with (μ_c − μ_g)·z ≤ (‖μ_c‖² − ‖μ_g‖²)/2 for every
c ≠ g. Seen from the query, with a_c = μ_c − x†, a move δ ends in it if (a_c − a_g)·δ ≤ (‖a_c‖² − ‖a_g‖²)/2. The
shortest such δ is a least-distance problem for p = 2 and a linear programme for p = 1 and p = ∞.

It need not be the move of least loss (equation 2 of the paper): between the two budgets a move that reaches the goal
exists although the loss-optimal one does not.
"""

from __future__ import annotations

import numpy as np

from oar.actions.sets.nonnegative_least_squares import nonnegative_least_squares
from oar.actions.sets.norms import Norm, euclidean
from oar.errors import OptionError
from oar.models.training import Array
from oar.problem import Problem
from oar.tolerances import TIGHT

ENOUGH = (
    "The query can reach the goal with any budget above {:.6g}, by the shortest move into its region "
    "(oar.solvers.shortest_move), which need not be the move of least loss."
)


def shortest_move(problem: Problem) -> Array | None:
    """Return the query's shortest move (d,) into the goal's region; None if there is none.

    For nearest centroid, linear models, one decision tree, and nearest neighbours of few people. With nearest centroid
    and linear models it ends on the region's edge, which is a tie: moves a little longer into the region reach the
    goal. With black boxes it ends inside. It need not be the move of least loss.

    >>> import oar
    >>> people = oar.Population([[-1.0, 0.0], [3.0, 0.0]], ["no", "yes"])
    >>> shortest_move(oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0, 0.0], goal="yes"), oar.Perturb(1.0)))
    array([1., 0.])
    """
    problem.only_balls("the shortest move")
    if problem.model.only_asked:
        from oar.solvers.black_box import planning  # which imports this file

        return planning.shortest_move(problem)
    if problem.model.linear and problem.plain and not problem.people.streamed:
        training = problem.training()
        fit = training.fit(training.moved(None), training.start(), TIGHT)
        return shortest_linear_move(problem, training.matrix(fit.parameters))
    if not problem.model.plain_means:
        raise OptionError(
            "model: must be NearestCentroid() or linear, whose regions are known exactly, got "
            f"{problem.model.name}; oar.individual finds the move of least loss for every model."
        )
    from oar.solvers.centroids.exact import reach_of  # which imports this file

    reach = reach_of(problem)
    return shortest_move_into(reach.offsets, reach.goal, reach.norm)


def shortest_linear_move(problem: Problem, matrix: Array) -> Array | None:
    """Return the shortest move (d,) after which z = (W, b)·(x, 1) is at its goal; None if there is none."""
    normals, slack = goal_limits(problem, matrix)
    if (slack >= 0).all():
        return np.zeros(normals.shape[1])
    size = float(np.abs(normals).max())
    return shortest_within(normals / size, slack / size, problem.allowance.norm) if size > 0 else None


def goal_limits(problem: Problem, matrix: Array) -> tuple[Array, Array]:
    """Return normals (c, d) and slack (c,) of what a move δ must keep to get the goal: normals·δ ≤ slack.

    Of classes the goal's output is the largest: (W_c − W_g)·δ ≤ z_g − z_c; a single one is measured against 0. Of
    values each is as near as asked for: |z + W·δ − goal| ≤ within.
    """
    slopes, target = matrix[:, :-1], problem.goal_target
    outputs = slopes @ problem.query_features + matrix[:, -1]
    if problem.regresses:
        return np.vstack([slopes, -slopes]), problem.within + np.concatenate([target - outputs, outputs - target])
    if target.size == 1:
        return (1 - 2 * target)[:, None] * slopes, (2 * target - 1) * outputs
    rivals = np.delete(np.arange(target.size), problem.goal)
    return slopes[rivals] - slopes[problem.goal], outputs[problem.goal] - outputs[rivals]


def shortest_move_into(offsets: Array, goal: int, norm: Norm) -> Array | None:
    """Return the shortest move (d,) after which the goal is (jointly) nearest; None if there is none.

    Any longer move in the same direction into the region's inside reaches the goal; this very one ends in a tie.
    Offsets are μ_c − x† (k, d).

    >>> shortest_move_into(np.array([[-1.0, 0.0], [3.0, 0.0]]), goal=1, norm=Norm(2.0))
    array([1., 0.])
    """
    size = float(np.abs(offsets).max())
    if size == 0:
        return None  # all centroids lie on the query
    scaled = offsets / size  # so that nothing is squared that is very large or small
    normals, slack = nearer_limits(scaled, goal)
    if (slack >= 0).all():
        return np.zeros(offsets.shape[1])
    found = shortest_within(normals, slack, norm)
    return None if found is None else size * found


def nearer_limits(offsets: Array, goal: int) -> tuple[Array, Array]:
    """Return normals (k − 1, d) and slack (k − 1,) of what a move must keep for the goal to be nearest."""
    rivals = np.delete(offsets, goal, axis=0)
    normals = rivals - offsets[goal]
    return normals, 0.5 * np.einsum("cd,cd->c", normals, rivals + offsets[goal])


def shortest_within(normals: Array, slack: Array, norm: Norm, tolerance: float | None = None) -> Array | None:
    """Return argmin ‖δ‖_p with normals (c, d)·δ ≤ slack (c,); None if there is no such δ.

    For p = 1 and ∞ limits may be broken by a `tolerance`; None for that of the linear programmes' solver.
    """
    if norm.p != 2:
        return _linear_programme(normals, slack, norm, tolerance)
    _, residual = least_distance(normals, slack)
    if np.abs(residual).max() <= 1e-12 or residual[-1] >= 0:  # in exact numbers r_{d+1} = −‖r‖²
        return None
    return -residual[:-1] / residual[-1]


def ruling_out(normals: Array, slack: Array, norm: Norm, budget: float) -> Array | None:
    """Return multipliers (c,) that prove that no δ with ‖δ‖_p ≤ budget has normals·δ ≤ slack; None if none were found.

    Whatever is found is only believed by its multipliers: for λ ≥ 0 any such δ has λᵀNδ ≤ λ·s, and λᵀNδ is at least
    −budget·‖Nᵀλ‖_q. Good multipliers are those of the least-distance problem for p = 2, and otherwise those of the
    linear programme that finds by how much the limits must be broken within the ball.
    """
    multipliers = _multipliers(normals, slack, norm, budget)
    proves = bool(-multipliers @ slack > budget * norm.dual.length(normals.T @ multipliers))
    return multipliers if proves else None


def multipliers_against(normals: Array, slack: Array, norm: Norm, budget: float) -> Array | None:
    """Return λ ≥ 0 that show how long every δ with normals·δ ≤ slack is, for `certificate`; None if none do.

    They are found for limits of length 1 and moves of about 1, and then scaled so that what they prove is most: for
    p = 2 that is −λ·s − ‖λᵀN‖²/4, for p = 1 no slope may be above 1, and for p = ∞, where the budget is in bounds, the
    scale does not matter.
    """
    lengths = euclidean(normals)
    lengths = np.where(lengths > 0, lengths, 1.0)
    unit_normals, unit_slack = normals / lengths[:, None], slack / lengths
    size = max(float(np.abs(unit_slack).max(initial=0.0)), np.finfo(float).tiny)
    try:
        found = _multipliers(unit_normals, unit_slack / size, norm, budget / size)
    except RuntimeError:  # scipy did not come to an end
        return None
    found = found / lengths
    gain, slope = -float(found @ slack), normals.T @ found
    if not gain > 0:
        return None
    if norm.p == 2:
        steep = float(slope @ slope)
        return found * (2 * gain / steep) if steep > 0 else found
    steepest = float(np.abs(slope).max(initial=0.0))
    return found / steepest * (1 - 1e-12) if norm.p == 1 and steepest > 0 else found


def least_distance(normals: Array, slack: Array) -> tuple[Array, Array]:
    """Return u (c,) and r (d + 1,) of the nearest δ with normals·δ ≤ slack (Lawson & Hanson 1974, chapter 23).

    With E = [−Nᵀ; −sᵀ], u = argmin_{u≥0} ‖Eu − e_{d+1}‖ and r = Eu − e_{d+1}, the solution is δ = −r_{1…d} / r_{d+1};
    the limits contradict each other exactly if r = 0.
    """
    stacked = np.vstack([-normals.T, -slack])
    unit = np.zeros(len(stacked))
    unit[-1] = 1.0
    found = nonnegative_least_squares(stacked, unit)
    return found, stacked @ found - unit


def _multipliers(normals: Array, slack: Array, norm: Norm, budget: float) -> Array:
    """Return multipliers of the least distance; for p = 1 and ∞ of min t with normals·δ ≤ slack + t, ‖δ‖ ≤ budget."""
    if norm.p == 2:
        return least_distance(normals, slack)[0]

    from scipy.optimize import linprog

    count, dimensions = normals.shape
    # Variables are δ⁺, δ⁻ ≥ 0 with δ = δ⁺ − δ⁻, and t; their sum is at most the budget (p = 1), or each is (p = ∞).
    limits = np.hstack([normals, -normals, -np.ones((count, 1))])
    levels = slack
    if norm.p == 1:
        limits = np.vstack([limits, np.append(np.ones(2 * dimensions), 0.0)])
        levels = np.append(slack, budget)
    costs = np.append(np.zeros(2 * dimensions), 1.0)
    each = [(0, budget)] * (2 * dimensions)
    found = linprog(costs, A_ub=limits, b_ub=levels, bounds=[*each, (None, None)], method="highs")
    return np.maximum(-found.ineqlin.marginals[:count], 0.0) if found.success else np.zeros(count)


def _linear_programme(normals: Array, slack: Array, norm: Norm, tolerance: float | None) -> Array | None:
    """Return argmin ‖δ‖_p with normals·δ ≤ slack for p = 1 (one bound a coordinate) or p = ∞ (one for all)."""
    from scipy.optimize import linprog

    count, dimensions = normals.shape
    bounds = dimensions if norm.p == 1 else 1
    # Variables are δ and t, with |δ_j| ≤ t_j (p = 1) or ≤ t (p = ∞); minimise Σ t.
    ties = np.eye(dimensions) if norm.p == 1 else np.ones((dimensions, 1))
    both = np.vstack([np.eye(dimensions), -np.eye(dimensions)])
    limits = np.block([[normals, np.zeros((count, bounds))], [both, -np.tile(ties, (2, 1))]])
    levels = np.concatenate([slack, np.zeros(2 * dimensions)])
    costs = np.concatenate([np.zeros(dimensions), np.ones(bounds)])
    free = [(None, None)] * dimensions + [(0, None)] * bounds
    fine = {} if tolerance is None else {"primal_feasibility_tolerance": tolerance}
    found = linprog(costs, A_ub=limits, b_ub=levels, bounds=free, method="highs", options=fine)
    return found.x[:dimensions] if found.success else None
