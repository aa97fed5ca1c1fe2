"""Everyone's own answer to a signal: the move that maximises its score, and where the score is level, the usual move.

    max  s(x + δ) − κ/2 ‖δ − m‖²   over ‖δ‖_p ≤ r          s = vᵀ∇_θ ℓ (`AutodiffScore`), m the usual move, κ ≥ 0 small

has the gradient ∇_x s(x + δ) − κ (δ − m). Without κ, and where the limit binds, the answer is a fixed point
δ = r · argmax_{‖e‖_p ≤ 1} ⟨∇_x s(x + δ), e⟩; but a whole face of the ball can be optimal (p = 1, p = ∞, flat scores),
and then the small pull κ decides among its points.

It is found by projected gradient ascent with Barzilai–Borwein steps and a line search in which the value never falls.
The value need not be concave, so the ascent starts from three places: the usual move, staying, and the full response
to the gradient there. The best end counts; of equals, the first.

These ascents stop as soon as almost nothing is left to gain. Where the score is level that is said of many moves, and
rounding would decide which of them it is. So the best end is *settled*: climbed on from until it is its own answer,

    δ = project(δ + ∇/κ)         with ∇ the gradient of the whole,

to SETTLED; error in δ is then no larger than that, where the value is concave. So close to the top values differ by
less than they are rounded by, and line searches go by gradients instead ("approximate Wolfe", Hager and Zhang 2005).
The same card and the same person give the same move, on other machines and in other languages too.

Everyone is a problem of its own; they are only computed side by side. A member alone must find the same move as among
many, and rounding, which differs with the shapes of arrays, can tip a search into another optimum. So scores are asked
for in blocks of one size, the last of them filled up with rows that are thrown away: then answers are the same to the
last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.models.fit.quasi_newton import spectral_length
from oar.models.protocol import Score
from oar.models.training import Array
from oar.tolerances import SUFFICIENT

TOLERANCE = 1e-10  # the first-order gain that may be left, as a share of that of a full move
MOST_STEPS = 500
MOST_HALVINGS = 40
FAR = 1e8  # budgets: a step so long that its projection is the full response
BLOCK = 64  # people whose scores are computed side by side
EQUAL = 1e-9  # ends whose values differ by a smaller share are equals
SETTLED = 1e-9  # of a budget: how far a settled move may be from its own answer
MOST_SETTLING = 2000
CREEPING = 1e-12  # of a budget: steps that lead nowhere
KINK = 1e-12  # of 1/κ: a step so short says that gradients jump there
ROUNDING = 1e-13  # of a value, and of what a full move gains: what is not told apart


class ByPerson:
    """Arrays with a row for each person, of which some people's can be taken."""

    def __getitem__(self, who: NDArray[np.intp]) -> Self:
        return type(self)(*(getattr(self, one.name)[who] for one in fields(self)))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class People(ByPerson):
    """The members who respond: features (n, d), targets (n, o), usual moves (n, d), radii (n,)."""

    rows: Array
    targets: Array
    usual: Array
    radii: Array


Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Value = Callable[[People, Array], tuple[Array, Array]]  # what is maximised, and its gradient, for some people's moves


def best_responses(score: Score, people: People, norm: Norm, pull: float) -> Array:
    """Return everyone's move (n, d)."""

    def value(some: People, moves: Array) -> tuple[Array, Array]:
        scores, gradients = in_equal_blocks(score, some.rows + moves, some.targets)
        away = moves - some.usual
        return scores - 0.5 * pull * np.einsum("nd,nd->n", away, away), gradients - pull * away

    stay = np.zeros_like(people.rows)
    full = norm.maximise(value(people, stay)[1], people.radii)
    moves, best = _ascend(value, people, norm, pull, norm.project(people.usual, people.radii))
    for start in (stay, full):
        other, reached = _ascend(value, people, norm, pull, start)
        better = reached > best + EQUAL * np.abs(best)
        moves, best = np.where(better[:, None], other, moves), np.where(better, reached, best)
    return _settle(value, people, norm, pull, moves) if pull > 0 else moves


