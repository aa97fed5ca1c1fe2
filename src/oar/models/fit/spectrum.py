"""The eigenvalues of Hessians that ought to be positive definite, and what to do when they are not.

Parameters have units of their own, so H is first scaled to C = D^(−½) H D^(−½) with D = |diag H|: its diagonal is ±1,
lengths ‖D^½ s‖ are the same in all units, and a damping λ, C + λI, is a share of each parameter's own curvature. Three
cases, by the eigenvalues of C:

* all clearly positive: no damping;
* some zero (a dead hidden unit, a free rotation): *flat*. Training does not care about such directions, and neither do
  predictions, so H v = g still has solutions; a tiny damping makes an inverse that preconditions the search for one;
* some negative: the refit stands on a saddle. λ = 2 |least eigenvalue| is the smallest damping after which no direction
  is softer than the wrong one was. The signal is then that of training held back by λ, which must be said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.fit.one_thread import one_thread

Array = NDArray[np.float64]
FLAT = 1e-10  # eigenvalues of C below this share of the largest are rounding
LEAST = 1e-8  # of the steepest curvature; what bends less (a dead unit's bias) is scaled as if it bent so much
MOST_BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class Spectrum:
    """C = Q Λ Qᵀ.

    Attributes:
        scale: D^(−½), (p,).
        values: Λ, from least to largest, (p,).
        vectors: Q (p, p).
        damping: λ where H has negative curvature, otherwise 0.
        flat: how many directions have no curvature.
    """

    scale: Array
    values: Array
    vectors: Array
    damping: float
    flat: int

    @property
    def largest(self) -> float:
        """The largest curvature, of either sign."""
        return float(np.abs(self.values).max())

    def solve(self, right: Array) -> Array:
        """Return D^(−½) (C + λI)⁻¹ D^(−½) right, with a tiny λ where directions are flat."""
        lift = self.damping or (10 * FLAT * self.largest if self.flat else 0.0)
        return self._from_within(self._within(right) / (self.values + lift))

    def length(self, step: Array) -> float:
        """Return ‖D^½ step‖."""
        return float(np.linalg.norm(step / self.scale))

    def step_within(self, gradient: Array, radius: float) -> tuple[Array, float]:
        """Return the s that minimises gᵀs + ½ sᵀHs among ‖D^½ s‖ ≤ radius, and by how much it is lower than at 0.

        It is s = −(H + μD)⁻¹ g with the least μ ≥ 0 for which H + μD is positive and s short enough; ‖D^½ s‖ falls
        with μ, so μ is found by bisection. (Were g without any part along the least eigenvector of an indefinite H, s
        would end short of the radius: still downhill.)
        """
        slopes = self._within(gradient)
        floor = max(0.0, -float(self.values[0])) + FLAT * self.largest
        damping = 0.0 if self.values[0] > FLAT * self.largest else floor
        if np.linalg.norm(slopes / (self.values + damping)) > radius:
            low, damping = damping, floor + float(np.linalg.norm(slopes)) / radius  # the latter makes s short enough
            for _ in range(MOST_BISECTIONS):
                middle = 0.5 * (low + damping)
                size = float(np.linalg.norm(slopes / (self.values + middle)))
                low, damping = (middle, damping) if size > radius else (low, middle)
                if 0.999 * radius <= size <= radius:
                    break
        within = -slopes / (self.values + damping)
        return self._from_within(within), -float(slopes @ within + 0.5 * within @ (self.values * within))

    def _within(self, right: Array) -> Array:
        return self.vectors.T @ (self.scale * right)

    def _from_within(self, coordinates: Array) -> Array:
        return self.scale * (self.vectors @ coordinates)


def spectrum(hessian: Array) -> Spectrum:
    """Decompose a symmetric matrix.

    Raises:
        NumericsError: if it is not finite, or has a diagonal of zeros.
    """
    from scipy.linalg import eigh

    if not np.isfinite(hessian).all():
        raise NumericsError(
            "loss: its second derivatives must be finite at the refit, got some that are not; look for the square root "
            "or norm of something that can be zero, or a logarithm of something that can vanish."
        )
    diagonal = np.abs(np.diag(hessian))
    steepest = float(diagonal.max())
    if steepest == 0:
        raise NumericsError(
            "loss: training must have some curvature at the refit, got a Hessian whose diagonal is zero; "
            "the loss is linear in every parameter there, or does not depend on any."
        )
    scale = 1 / np.sqrt(np.maximum(diagonal, LEAST * steepest))
    with one_thread():
        values, vectors = eigh(hessian * scale[:, None] * scale, check_finite=False, driver="evd")
    least, rounding = float(values[0]), FLAT * float(np.abs(values).max())
    damping = -2 * least if least < -rounding else 0.0
    return Spectrum(scale, values, vectors, damping, int((np.abs(values) <= rounding).sum()))
