"""One budget for all of a person's rows, Σ_t ‖δ_it‖_p ≤ B_i, as where somebody acts in several rounds, and caps.

The set is {Σ_t ‖δ_t‖ ≤ B, ‖δ_t‖ ≤ c_t}: a total, and what each row may take of it.

**Projection.** The nearest point is, by duality, x_t = prox(v_t) row by row, with one price λ ≥ 0 a person that spends
the total: the proximal map of λ‖·‖_p, which by Moreau is v less its projection onto the dual ball of radius λ; and
where that is longer than the cap, its own projection onto the cap's ball. How long a row would be falls with the price,
in straight pieces:

    p = 2   (‖v‖ − λ)₊                          p = 1   Σ_j (|v_j| − λ)₊
    p = ∞   the c ≥ 0 with Σ_j (|v_j| − c)₊ = λ, and 0 from λ = ‖v‖₁ on

and it is the lesser of that and the cap. Newton's steps from λ = 0 find the price at which the sum is B: no piece gives
more than one of them, and where one would leave what is known to enclose the price (caps can make it do so) that is
halved instead.

**Linear maximisation.** The total goes to the rows on which a unit does the most, those of the largest ‖g_t‖_q, each up
to its cap, until it is spent. With a_t the lengths so allotted the Frank–Wolfe gap is Σ_t (a_t ‖g_t‖_q + ⟨g_t, δ_t⟩).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm, euclidean
from oar.models.training import Array
from oar.solvers.feasible.sets import FeasibleSet

Rows = NDArray[np.intp]
MOST_STEPS = 500
SETTLED = 1e-15  # of a budget: what may be left over
FARTHEST = 1e9  # budgets: from farther away lengths are rounding, and the nearest point is the same to nine digits


@dataclass(frozen=True, eq=False)
class SharedBudgets(FeasibleSet):
    """Everyone's budget over all of its rows; the metric is the plain one.

    Attributes:
        norm: how a row's move is measured.
        radii: (n,), how far each row may move; 0 for rows that stay.
        persons: (n,), whose row it is, 0, 1, ….
        totals: (n,), how far whose row it is may move with all of them, the same for all of its rows that may move;
            the radii where a row may take all of it.
    """

    norm: Norm
    radii: Array
    persons: Rows
    totals: Array

    @cached_property
    def budgets(self) -> Array:
        """Everyone's total (m,); 0 where no row may move."""
        found = np.zeros(int(self.persons.max(initial=-1)) + 1)
        np.maximum.at(found, self.persons, np.where(self.radii > 0, self.totals, 0.0))
        return found

    @cached_property
    def caps(self) -> Array:
        """How far each row may move (n,), by itself."""
        return np.minimum(self.radii, self.budgets[self.persons])

    def smaller(self, share: float) -> SharedBudgets:
        """Return the same with budgets of this share."""
        return replace(self, radii=share * self.radii, totals=share * self.totals)

    def spent(self, moves: Array) -> Array:
        """Return what each person uses (m,), Σ_t ‖δ_it‖."""
        return self._sums(self.norm.length(moves))

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's budget."""
        nearest = self.norm.project(moves, self.caps)
        over = self.spent(nearest) > self.budgets
        rows = np.flatnonzero(over[self.persons] & (self.caps > 0))
        if not rows.size:
            return nearest
        who, mine = np.unique(self.persons[rows], return_inverse=True)
        budgets, caps = self.budgets[who], self.caps[rows]
        given = moves[rows] * _nearer(self.norm.dual.length(moves[rows]), caps, mine, budgets)[mine, None]
        prices = _prices(_Pieces(self.norm, given), caps, mine, budgets)
        # To shorten twice is to shorten by both prices at once, so that this is v's own projection where the cap binds.
        shorter = self.norm.project(_shortened(self.norm, given, prices[mine]), caps)
        used = np.bincount(mine, weights=self.norm.length(shorter))
        # No longer than allowed, whatever the rounding.
        nearest[rows] = shorter * np.minimum(1.0, budgets / np.where(used > 0, used, 1.0))[mine, None]
        return nearest

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: the budget goes to the rows where it does the most."""
        return self.norm.maximise(-gradient, self._allotted(gradient))

    def inner(self, left: Array, right: Array) -> float:
        """Return Σ ⟨a_i, b_i⟩."""
        return float(np.einsum("nd,nd->", left, right))

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        falls = self._allotted(gradient) * self.norm.dual.length(gradient)
        each = self._sums(falls + np.einsum("nd,nd->n", gradient, moves))
        return float(np.maximum(each, 0.0).sum())

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.caps > 0]).max(initial=0.0))
        return float(self.caps.max(initial=0.0)) / steepest if steepest > 0 else 1.0

    def _allotted(self, gradient: Array) -> Array:
        order = np.argsort(-self.norm.dual.length(gradient), kind="stable")  # the earliest of equals comes first
        return allotted(self.persons, order, self.caps, self.budgets)

    def _sums(self, values: Array) -> Array:
        return np.bincount(self.persons, weights=values).astype(np.float64, copy=False)


def allotted(persons: Rows, order: Rows, caps: Array, budgets: Array) -> Array:
    """Return what each row (n,) gets of its person's budget (m,): in this order, each its cap, until it is spent."""
    order = order[np.argsort(persons[order], kind="stable")]
    begins = np.append(True, np.diff(persons[order]) > 0)
    places = np.arange(order.size) - np.maximum.accumulate(np.where(begins, np.arange(order.size), 0))
    left, given = np.array(budgets, dtype=np.float64), np.zeros(order.size)
    for place in range(int(places.max(initial=-1)) + 1):  # everybody's first row, then everybody's second, …
        rows = order[places == place]
        given[rows] = np.minimum(caps[rows], left[persons[rows]])
        left[persons[rows]] -= given[rows]
        if not left.any():
            break
    return given


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

    @property
    def highest(self) -> Array:
        """The price (r,) at which nothing is left of a row."""
        return np.asarray(self.sums[:, -1] if self.norm.p == np.inf else self.sizes.max(axis=1))

    def at(self, prices: Array) -> tuple[Array, Array]:
        """Return lengths (r,) of rows at prices (r,), and how fast they fall (r,)."""
        if self.norm.p != np.inf:
            left = self.sizes - prices[:, None]
            return np.maximum(left, 0.0).sum(axis=1), np.count_nonzero(left > 0, axis=1).astype(np.float64)
        cut = np.maximum(np.count_nonzero(self.begins <= prices[:, None], axis=1), 1)
        level = (np.take_along_axis(self.sums, cut[:, None] - 1, axis=1)[:, 0] - prices) / cut
        return np.maximum(level, 0.0), np.where(level > 0, 1.0 / cut, 0.0)