def in_equal_blocks(score: Score, rows: Array, targets: Array) -> tuple[Array, Array]:
    """Return s and ∇_x s, the same to the last bit whoever else is asked about."""
    size = len(rows)
    places = np.minimum(np.arange(-(-size // BLOCK) * BLOCK), size - 1).reshape(-1, BLOCK)
    scores, gradients = zip(*(score(rows[some], targets[some]) for some in places), strict=True)
    return np.concatenate(scores)[:size], np.concatenate(gradients)[:size]


def _ascend(value: Value, people: People, norm: Norm, pull: float, moves: Array) -> tuple[Array, Array]:
    """Climb from some moves until the certificate closes for everyone; return moves and values."""
    gradients = value(people, moves)[1]
    scale = people.radii * norm.dual.length(gradients)

    def far(who: Rows, moves: Array, gradients: Array) -> Mask:
        full = people.radii[who] * norm.dual.length(gradients)
        return full - _inner(gradients, moves) > TOLERANCE * np.maximum(scale[who], full)

    return _climb(value, people, norm, pull, moves, far, _far, MOST_STEPS)


def _settle(value: Value, people: People, norm: Norm, pull: float, moves: Array) -> Array:
    """Climb on until moves are their own answers."""

    def far(who: Rows, moves: Array, gradients: Array) -> Mask:
        away = norm.project(moves + gradients / pull, people.radii[who]) - moves
        return np.abs(away).max(axis=1) > SETTLED * people.radii[who]

    def near(gradients: Array, radii: Array) -> Array:
        return np.full(len(radii), 1 / pull)  # longer ones could leap to another hill

    return _climb(value, people, norm, pull, moves, far, near, MOST_SETTLING)[0]


def _climb(
    value: Value,
    people: People,
    norm: Norm,
    pull: float,
    moves: Array,
    far: Callable[[Rows, Array, Array], Mask],
    longest: Callable[[Array, Array], Array],
    most: int,
) -> tuple[Array, Array]:
    """Take projected gradient steps of at most the longest (by gradients and radii), until nobody is far; return moves.

    Values are returned, too. `far` says who, of some people with their moves and gradients, is not there yet.
    """
    moves = moves.copy()
    values, gradients = value(people, moves)
    lengths, going = longest(gradients, people.radii), np.flatnonzero(people.radii > 0)
    blur = ROUNDING * (np.abs(values) + people.radii * norm.dual.length(gradients))
    for _ in range(most):
        going = going[far(going, moves[going], gradients[going])]
        if not going.size:
            break
        some, old, last = people[going], moves[going], gradients[going]
        towards = norm.project(old + lengths[going, None] * last, some.radii) - old
        # A projection's way gains at least ‖way‖²/length; inner products can lose that in rounding.
        gain = np.maximum(_inner(last, towards), _inner(towards, towards) / lengths[going])
        here = old, towards, values[going], last, gain
        moves[going], values[going], gradients[going] = _search(value, some, *here, blur[going])
        change = moves[going] - old
        curvature, limit = -_inner(change, gradients[going] - last), longest(gradients[going], some.radii)
        lengths[going] = spectral_length(_inner(change, change), curvature, limit)
        # Who cannot climb any further is at the limit of rounding, or on a kink.
        creeps = np.abs(change).max(axis=1) <= CREEPING * some.radii
        going = going[~creeps & (pull * lengths[going] > KINK if pull > 0 else True)]
    return norm.project(moves, people.radii), values


def _search(
    value: Value, people: People, start: Array, ways: Array, before: Array, slopes: Array, gains: Array, blur: Array
) -> tuple[Array, Array, Array]:
    """Shorten everyone's way until its value rises enough; who finds nothing stays, with gradients 0, and is done.

    Where values are level within the blur, it is enough that the gradient along the way has not turned round and become
    as steep: φ'(1) ≥ −(1 − 2 SUFFICIENT) φ'(0). Slopes are compared by their difference, in which nothing cancels.

    From moves and along ways (n, d), with values before, their gradients, and gains to first order, it returns moves,
    values and gradients.
    """
    moves, values, gradients = start.copy(), before.copy(), np.zeros_like(start)
    searching, share = np.flatnonzero(gains > 0), 1.0
    for _ in range(MOST_HALVINGS):
        if not searching.size:
            break
        towards, gain = ways[searching], gains[searching]
        trial = moves[searching] + share * towards
        reached, found = value(people[searching], trial)
        good = reached >= values[searching] + SUFFICIENT * share * gain
        turned = gain + _inner(found - slopes[searching], towards) < -(1 - 2 * SUFFICIENT) * gain
        good |= (reached >= values[searching] - blur[searching]) & ~turned
        risen = searching[good]
        moves[risen], values[risen], gradients[risen] = trial[good], reached[good], found[good]
        searching, share = searching[~good], 0.5 * share
    return moves, values, gradients


def _inner(left: Array, right: Array) -> Array:
    return np.einsum("nd,nd->n", left, right)


def _far(gradients: Array, radii: Array) -> Array:
    """Return everyone's length of a step that leads far out of its ball."""
    size = np.abs(gradients).max(axis=-1)
    return FAR * radii / np.where(size > 0, size, 1.0)
