"""Everyone's limits while all move together, and the certificate that they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.solvers.feasible.sets import FeasibleSet

Array = NDArray[np.float64]
BLOCK = 2_048  # people at a time, so that what is only passed on stays in the cache


@dataclass(frozen=True, eq=False)
class FeasibleBalls(FeasibleSet):
    """Everyone's ball: radii (n + 1,) around where they stand, zero for those who stay; weights (n + 1,).

    The first n are the members, with weights w̄; the last is the query, with weight 1.
    """

    norm: Norm
    radii: Array
    weights: Array
    is_ball = True

    def smaller(self, share: float) -> FeasibleBalls:
        """Return the same with budgets of this share."""
        return replace(self, radii=share * self.radii)

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limit."""
        return self.norm.project(moves, self.radii)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: the full move against it."""
        return self.norm.maximise(-gradient, self.radii)

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim, slope = np.empty_like(moves), 0.0
        for some in self._blocks():
            here, uphill = moves[some], gradient[some]
            aim[some] = there = self.norm.project(here - length * uphill, self.radii[some])
            slope += self._inner(some, uphill, there - here)
        return aim, slope

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w̄_i ⟨g_i, δ'_i − δ_i⟩: how fast the loss changes on the way from moves δ to the aim δ'."""
        return sum(self._inner(some, gradient[some], aim[some] - moves[some]) for some in self._blocks())

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        return sum(self._gap(some, moves[some], gradient[some]) for some in self._blocks())

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards.

        `before` and `after` are moves and gradients. One reading of them, because reading is what takes time.
        """
        squared = curvature = gap = 0.0
        for some in self._blocks():
            moves, gradient = (now[some] for now in after)
            change, turn = moves - before[0][some], gradient - before[1][some]
            squared += self._inner(some, change, change)
            curvature += self._inner(some, change, turn)
            gap += self._gap(some, moves, gradient)
        return squared, curvature, gap

    def _blocks(self) -> Iterator[slice]:
        for first in range(0, self.radii.size, BLOCK):
            yield slice(first, first + BLOCK)

    def _inner(self, some: slice, left: Array, right: Array) -> float:
        """Return Σ w̄_i ⟨a_i, b_i⟩ over some people."""
        return float(self.weights[some] @ np.einsum("nd,nd->n", left, right))

    def _gap(self, some: slice, moves: Array, gradient: Array) -> float:
        each = self.radii[some] * self.norm.dual.length(gradient) + np.einsum("nd,nd->n", gradient, moves)
        return float(self.weights[some] @ np.maximum(each, 0.0))
