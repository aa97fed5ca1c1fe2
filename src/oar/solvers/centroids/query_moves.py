"""The query's own best move, alone (equation 2 of the paper) or together with the members (joint).

For a query at z the members' best answer is known in closed form (`reach`), so only z is searched:

    F(z) = log(1 + Σ_{c≠g} exp(near(z, ball_g) − far(z, ball_c))),        ‖z − x†‖_p ≤ ε

with balls of radius r_c around the centroids (all r_c = 0: the individual alone). By the envelope theorem
∇near and ∇far are the unit vectors from the nearest and farthest points to z. F is not convex: the best of many starts
counts, beside a proved lower bound (`Reach.relaxed`). It has a kink where the query touches the goal's ball (near = 0),
and optima like to sit in it; there a gradient method bounces. So the search is made twice: freely, and among the moves
that touch, where near is 0 and the rest is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm, euclidean
from oar.plans import Proposal
from oar.problem import Problem
from oar.solvers.centroids.exact import Reach, no_signal, propose, reach_of
from oar.solvers.query.move_search import Array, BatchedObjective, Minimum, Rows, minimise
from oar.solvers.registry import OfCentroids, Task, searching
from oar.solvers.settings import SEARCH, ProjectedGradient, no_idle_draws, no_restarts

MOST_RIVALS = 12
DYKSTRA_ROUNDS = 200
TINY = 1e-9  # a loss
SHARPER = (10.0, 1e2, 1e3, 1e4, 1e5)  # what distances are about 1 to 1 part of, so that one rival alone counts
WIDEST = 'oar.joint(problem, solver="widest-lead") finds moves that reach it, which need not be those of least loss.'


def solve(problem: Problem, members: bool, settings: ProjectedGradient) -> Proposal:
    """Move the query, and the members too if `members`, to the least goal loss found."""
    reach = reach_of(problem, members, query=True)
    found = best_moves(QueryBatch.of(reach), settings)
    query_move = found.points[0] + 0.0
    proposal = _proposed(problem, reach, query_move, "projected-gradient", settings.smallest_gap, found.steps)
    short = problem.query.probability is None and members and _lead(reach, query_move) <= 0
    if short and reach.lead(reach.relaxed) > 0 and _lead(reach, widest_lead(reach, settings)[0]) > 0:
        return replace(proposal, reachable=True, suffices=WIDEST)
    return proposal


def _proposed(problem: Problem, reach: Reach, query_move: Array, solver: str, tolerance: float, steps: int) -> Proposal:
    directions = replace(reach, offsets=reach.offsets - query_move).directions()  # the members' best answer
    return propose(problem, reach, directions, query_move, solver=solver, tolerance=tolerance, steps=steps)


def _lead(reach: Reach, query_move: Array) -> float:
    """Return the goal's lead once the query has moved and the members have answered."""
    return float(replace(reach, offsets=reach.offsets - query_move).lead(reach.radii))


def widest_lead(reach: Reach, settings: ProjectedGradient) -> tuple[Array, int]:
    """Return the query's move (d,) to which members' best answer gives the widest lead found, and the steps it took."""
    size = float(euclidean(reach.offsets).max() + reach.radii.max() + reach.query_budget) or 1.0
    best, steps, moves = -np.inf, 0, np.zeros((1, 1, reach.offsets.shape[1]))
    for unit in SHARPER:  # in the end log odds against the goal are nothing but the lead over the nearest class
        larger = unit / size
        batch = QueryBatch.of(reach, larger)
        starts = np.concatenate([larger * moves, start_moves(batch, settings)], axis=1)
        found = _best(batch, np.arange(1), starts, settings, odds=True)
        moved, steps = found.points[0] / larger, steps + found.steps
        lead = _lead(reach, moved)
        if lead > best:
            best, moves = lead, moved[None, None]
    return reach.norm.project(moves[0], np.array([reach.query_budget]))[0] + 0.0, steps


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Independent queries to be moved: offsets (b, k, d), goals (b,), radii (b, k), budgets (b,)."""

    offsets: Array
    goals: NDArray[np.intp]
    radii: Array
    budgets: Array
    norm: Norm

    @classmethod
    def of(cls, reach: Reach, unit: float = 1.0) -> QueryBatch:
        """Return a problem's only query, with everything so many times as large."""
        budgets = np.array([unit * reach.query_budget])
        return cls(unit * reach.offsets[None], np.array([reach.goal]), unit * reach.radii[None], budgets, reach.norm)


