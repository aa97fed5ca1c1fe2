"""What a descent asks of a set of moves: three operations, from which the others follow.

project    the nearest moves in the set
respond    the linear maximisation oracle: the moves of the set that lower a linear loss the most
gap        the Frank–Wolfe gap, ⟨g, δ⟩ − min ⟨g, ·⟩ over the set, in the set's own metric
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm

Array = NDArray[np.float64]


class FeasibleSet(ABC):
    """A convex set of everyone's moves (n, d), rows by rows, with the metric ⟨a, b⟩ = Σ_i w_i ⟨a_i, b_i⟩.

    Attributes:
        norm: how a row's move is measured.
        radii: (n,), how far each row may move; 0 for rows that stay.
        weights: (n,), w.
        is_ball: whether the set is a product of plain norm balls.
    """

    is_ball: bool = False
    weights: Array

    if TYPE_CHECKING:  # fields of one set are properties of another

        @property
        def norm(self) -> Norm:
            """How a row's move is measured."""
            ...

        @property
        def radii(self) -> Array:
            """How far each row may move."""
            ...

    @abstractmethod
    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limits."""

    @abstractmethod
    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient; where it is 0, to stay."""

    @abstractmethod
    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap, or an upper bound of it that is close."""

    @abstractmethod
    def smaller(self, share: float) -> FeasibleSet:
        """Return the same with budgets of this share."""

    def inner(self, left: Array, right: Array) -> float:
        """Return Σ w_i ⟨a_i, b_i⟩."""
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim = self.project(moves - length * gradient)
        return aim, self.slope(gradient, moves, aim)

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w_i ⟨g_i, δ'_i − δ_i⟩: how fast the loss changes on the way from moves δ to the aim δ'."""
        return self.inner(gradient, aim - moves)

    def between(self, moves: Array, aim: Array, share: float) -> Array:
        """Return the moves at this share of the way from feasible moves to a feasible aim."""
        # Between two points of a convex set one can leave it by rounding only, but must not.
        return aim if share == 1 else self.project(moves + share * (aim - moves))

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""
        change, turn = after[0] - before[0], after[1] - before[1]
        return self.inner(change, change), self.inner(change, turn), self.gap(*after)

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max(initial=0.0)) / steepest if steepest > 0 else 1.0
