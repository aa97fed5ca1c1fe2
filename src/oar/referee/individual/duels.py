"""Linear inequalities of everything that the audit of advice would accept, on which a proof of the lowest cost rests.

A change v moves the row to x + B v. The refitted model is the audit's own, not the solver's. Whoever is accepted has

    (slopes + D) v + leads ≥ 0   for some |D| ≤ errors,

one row for each rival, or for each edge of a wanted range. Rounding, of the refit's outputs too, is in `errors` and
`leads`, outwards. Centroids are known; other models that are linear in the table's coordinates are asked at a few rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem
from oar.referee.centroids import ties_of
from oar.referee.contributions import Array
from oar.referee.verdicts import TIE, UNIT

if TYPE_CHECKING:
    from oar.referee.individual.advice import Judge

FAR = 1e150  # past that, squares overflow


class Duels(NamedTuple):
    """Slopes and errors (r, v) and leads (r,): what is accepted has (slopes + D) v + leads ≥ 0."""

    slopes: Array
    errors: Array
    leads: Array


class UnmovedRefit(NamedTuple):
    """A model refitted to unmoved people: centroids (k, d) with sizes of values (k,), or outputs (m, o) of rows."""

    model: Any
    centroids: tuple[Array, Array] | None
    outputs: Callable[[Array], Array] | None


class Moves(NamedTuple):
    """The feasible changes of a row (d,): B (d, v), bounds (v,), which entries are integers, and slopes (o, d + 1).

    The slopes only say how far to go to see the refit's own well.
    """

    start: Array
    basis: Array
    low: Array
    high: Array
    whole: NDArray[np.bool_]
    expected: Array


def duels(judge: Judge | UnmovedRefit, problem: Problem, moves: Moves) -> Duels:
    """Return what the judge's refit would accept."""
    if judge.model.plain_means:
        return _of_centroids(judge, problem, moves)
    return _of_outputs(judge, problem, moves)


def _of_centroids(judge: Judge | UnmovedRefit, problem: Problem, moves: Moves) -> Duels:
    """Who is accepted is nearer to the goal's centroid by a tie but for rounding, and a tie is wider than rounding.

    Distances are right to 2 UNIT of themselves, and the audit's tie is at least max(t, 4 UNIT S) with S = d_c + d_g. So
    d_c − d_g ≥ max(t, 4 UNIT S) − 2 UNIT S. Times S/2 that is what the lead, half the difference of squares, must be;
    it rises with S, and S is not below the distances in columns that do not move.
    """
    assert judge.centroids is not None
    (centroids, scales), goal = judge.centroids, problem.goal
    offsets = centroids - moves.start
    rivals = np.delete(np.arange(len(offsets)), goal)
    apart = centroids[goal] - centroids[rivals]
    sums = offsets[goal] + offsets[rivals]
    leads = -0.5 * np.einsum("cd,cd->c", apart, sums)
    sizes = 0.5 * np.einsum("cd,cd->c", np.abs(apart), np.abs(offsets[goal]) + np.abs(offsets[rivals]))
    ties = ties_of(scales, goal, moves.start)[rivals]
    still = np.linalg.norm(offsets[:, ~moves.basis.any(axis=1)], axis=1) * (1 - 1e-9)
    both = still[goal] + still[rivals]
    leads -= 0.5 * both * (np.maximum(ties, 4 * UNIT * both) - 2 * UNIT * both)
    return Duels(
        apart @ moves.basis,
        4 * UNIT * (np.abs(apart) @ np.abs(moves.basis)),
        leads + (moves.start.size + 8) * UNIT * sizes,
    )


def _of_outputs(judge: Judge | UnmovedRefit, problem: Problem, moves: Moves) -> Duels:
    """Ask the refit for its slopes, and put them in rows."""
    assert judge.outputs is not None
    here, slopes, errors, noise = seen_slopes(judge.outputs, moves)
    if problem.regresses:
        off = here - problem.goal_target
        room = problem.within + UNIT * (1 + np.abs(problem.goal_target) + problem.within) + 2 * noise
        return Duels(
            np.vstack([-slopes, slopes]), np.vstack([errors, errors]), np.concatenate([room - off, room + off])
        )
    if here.size == 1:  # the second class's logit, measured against 0
        here, noise = np.array([0.0, here[0]]), np.array([0.0, noise[0]])
        slopes, errors = (np.vstack([np.zeros_like(each), each]) for each in (slopes, errors))
    goal, rivals = problem.goal, np.delete(np.arange(here.size), problem.goal)
    # Who is accepted leads by a tie of at least TIE.
    leads = here[goal] - here[rivals] + 2 * (noise[goal] + noise[rivals]) - (1 - 1e-6) * TIE
    return Duels(slopes[goal] - slopes[rivals], errors[goal] + errors[rivals], leads)


def seen_slopes(outputs: Callable[[Array], Array], moves: Moves) -> tuple[Array, Array, Array, Array]:
    """Return outputs (o,) at a row, their slopes (o, v) and the slopes' errors (o, v), and the outputs' noise (o,).

    The refit is asked where outputs have moved by about as much as they are large: slopes come out to rounding.
    """
    factor = (moves.start.size + 10) * UNIT
    inputs, constants = np.abs(moves.expected[:, :-1]), np.abs(moves.expected[:, -1])
    here = np.asarray(outputs(moves.start[None]), dtype=np.float64)[0]
    noise = factor * (2 * inputs @ np.abs(moves.start) + constants + np.abs(here))
    sizes = inputs @ np.abs(moves.basis)
    steps = _steps(moves, sizes.max(axis=0, initial=0.0), 1 + float(np.abs(here).max()))
    there = outputs(moves.start + (moves.basis * steps).T) if steps.size else np.zeros((0, here.size))
    changes = (there - here).T
    errors = 4 * noise[:, None] / np.abs(steps) + 4 * factor * (sizes + np.abs(changes / steps))
    unseen = (sizes == 0) & (np.abs(changes) <= 4 * noise[:, None])  # a column that nothing depends on
    return here, np.where(unseen, 0.0, changes / steps), np.where(unseen, 0.0, errors), noise


def _steps(moves: Moves, sizes: Array, wanted: float) -> Array:
    """Return how far (v,) to go in each entry: whole, and within its bounds, where rows must be possible."""
    with np.errstate(divide="ignore", over="ignore"):
        steps = np.minimum(np.where(sizes > 0, wanted / sizes, 1.0), FAR)
    up = moves.high > 0
    steps = np.where(moves.whole, np.ceil(steps), steps)
    return np.where(
        moves.whole,
        np.where(up, np.minimum(steps, moves.high), np.maximum(-steps, moves.low)),
        np.where(up, steps, -steps),
    )