def best_moves(batch: QueryBatch, settings: ProjectedGradient) -> Minimum:
    """Return the best move (b, d) of each query, over all starts."""
    starts = start_moves(batch, settings)
    best = _best(batch, np.arange(len(batch.goals)), starts, settings)
    small = np.flatnonzero(best.values < TINY)  # their slopes are lost: moves are looked for again by log odds
    if not small.size:
        return best
    starts = np.concatenate([best.points[small, None], starts[small]], axis=1)
    found = _best(batch, small, starts, settings, odds=True)
    best.points[small], best.values[small] = found.points, np.logaddexp(0.0, found.values)
    best.finished[small] = found.finished
    return replace(best, steps=best.steps + found.steps)


def _best(
    batch: QueryBatch, queries: NDArray[np.intp], starts: Array, settings: ProjectedGradient, odds: bool = False
) -> Minimum:
    """Return the best move of each of some queries, freely or touching; by `odds`, values are log odds."""
    best = _search(batch, queries, starts, settings, False, odds)
    goals, budgets = batch.goals[queries], batch.budgets[queries]
    goal_radii = batch.radii[queries, goals]
    apart = batch.norm.length(batch.offsets[queries, goals])
    able = np.flatnonzero((goal_radii > 0) & (apart <= budgets + goal_radii))
    if not able.size:
        return best
    touching = _search(batch, queries[able], starts[able], settings, True, odds)
    # Judged as it is, not as it would be if the projection onto both balls had no rounding.
    freely = _objective(batch, queries[able], batch.budgets, False, odds)
    values, _ = freely.evaluate(touching.points, np.arange(able.size))
    better = values < best.values[able]
    best.points[able[better]], best.values[able[better]] = touching.points[better], values[better]
    best.finished[able[better]] = touching.finished[better]
    return Minimum(best.points, best.values, best.finished, best.steps + touching.steps)


def _search(
    batch: QueryBatch, queries: NDArray[np.intp], starts: Array, settings: ProjectedGradient, touching: bool, odds: bool
) -> Minimum:
    """Return the best move of each of some queries, from its own starts (q, s, d)."""
    count, tries, dimensions = starts.shape
    owner = np.repeat(queries, tries)
    # Distances have slope 1, so a first step of the budget's size reaches across the ball.
    first = np.maximum(batch.budgets[owner], np.finfo(float).tiny)
    objective = _objective(batch, owner, first, touching, odds)
    found = minimise(objective, starts.reshape(-1, dimensions), first, settings.most_steps, settings.smallest_gap)
    chosen = found.values.reshape(count, tries).argmin(axis=1) + tries * np.arange(count)
    return Minimum(found.points[chosen], found.values[chosen], found.finished[chosen], found.steps)


def start_moves(batch: QueryBatch, settings: ProjectedGradient) -> Array:
    """Return starts (b, s, d): stay, towards the goal, away from rivals, across to the goal, random ones."""
    count, classes, dimensions = batch.offsets.shape
    everyone = np.arange(count)
    to_goal = batch.offsets[everyone, batch.goals]
    distances = euclidean(batch.offsets)
    distances[everyone, batch.goals] = np.inf
    rivals = distances.argsort(axis=1)[:, : min(classes - 1, MOST_RIVALS)]
    to_rivals = np.take_along_axis(batch.offsets, rivals[..., None], axis=1)
    generator = np.random.default_rng(settings.seed)
    random = generator.normal(size=(count, settings.random_starts, dimensions))
    # Extreme points of the ball, each once at full length and once drawn inwards
    inwards = generator.random((count, settings.random_starts, 1))
    headings = np.concatenate([-to_rivals, to_goal[:, None] - to_rivals, random], axis=1)
    budgets = batch.budgets[:, None]
    extreme = batch.norm.maximise(headings, np.broadcast_to(budgets, headings.shape[:2]))
    scattered = batch.norm.project(random * budgets[..., None], budgets) * inwards
    stay, towards = np.zeros((count, 1, dimensions)), batch.norm.project(to_goal[:, None], budgets)
    return np.concatenate([stay, towards, extreme, scattered], axis=1)


