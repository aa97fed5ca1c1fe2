"""Everyone's region while all move together, and the certificate that it gives.

The same questions as `member_limits` answers for plain balls, in coordinates of cost. A region has no closed form for
its best response, but a projection from far away is one all but exactly. With a = P(u − t g), projections promise
⟨u − t g − a, z − a⟩ ≤ 0 for every allowed z, so that

    max_z ⟨g, u − z⟩ ≤ ⟨g, u − a⟩ + ‖a − u‖ D / t,        D the region's diameter,

which bounds the Frank–Wolfe gap from above for any t, and closely for a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm
from oar.actions.region import Region

Array = NDArray[np.float64]
FAR = 1e7  # diameters


@dataclass(frozen=True, eq=False)
class RegionLimits:
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

    def smaller(self, share: float) -> RegionLimits:
        """Return the same with budgets of this share."""
        return replace(self, region=replace(self.region, radii=share * self.radii))

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limits."""
        return self.region.project(moves)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient, all but exactly; "stay" where it is 0."""
        return self.project(-self._far(gradient)[:, None] * gradient)

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim = self.project(moves - length * gradient)
        return aim, self.slope(gradient, moves, aim)

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w̄_i ⟨g_i, δ'_i − δ_i⟩."""
        return self._inner(gradient, aim - moves)

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return an upper bound of the Frank–Wolfe gap."""
        far = self._far(gradient)
        way = self.project(moves - far[:, None] * gradient) - moves
        with np.errstate(divide="ignore", invalid="ignore"):
            spare = np.where(far > 0, np.linalg.norm(way, axis=1) * self.region.widest() / far, 0.0)
        each = spare - np.einsum("nd,nd->n", gradient, way)
        return float((self.weights * np.maximum(each, 0.0)).sum())

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""
        change, turn = after[0] - before[0], after[1] - before[1]
        return self._inner(change, change), self._inner(change, turn), self.gap(*after)

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max()) / steepest if steepest > 0 else 1.0

    def _far(self, gradient: Array) -> Array:
        """Return a step (n + 1,) far past everyone's region; 0 where nothing pulls."""
        sizes = np.linalg.norm(gradient, axis=1)
        return np.where(sizes > 0, FAR * self.region.widest() / np.where(sizes > 0, sizes, 1.0), 0.0)

    def _inner(self, left: Array, right: Array) -> float:
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())
