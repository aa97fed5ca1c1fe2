"""Everyone's region while all move together, and the certificate that it gives.

The same questions as `balls` answers for plain balls, in coordinates of cost. The Frank–Wolfe gap is bounded
from above by what no response exceeds (`Region.farthest`), which is close to the gap itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.actions.sets.region import Region
from oar.solvers.feasible.balls import FeasibleBalls

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FeasibleRegions:
    """The regions of n members and, last, the query; weights (n + 1,): w̄ of the members, 1 of the query."""

    region: Region
    weights: Array

    @property
    def norm(self) -> Norm:
        """The norm of the budgets."""
        return self.region.norm

    @property
    def radii(self) -> Array:
        """The budgets (n + 1,)."""
        return self.region.radii

    def smaller(self, share: float) -> FeasibleRegions:
        """Return the same with budgets of this share."""
        return replace(self, region=replace(self.region, radii=share * self.radii))

    @property
    def nobody_moves(self) -> bool:
        """Whether nobody may move at all."""
        rows, columns, _ = self._movable
        return not len(rows) or not columns.size

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limits."""
        rows, columns, region = self._movable
        found = np.zeros_like(moves)
        if not columns.size:
            return found
        places = _places(rows, columns, moves.shape)
        found[places] = region.project(moves[places])
        return found

    @cached_property
    def _movable(self) -> tuple[Rows, Rows, Region]:
        """Who may move, which coordinates, and the region of these."""
        rows = np.flatnonzero(self.radii > 0)
        region = self.region.of(rows)
        columns = region.movable
        return rows, columns, region.along(columns)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient, all but exactly; "stay" where it is 0."""
        return self._aim(gradient)[0]

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim = self.project(moves - length * gradient)
        return aim, self.slope(gradient, moves, aim)

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w̄_i ⟨g_i, δ'_i − δ_i⟩."""
        return self._inner(gradient, aim - moves)

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return an upper bound of the Frank–Wolfe gap."""
        each = self._aim(gradient)[1] + np.einsum("nd,nd->n", gradient, moves)
        return float((self.weights * np.maximum(each, 0.0)).sum())

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""
        change, turn = after[0] - before[0], after[1] - before[1]
        return self._inner(change, change), self._inner(change, turn), self.gap(*after)

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max()) / steepest if steepest > 0 else 1.0

    def _aim(self, gradient: Array) -> tuple[Array, Array]:
        """Return best responses, and what no response exceeds (n + 1,), as ⟨−g, u⟩."""
        aim, most = np.zeros_like(gradient), np.zeros(len(gradient))
        rows, columns, region = self._movable
        if columns.size:
            places = _places(rows, columns, gradient.shape)
            aim[places], most[rows] = region.farthest(-gradient[places])
        return aim, most

    def _inner(self, left: Array, right: Array) -> float:
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())


def _places(rows: Rows, columns: Rows, shape: tuple[int, ...]) -> Any:
    """Return what picks these rows and columns: all columns of leading rows, as is usual, without a copy."""
    if columns.size == shape[1] and rows.size and rows[-1] == rows.size - 1:
        return slice(rows.size)
    return np.ix_(rows, columns)


FeasibleSet = FeasibleBalls | FeasibleRegions
