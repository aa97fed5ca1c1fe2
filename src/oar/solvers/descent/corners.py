"""Starts on other corners of everyone's ball.

A gradient sees only the corner next to it. Over the way from δ to δ' a member's score rises by about
½(∇s + ∇s')·(δ' − δ), which is exact where the score is a quadratic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.solvers.descent.multistart import Search
from oar.solvers.feasible.sets import FeasibleSet

Array = NDArray[np.float64]
MOST_ROUNDS = 10
KEPT = 2  # corners of each member that are tried alone
PRECISION = 1e-9
BETTER = 1e-9  # of the loss


def across(search: Search) -> Iterator[Array]:
    """Yield the best moves with everyone on the corner that its own score likes best, as long as it helps."""
    for _ in range(MOST_ROUNDS):
        best = search.best
        gains, aims = _liked(search)
        if not (gains[0] > 0).any():
            return
        moves = best.moves.copy()
        moves[:-1] = np.where((gains[0] > 0)[:, None], aims[0], moves[:-1])
        yield moves
        if search.best is best:
            return


def one_by_one(search: Search) -> Iterator[Array]:
    """Yield the best moves after single members went to another corner wherever a refit says that it helps."""
    training = search.training
    for _ in range(MOST_ROUNDS):
        best = search.best
        gains, aims = _liked(search)
        moves, loss = best.moves.copy(), best.loss
        possible = np.isfinite(gains) & (training.weights > 0)
        for place in np.argsort(-np.where(possible, gains, 0.0) * training.weights, axis=None, kind="stable"):
            kept, member = np.unravel_index(place, gains.shape)
            if not possible[kept, member]:
                continue
            if search.late:
                break
            stood = moves[member].copy()
            moves[member] = aims[kept, member]
            with suppress(NumericsError):
                outcome = search.judged(moves.copy(), best.step.memory, PRECISION)
                if outcome.loss < loss - BETTER * abs(loss):
                    loss = outcome.loss
                    search.took(1)
                    continue
            moves[member] = stood
        if loss == best.loss:
            return
        yield moves
        if search.best is best:
            return


def _liked(search: Search) -> tuple[Array, Array]:
    """Return, for every member, the corners with the highest estimated gains: (kept, n), best first, and (kept, n, d).

    Corners at which members already stand have no gain, −∞.
    """
    training, best = search.training, search.best
    moves, signal = best.moves, best.step.signal
    gains = np.full((KEPT, training.size), -np.inf)
    aims = np.repeat(moves[None, :-1], KEPT, axis=0)
    here = -best.step.gradient
    if signal is None or search.late or not np.isfinite(here).all():
        return gains, aims
    for corner in _corners(search.feasible, moves, here):
        try:
            there = training.score_gradients(best.step.fit.parameters, training.moved(corner), signal)
        except NumericsError:  # a corner at which somebody's loss is no number
            continue
        way = corner - moves[:-1]
        gain = np.where(way.any(axis=1), 0.5 * np.einsum("nd,nd->n", here + there, way), -np.inf)
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        place = (gains >= gain).sum(axis=0)  # how many are liked better
        for kept in range(KEPT - 1, -1, -1):
            moved_down = place < kept
            gains[kept, moved_down], aims[kept, moved_down] = gains[kept - 1, moved_down], aims[kept - 1, moved_down]
            new = place == kept
            gains[kept, new], aims[kept, new] = gain[new], corner[new]
    return gains, aims


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
