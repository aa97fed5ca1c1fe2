"""Everyone's own answer to a signal: the move that maximises its score, and where the score is level, the usual move.

    max  s(x + δ) − κ/2 ‖δ − m‖²   over ‖δ‖_p ≤ r          s = vᵀ∇_θ ℓ (oar.models.score), m the usual move, κ ≥ 0 small

has the gradient ∇_x s(x + δ) − κ (δ − m). Without κ, and where the limit binds, the answer is a fixed point
δ = r · argmax_{‖e‖_p ≤ 1} ⟨∇_x s(x + δ), e⟩; but a whole face of the ball can be optimal (p = 1, p = ∞, flat scores),
and then the small pull κ decides among its points.

It is found by projected gradient ascent with Barzilai–Borwein steps and a line search in which the value never falls.
The value need not be concave, so the ascent starts from three places: the usual move, staying, and the full response
to the gradient there. The best end counts; of equals, the first. The same card and the same person give the same move.

Everyone is a problem of its own; they are only computed side by side. A member alone must find the same move as among
many, and rounding, which differs with the shapes of arrays, can tip a search into another optimum. So scores are asked
for in blocks of one size, the last of them filled up with rows that are thrown away: then answers are the same to the
last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm
from oar.models.score import Score
from oar.models.training import Array

TOLERANCE = 1e-10  # the first-order gain that may be left, as a share of that of a full move
MOST_STEPS = 500
MOST_HALVINGS = 40
SUFFICIENT = 1e-4
FAR = 1e8  # budgets: a step so long that its projection is the full response
BLOCK = 64  # people whose scores are computed side by side
EQUAL = 1e-9  # ends whose values differ by a smaller share are equals


@dataclass(frozen=True, eq=False)
class People:
    """Those who answer: features (n, d), targets (n, o), usual moves (n, d), radii (n,)."""

    rows: Array
    targets: Array
    usual: Array
    radii: Array

    def some(self, who: NDArray[np.intp]) -> People:
        """Return some of them."""
        return People(self.rows[who], self.targets[who], self.usual[who], self.radii[who])


Value = Callable[[People, Array], tuple[Array, Array]]  # what is maximised, and its gradient, for some people's moves


def best_responses(score: Score, people: People, norm: Norm, pull: float) -> Array:
    """Return everyone's move (n, d)."""

    def value(some: People, moves: Array) -> tuple[Array, Array]:
        scores, slopes = in_equal_blocks(score, some.rows + moves, some.targets)
        away = moves - some.usual
        return scores - 0.5 * pull * np.einsum("nd,nd->n", away, away), slopes - pull * away

    stay = np.zeros_like(people.rows)
    full = norm.maximise(value(people, stay)[1], people.radii)
    moves, best = _ascend(value, people, norm, norm.project(people.usual, people.radii))
    for start in (stay, full):
        other, reached = _ascend(value, people, norm, start)
        better = reached > best + EQUAL * np.abs(best)
        moves, best = np.where(better[:, None], other, moves), np.where(better, reached, best)
    return moves


def in_equal_blocks(score: Score, rows: Array, targets: Array) -> tuple[Array, Array]:
    """Return s and ∇_x s, the same to the last bit whoever else is asked about."""
    size = len(rows)
    places = np.minimum(np.arange(-(-size // BLOCK) * BLOCK), size - 1).reshape(-1, BLOCK)
    scores, slopes = zip(*(score(rows[some], targets[some]) for some in places), strict=True)
    return np.concatenate(scores)[:size], np.concatenate(slopes)[:size]


def _ascend(value: Value, people: People, norm: Norm, moves: Array) -> tuple[Array, Array]:
    """Climb from some moves until the certificate closes for everyone; return moves and values."""
    moves = moves.copy()
    values, slopes = value(people, moves)
    lengths, scale = _far(slopes, people.radii), people.radii * norm.dual.length(slopes)
    going = np.flatnonzero(people.radii > 0)
    for _ in range(MOST_STEPS):
        full = people.radii[going] * norm.dual.length(slopes[going])
        left = full - _inner(slopes[going], moves[going])
        going = going[left > TOLERANCE * np.maximum(scale[going], full)]
        if not going.size:
            break
        some, old, last = people.some(going), moves[going], slopes[going]
        towards = norm.project(old + lengths[going, None] * last, some.radii) - old
        taken = _search(value, some, old, towards, values[going], _inner(last, towards))
        moves[going], values[going], slopes[going] = taken
        change = moves[going] - old
        bend, far = -_inner(change, slopes[going] - last), _far(slopes[going], some.radii)
        # Where curvature is not that of a maximum the model says "as far as possible".
        lengths[going] = np.where(
            bend > 0, np.minimum(_inner(change, change) / np.where(bend > 0, bend, 1.0), far), far
        )
        going = going[change.any(axis=1)]  # who cannot climb any further is at the limit of rounding, or on a kink
    return norm.project(moves, people.radii), values


def _search(
    value: Value, people: People, moves: Array, towards: Array, values: Array, gain: Array
) -> tuple[Array, Array, Array]:
    """Shorten everyone's way until its value rises enough; who finds nothing stays, with slopes 0, and is done.

    Returns moves, values and slopes.
    """
    moves, values, slopes = moves.copy(), values.copy(), np.zeros_like(moves)
    searching, share = np.flatnonzero(gain > 0), 1.0
    for _ in range(MOST_HALVINGS):
        if not searching.size:
            break
        trial = moves[searching] + share * towards[searching]
        reached, found = value(people.some(searching), trial)
        good = reached >= values[searching] + SUFFICIENT * share * gain[searching]
        risen = searching[good]
        moves[risen], values[risen], slopes[risen] = trial[good], reached[good], found[good]
        searching, share = searching[~good], 0.5 * share
    return moves, values, slopes


def _inner(left: Array, right: Array) -> Array:
    return np.einsum("nd,nd->n", left, right)


def _far(slopes: Array, radii: Array) -> Array:
    """Return everyone's length of a step that leads far out of its ball."""
    size = np.abs(slopes).max(axis=-1)
    return FAR * radii / np.where(size > 0, size, 1.0)