def _objective(
    batch: QueryBatch, owner: NDArray[np.intp], first: Array, touching: bool, odds: bool = False
) -> BatchedObjective:
    """Return F and its gradient over moves (b, d); row j of the points belongs to query owner[j].

    By `odds`, F is the log odds against the goal. With `touching`, moves are confined to those from which the goal's
    centroid can be brought onto the query.
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
        if touching:
            ends[each, goals] = 0.0
        distances = euclidean(ends)
        units = ends / np.where(distances > 0, distances, 1.0)[..., None]
        exponents = distances[each, goals][:, None] - distances
        exponents[each, goals] = -np.inf
        highest = exponents.max(axis=1) if odds else np.maximum(exponents.max(axis=1), 0.0)
        total = np.exp(exponents - highest[:, None]).sum(axis=1)
        values = highest + (np.log(total) if odds else np.log1p(total + np.expm1(-highest)))
        pulls = np.exp(exponents - values[:, None])
        # ∂d_c/∂z = −u_c with u_c the unit vector from z to the end point, so ∇F = Σ_c q_c (u_c − u_g).
        gradients = np.einsum("bc,bcd->bd", pulls, units) - pulls.sum(axis=1)[:, None] * units[each, goals]
        return values, gradients

    def project(moves: Array, rows: Rows) -> Array:
        queries = owner[rows]
        goals, budgets = batch.goals[queries], batch.budgets[queries]
        if not touching:
            return norm.project(moves, budgets)
        return project_onto_both(norm, moves, budgets, batch.offsets[queries, goals], batch.radii[queries, goals])

    def gap(moves: Array, gradients: Array, rows: Rows) -> Array:
        if touching:  # no linear maximiser over two balls: measure by a projected step instead
            steps = project(moves - first[rows][:, None] * gradients, rows) - moves
            return np.maximum(-(gradients * steps).sum(axis=1), 0.0)
        budgets = batch.budgets[owner[rows]]
        return np.maximum(budgets * norm.dual.length(gradients) + (gradients * moves).sum(axis=1), 0.0)

    return BatchedObjective(evaluate, project, lambda left, right, rows: np.einsum("bd,bd->b", left, right), gap)


def project_onto_both(norm: Norm, points: Array, budgets: Array, centres: Array, radii: Array) -> Array:
    """Project each point (b, d) onto the ball of `budgets` around 0 that meets the ball of `radii` around `centres`.

    p=∞: two boxes meet in a box. p=2: the nearest point of one ball if it lies in the other, else the point of the
    two spheres' common circle in the direction of the point. p=1: Dykstra's alternating projections.
    """
    if norm.p == np.inf:
        low = np.maximum(-budgets[:, None], centres - radii[:, None])
        high = np.minimum(budgets[:, None], centres + radii[:, None])
        return np.clip(points, np.minimum(low, high), high)
    if norm.p == 1:
        return _dykstra(norm, points, budgets, centres, radii)
    own = norm.project(points, budgets)
    goals = centres + norm.project(points - centres, radii)
    distances = euclidean(centres)[:, None]
    distances = np.where(distances > 0, distances, 1.0)  # concentric: one ball holds the other, and no circle is needed
    axes = centres / distances
    # (D² + ε² − r²)/2D and √(ε² − along²), written so that nothing is squared
    along = 0.5 * (distances + (budgets - radii)[:, None] * ((budgets + radii)[:, None] / distances))
    across = points - np.einsum("bd,bd->b", points, axes)[:, None] * axes
    inner, outer = np.maximum(budgets[:, None] - along, 0.0), np.maximum(budgets[:, None] + along, 0.0)
    width = np.sqrt(inner) * np.sqrt(outer)
    length = euclidean(across)[:, None]
    circle = along * axes + width * (across / np.where(length > 0, length, 1.0))
    own_fits = (euclidean(own - centres) <= radii)[:, None]
    goals_fit = (euclidean(goals) <= budgets)[:, None]
    return np.where(own_fits, own, np.where(goals_fit, goals, circle))


def _dykstra(norm: Norm, points: Array, budgets: Array, centres: Array, radii: Array) -> Array:
    """Project onto two p-balls by turns, each turn correcting for what the last one on that ball took away."""
    own_excess, goal_excess = np.zeros_like(points), np.zeros_like(points)
    for _ in range(DYKSTRA_ROUNDS):
        own = norm.project(points + own_excess, budgets)
        own_excess += points - own
        goals = centres + norm.project(own + goal_excess - centres, radii)
        goal_excess += own - goals
        points = goals
        if np.abs(goals - own).max() <= 1e-13 * np.abs(goals).max():  # in both balls; points alone may stall
            break
    return norm.project(goals, budgets)


class QueryAmongCentroids(OfCentroids):
    """The query's own move, and the members' with it, from many starts."""

    name, settings, verbs = "projected-gradient", ProjectedGradient, ("individual", "joint")

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move the query, and in joint recourse everybody."""
        no_signal(task.signal)
        no_restarts(settings)
        no_idle_draws(settings, "")
        return solve(task.problem, task.verb == "joint", searching(settings, SEARCH))


class WidestLead(OfCentroids):
    """The query's own move, and the members' with it, that bring the goal farthest ahead of every other class."""

    name, verbs, auto = "widest-lead", ("individual", "joint"), False

    def propose(self, task: Task, settings: None) -> Proposal:
        """Move the query, and in joint recourse everybody, whatever the loss becomes."""
        no_signal(task.signal)
        reach = reach_of(task.problem, task.verb == "joint", query=True)
        move, steps = widest_lead(reach, searching(ProjectedGradient(), SEARCH))
        return _proposed(task.problem, reach, move, self.name, np.inf, steps)
