"""Everyone's region while all move together, and the certificate that it gives.

The same questions as plain balls (`sets`) answer, in coordinates of cost. The Frank–Wolfe gap is bounded
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
from oar.solvers.feasible.sets import FeasibleSet

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FeasibleRegions(FeasibleSet):
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

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return an upper bound of the Frank–Wolfe gap."""
        each = self._aim(gradient)[1] + np.einsum("nd,nd->n", gradient, moves)
        return float((self.weights * np.maximum(each, 0.0)).sum())

    def _aim(self, gradient: Array) -> tuple[Array, Array]:
        """Return best responses, and what no response exceeds (n + 1,), as ⟨−g, u⟩."""
        aim, most = np.zeros_like(gradient), np.zeros(len(gradient))
        rows, columns, region = self._movable
        if columns.size:
            places = _places(rows, columns, gradient.shape)
            aim[places], most[rows] = region.farthest(-gradient[places])
        return aim, most


def _places(rows: Rows, columns: Rows, shape: tuple[int, ...]) -> Any:
    """Return what picks these rows and columns: all columns of leading rows, as is usual, without a copy."""
    if columns.size == shape[1] and rows.size and rows[-1] == rows.size - 1:
        return slice(rows.size)
    return np.ix_(rows, columns)
