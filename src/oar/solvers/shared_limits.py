"""One budget for all of a person's rows: Σ_t ‖δ_it‖_p ≤ ε_i, as where somebody acts in several rounds.

**Projection.** The nearest point of that set is, by duality, x_t = prox(v_t) row by row, with one price λ ≥ 0 a person
that spends the budget: the proximal map of λ‖·‖_p, which by Moreau is v less its projection onto the dual ball of
radius λ. How long a row then still is falls with the price, convexly and in straight pieces:

    p = 2   (‖v‖ − λ)₊                          p = 1   Σ_j (|v_j| − λ)₊
    p = ∞   the c ≥ 0 with Σ_j (|v_j| − c)₊ = λ, and 0 from λ = ‖v‖₁ on

so their sum does, and Newton's steps from λ = 0 climb to the price without passing it, in as many as there are pieces
at the most.

**Linear maximisation.** All of a budget goes to the row on which a unit does the most: the one of the largest ‖g_t‖_q.
Hence the Frank–Wolfe gap Σ_i (ε_i max_t ‖g_it‖_q + Σ_t ⟨g_it, δ_it⟩).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm, euclidean

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
MOST_STEPS = 500
SETTLED = 1e-15  # of a budget: what may be left over
FARTHEST = 1e9  # budgets: from farther away lengths are rounding, and the nearest point is the same to nine digits


@dataclass(frozen=True, eq=False)
class SharedLimits:
    """Everyone's budget over all of its rows; answers to what `oar.solvers.member_limits.Limits` does.

    Attributes:
        norm: how a row's move is measured.
        radii: (n,), the budget of whose row it is; 0 for rows that stay.
        persons: (n,), whose row it is, 0, 1, …; rows of one person that may move have the same radius.
    """

    norm: Norm
    radii: Array
    persons: Rows

    @cached_property
    def budgets(self) -> Array:
        """Everyone's budget (m,); 0 where no row may move."""
        return self._largest(self.radii)

    def smaller(self, share: float) -> SharedLimits:
        """Return the same with budgets of this share."""
        return replace(self, radii=share * self.radii)

    def spent(self, moves: Array) -> Array:
        """Return what each person uses (m,), Σ_t ‖δ_it‖."""
        return self._sums(self.norm.length(moves))

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's budget."""
        free = self.radii > 0
        nearest = np.where(free[:, None], moves, 0.0)
        over = self.spent(nearest) > self.budgets
        rows = np.flatnonzero(over[self.persons] & free)
        if not rows.size:
            return nearest
        who, mine = np.unique(self.persons[rows], return_inverse=True)
        budgets = self.budgets[who]
        totals = np.bincount(mine, weights=self.norm.length(nearest[rows]))
        far = np.minimum(1.0, FARTHEST * budgets / totals)
        given = nearest[rows] * far[mine, None]
        prices = _prices(_Pieces(self.norm, given), mine, budgets)
        shorter = _shortened(self.norm, given, prices[mine])
        used = np.bincount(mine, weights=self.norm.length(shorter))
        # No longer than allowed, whatever the rounding.
        nearest[rows] = shorter * np.minimum(1.0, budgets / np.where(used > 0, used, 1.0))[mine, None]
        return nearest

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: all of the budget on the row where it does the most."""
        steepness = np.where(self.radii > 0, self.norm.dual.length(gradient), 0.0)
        best = np.zeros(len(self.radii), dtype=bool)
        order = np.lexsort((-steepness, self.persons))  # each person's steepest row comes first, the earliest of equals
        first = np.append(True, np.diff(self.persons[order]) > 0)
        best[order[first]] = True
        return self.norm.maximise(-gradient, np.where(best, self.radii, 0.0))

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim = self.project(moves - length * gradient)
        return aim, self.slope(gradient, moves, aim)

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ ⟨g_i, δ'_i − δ_i⟩: how fast the loss changes on the way from moves δ to the aim δ'."""
        return float(np.einsum("nd,nd->", gradient, aim) - np.einsum("nd,nd->", gradient, moves))

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        steepest = self._largest(np.where(self.radii > 0, self.norm.dual.length(gradient), 0.0))
        each = self.budgets * steepest + self._sums(np.einsum("nd,nd->n", gradient, moves))
        return float(np.maximum(each, 0.0).sum())

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""
        change = after[0] - before[0]
        squared, bend = np.einsum("nd,nd->", change, change), np.einsum("nd,nd->", change, after[1] - before[1])
        return float(squared), float(bend), self.gap(*after)

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max(initial=0.0)) / steepest if steepest > 0 else 1.0

    def _sums(self, values: Array) -> Array:
        return np.bincount(self.persons, weights=values).astype(np.float64, copy=False)

    def _largest(self, values: Array) -> Array:
        found = np.zeros(int(self.persons.max(initial=-1)) + 1)
        np.maximum.at(found, self.persons, values)
        return found


class _Pieces:
    """How long rows still are at a price, and how fast that falls: what Newton's steps are made of."""

    def __init__(self, norm: Norm, moves: Array) -> None:
        self.norm = norm
        self.sizes = euclidean(moves)[:, None] if norm.p == 2 else np.abs(moves)
        if norm.p == np.inf:
            # Sorted downwards, the k largest are cut to c = (S_k − λ)/k from the price S_k − k s_(k) on.
            self.sizes = -np.sort(-self.sizes, axis=1)
            self.sums = np.cumsum(self.sizes, axis=1)
            self.begins = self.sums - np.arange(1, self.sizes.shape[1] + 1) * self.sizes

    def at(self, prices: Array) -> tuple[Array, Array]:
        """Return lengths (r,) of rows at prices (r,), and how fast they fall (r,)."""
        if self.norm.p != np.inf:
            left = self.sizes - prices[:, None]
            return np.maximum(left, 0.0).sum(axis=1), np.count_nonzero(left > 0, axis=1).astype(np.float64)
        cut = np.maximum(np.count_nonzero(self.begins <= prices[:, None], axis=1), 1)
        level = (np.take_along_axis(self.sums, cut[:, None] - 1, axis=1)[:, 0] - prices) / cut
        return np.maximum(level, 0.0), np.where(level > 0, 1.0 / cut, 0.0)


def _prices(pieces: _Pieces, mine: Rows, budgets: Array) -> Array:
    """Return the price (m,) at which everyone's rows together are as long as its budget."""
    prices = np.zeros(budgets.size)
    for _ in range(MOST_STEPS):
        lengths, falls = pieces.at(prices[mine])
        excess = np.bincount(mine, weights=lengths) - budgets
        fall = np.bincount(mine, weights=falls)
        step = np.where((excess > SETTLED * budgets) & (fall > 0), excess / np.where(fall > 0, fall, 1.0), 0.0)
        raised = prices + step
        if np.array_equal(raised, prices):
            break
        prices = raised
    return prices


def _shortened(norm: Norm, moves: Array, prices: Array) -> Array:
    """Return the proximal map of λ‖·‖_p at each row's price λ: v less its projection onto the dual ball."""
    if norm.p == 1:
        return np.sign(moves) * np.maximum(np.abs(moves) - prices[:, None], 0.0)
    if norm.p == 2:
        length = euclidean(moves)[:, None]
        return moves * (np.maximum(length - prices[:, None], 0.0) / np.where(length > 0, length, 1.0))
    return moves - norm.dual.project(moves, prices)