def _prices(pieces: _Pieces, caps: Array, mine: Rows, budgets: Array) -> Array:
    """Return the price (m,) at which everyone's rows, none longer than its cap, are together as long as its budget."""
    caps = np.where(caps < budgets[mine], caps, np.inf)  # a cap as large as the total never binds alone
    prices = low = np.zeros(budgets.size)
    high = np.zeros(budgets.size)
    np.maximum.at(high, mine, pieces.highest)
    open_ = np.ones(budgets.size, dtype=bool)
    for _ in range(MOST_STEPS):
        lengths, falls = pieces.at(prices[mine])
        excess = np.bincount(mine, weights=np.minimum(lengths, caps)) - budgets
        fall = np.bincount(mine, weights=np.where(lengths > caps, 0.0, falls))
        open_ &= np.abs(excess) > SETTLED * budgets
        low, high = np.where(excess > 0, prices, low), np.where(excess > 0, high, prices)
        newton = prices + excess / np.where(fall > 0, fall, 1.0)
        open_ &= ~((newton == prices) & (fall > 0))
        raised = np.where((fall > 0) & (low < newton) & (newton < high), newton, 0.5 * (low + high))
        open_ &= raised != prices
        if not open_.any():
            break
        prices = np.where(open_, raised, prices)
    return prices


def _nearer(steepness: Array, caps: Array, mine: Rows, budgets: Array) -> Array:
    """Return by what share (m,) everyone's rows are taken nearer first, where the price would be rounding.

    It is below the steepness of the last row that gets anything of the budget, and steeper ones are at their caps.
    """
    gets = allotted(mine, np.argsort(-steepness, kind="stable"), caps, budgets) > 0
    last = np.full(budgets.size, np.inf)
    np.minimum.at(last, mine, np.where(gets, steepness, np.inf))
    return FARTHEST * budgets / np.maximum(last, FARTHEST * budgets)


def _shortened(norm: Norm, moves: Array, prices: Array) -> Array:
    """Return the proximal map of λ‖·‖_p at each row's price λ: v less its projection onto the dual ball."""
    if norm.p == 1:
        return np.sign(moves) * np.maximum(np.abs(moves) - prices[:, None], 0.0)
    if norm.p == 2:
        length = euclidean(moves)[:, None]
        return moves * (np.maximum(length - prices[:, None], 0.0) / np.where(length > 0, length, 1.0))
    return moves - norm.dual.project(moves, prices)
