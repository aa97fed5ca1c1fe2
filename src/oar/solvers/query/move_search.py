"""Spectral projected gradient (Birgin, Martínez & Raydan 2000), many problems at a time.

One iteration, for each problem:

    d = P(x − α g) − x                       projected step; a descent direction unless x is stationary
    x ← x + λ d                              λ by halving, until f falls below the worst of the last few
    α ← ⟨s, s⟩ / ⟨s, y⟩                      Barzilai–Borwein, with s the step and y the change of gradient

Points have shape (problems, ...); `rows` are the positions of those still under way, so that finished
problems cost nothing. Inner products are the caller's, so that it can choose the metric.

The query's own best move against a model that stays as it is (equation 2 of the paper) is found so: for outputs that
are linear in the features and a convex loss from one start, otherwise from many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.models.fit.quasi_newton import spectral_length
from oar.models.training import Array, Fit, Training
from oar.problem import Problem
from oar.progress import check_interrupted, is_late
from oar.solvers.settings import ProjectedGradient
from oar.tolerances import SUFFICIENT

Rows = NDArray[np.intp]

MEMORY = 8
MUCH = 0.1  # of a value, which is enough to fall by
HALVINGS = 25
PATIENCE = 12


@dataclass(frozen=True)
class BatchedObjective:
    """Problems to be minimised side by side; `rows` says which problems the points belong to."""

    evaluate: Callable[[Array, Rows], tuple[Array, Array]]  # values (b,), and gradients like points
    project: Callable[[Array, Rows], Array]
    inner: Callable[[Array, Array, Rows], Array]  # (b,)
    gap: Callable[[Array, Array, Rows], Array]  # (b,), Frank–Wolfe


@dataclass(frozen=True)
class Minimum:
    """The best points seen, with values, whether each search's gap closed, and iterations taken."""

    points: Array
    values: Array
    finished: NDArray[np.bool_]
    steps: int


def minimise(
    objective: BatchedObjective,
    start: Array,
    first_step: Array,
    max_steps: int,
    tolerance: float,
    deadline: float = np.inf,
) -> Minimum:
    """Minimise each problem from its start until its gap is at most `tolerance` times its value.

    `first_step` (b,) is the first α; no step begins after `deadline` on the monotonic clock.
    The best point seen is returned, so no problem ends above its start.
    """
    count = len(start)
    rows = np.arange(count)
    points = objective.project(start, rows)
    values, gradients = objective.evaluate(points, rows)
    best_points, best_values = points.copy(), values.copy()
    finished = objective.gap(points, gradients, rows) <= tolerance * np.abs(values)
    alphas = np.array(first_step, dtype=np.float64)
    history = np.full((count, MEMORY), -np.inf)
    history[:, 0] = values

    steps = 0
    best_lately = best_values.copy()
    rows = rows[~finished]
    points, values, gradients = points[~finished], values[~finished], gradients[~finished]
    while rows.size and steps < max_steps and time.monotonic() < deadline and not is_late():
        check_interrupted()
        steps += 1
        moves = objective.project(points - _column(alphas[rows], points) * gradients, rows) - points
        slopes = objective.inner(gradients, moves, rows)
        accepted, new_values, new_gradients = _line_search(objective, rows, points, moves, slopes, history[rows].max(1))
        change, bend = accepted - points, new_gradients - gradients
        lengths, curvature = objective.inner(change, change, rows), objective.inner(change, bend, rows)
        spectral = spectral_length(lengths, curvature, np.full(len(rows), np.inf))
        alphas[rows] = np.where(np.isfinite(spectral), spectral, 10.0 * alphas[rows])  # no curvature: a long step
        alphas[rows] = np.clip(alphas[rows], 1e-12 * first_step[rows], 1e12 * first_step[rows])
        points, values, gradients = accepted, new_values, new_gradients
        history[rows, steps % MEMORY] = values

        gaps = objective.gap(points, gradients, rows)
        better = values < best_values[rows]
        best_points[rows[better]], best_values[rows[better]] = points[better], values[better]
        closed, stuck = gaps <= tolerance * np.abs(values), lengths == 0
        finished[rows[closed]] = True
        going = ~(closed | stuck)
        if steps % PATIENCE == 0:  # at a kink steps go to and fro for ever: give up on those that gain nothing
            least = 0.01 * tolerance * np.abs(best_lately[rows])
            going &= best_values[rows] < best_lately[rows] - least
            best_lately = best_values.copy()
        rows, points, values, gradients = rows[going], points[going], values[going], gradients[going]
    return Minimum(best_points, best_values, finished, steps)


def _line_search(
    objective: BatchedObjective, rows: Rows, points: Array, moves: Array, slopes: Array, ceilings: Array
) -> tuple[Array, Array, Array]:
    """Halve each step until it lies enough below the recent ceiling; a problem that never does stays put."""
    accepted, sizes = points + moves, np.ones(len(rows))
    values, gradients = objective.evaluate(accepted, rows)
    waiting = np.flatnonzero(~(values <= ceilings - _enough(ceilings, slopes)))
    for halving in range(HALVINGS):
        if not waiting.size:
            break
        # The last try is a step of zero: where nothing helps, the point stays where it was.
        sizes[waiting] = 0.0 if halving == HALVINGS - 1 else 0.5 * sizes[waiting]
        accepted[waiting] = points[waiting] + _column(sizes[waiting], points) * moves[waiting]
        values[waiting], gradients[waiting] = objective.evaluate(accepted[waiting], rows[waiting])
        good = values[waiting] <= ceilings[waiting] - _enough(ceilings[waiting], sizes[waiting] * slopes[waiting])
        waiting = waiting[~good]
    return accepted, values, gradients


def _enough(ceilings: Array, slopes: Array) -> Array:
    """Return by how much values must fall: a share of what slopes promise (too much for large budgets) or of them."""
    return np.minimum(-SUFFICIENT * slopes, MUCH * np.abs(ceilings))


def _column(factors: Array, like: Array) -> Array:
    return factors.reshape(-1, *([1] * (like.ndim - 1)))


@dataclass(frozen=True, eq=False)
class OwnMove:
    """The query's move (d,), its loss, the gap there, and iterations taken."""

    move: Array
    loss: float
    gap: float
    steps: int
    residual: float


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
