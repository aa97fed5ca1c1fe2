"""Starts on other corners of everyone's ball.

A gradient sees only the corner next to it. Over the way from δ to δ' a member's score rises by about
½(∇s + ∇s')·(δ' − δ), which is exact where the score is a quadratic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array
from oar.solvers.descent.descent import DescentEnd, DescentProblem
from oar.solvers.descent.multistart import History, Start
from oar.solvers.feasible.sets import FeasibleSet

MOST_ROUNDS = 10
KEPT = 2  # corners of each member that are tried alone
PRECISION = 1e-9
BETTER = 1e-9  # of the loss


def across(descent: DescentProblem, history: History, rounds: int = MOST_ROUNDS) -> Iterable[Start]:
    """Return the best moves with everyone on the corner that its own score likes best, as long as it helps."""
    if not rounds:
        return ()
    moves, liked = history.best.moves.copy(), _liked(descent, history.best)
    better = liked.gains[0] > 0
    if not better.any():
        return ()
    moves[:-1][better] = liked.moves[0, better]
    return [Start(moves, followed=partial(across, descent, rounds=rounds - 1))]


def one_by_one(descent: DescentProblem, history: History, rounds: int = MOST_ROUNDS) -> Iterable[Start]:
    """Return the best moves after single members went to another corner wherever a refit says that it helps."""
    best = history.best
    if not rounds:
        return ()
    moves, loss, steps = best.moves.copy(), best.loss, 0
    for member, aim in _liked(descent, best).in_order(descent.training.weights):
        if descent.late:
            break
        stood = moves[member].copy()
        moves[member] = aim
        with suppress(NumericsError):
            outcome = descent.objective.outcome(moves.copy(), best.step.memory, PRECISION)
            if outcome.loss < loss - BETTER * abs(loss):
                loss, steps = outcome.loss, steps + 1
                continue
        moves[member] = stood
    if not steps:
        return ()
    return [Start(moves, steps=steps, followed=partial(one_by_one, descent, rounds=rounds - 1))]


class MostLiked:
    """Everyone's other moves with the highest estimated gains: (kept, n), best first, and the moves (kept, n, d).

    Where there are fewer, gains are −∞, and moves are those that everyone makes already.
    """

    def __init__(self, moves: Array, kept: int) -> None:
        self.gains, self.moves = np.full((kept, len(moves)), -np.inf), np.repeat(moves[None], kept, axis=0)

    def offer(self, gains: Array, moves: Array) -> None:
        """Take other moves (n, d) in where their gains (n,) are among the highest; of equal ones the first count."""
        place = (self.gains >= gains).sum(axis=0)  # how many are liked better
        for kept in range(len(self.gains) - 1, -1, -1):
            down, new = place < kept, place == kept
            self.gains[kept, down], self.moves[kept, down] = self.gains[kept - 1, down], self.moves[kept - 1, down]
            self.gains[kept, new], self.moves[kept, new] = gains[new], moves[new]

    def in_order(self, weights: Array) -> Iterator[tuple[int, Array]]:
        """Yield a person and its other move, those that gain most by their weights first."""
        possible = np.isfinite(self.gains) & (weights > 0)
        worth = np.where(possible, -np.where(possible, self.gains, 0.0) * weights, np.inf)
        for place in np.argsort(worth, axis=None, kind="stable")[: np.count_nonzero(possible)]:
            kept, person = np.unravel_index(place, worth.shape)
            yield int(person), self.moves[kept, person]


def _liked(descent: DescentProblem, best: DescentEnd) -> MostLiked:
    """Return the members' corners with the highest estimated gains; those at which they already stand have none."""
    training, moves, signal = descent.training, best.moves, best.step.signal
    liked, here = MostLiked(moves[:-1], KEPT), -best.step.gradient
    if signal is None or descent.late or not np.isfinite(here).all():
        return liked
    for corner in _corners(descent.feasible, moves, here):
        try:
            there = training.score_gradients(best.step.fit.parameters, training.moved(corner), signal)
        except NumericsError:  # a corner at which somebody's loss is no number
            continue
        way = corner - moves[:-1]
        gain = np.where(way.any(axis=1), 0.5 * np.einsum("nd,nd->n", here + there, way), -np.inf)
        liked.offer(np.where(np.isfinite(gain), gain, -np.inf), corner)
    return liked


def _corners(limits: FeasibleSet, moves: Array, gradients: Array) -> Iterator[Array]:
    """Yield other places at the edge for everyone (n, d).

    With p = 1 there are only the axes' ends. Otherwise those ways are worth a try along which members' gradients
    spread, because scores hardly depend on the others; and in a box, the other side along each axis alone.
    """
    _, dimensions = moves.shape
    radii, axes = limits.radii[:-1, None], np.eye(dimensions)
    if limits.norm.p == np.inf:
        for axis in axes:
            for side in (1.0, -1.0):
                yield np.where(axis != 0, side * radii, moves[:-1])
    ways = axes if limits.norm.p == 1 else np.linalg.svd(gradients, full_matrices=False)[2]
    between = [ways[0] + ways[1], ways[0] - ways[1]] if limits.norm.p != 1 and len(ways) > 1 else []
    for way in (*ways, *between):
        for side in (1.0, -1.0):
            yield limits.respond(np.broadcast_to(side * way, moves.shape))[:-1]
