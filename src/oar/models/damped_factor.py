"""Cholesky factors of Hessians that ought to be positive definite, and what to do when they are not.

Parameters have units of their own, so H is first scaled to C = D^(−½) H D^(−½) with D = |diag H|: its diagonal is ±1,
and a damping λ, C + λI, is a share of each parameter's own curvature. Three cases, by the eigenvalues of C:

* all clearly positive: no damping;
* some zero (a dead hidden unit, a free rotation): *flat*. Training does not care about such directions, and neither do
  predictions, so H v = g still has solutions; a tiny damping makes a factor that preconditions the search for one;
* some negative: the refit stands on a saddle. λ = 2 |least eigenvalue| is the smallest damping after which no direction
  is softer than the wrong one was. The signal is then that of training held back by λ, which must be said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError

Array = NDArray[np.float64]
FLAT = 1e-10  # eigenvalues of C below this share of the largest are rounding


@dataclass(frozen=True, eq=False)
class DampedFactor:
    """A Cholesky factor of D^(−½) H D^(−½) + λI.

    Attributes:
        scale: D^(−½), (p,).
        triangle: the lower factor.
        damping: λ where H has negative curvature, otherwise 0.
        flat: how many directions have no curvature.
        largest: the largest eigenvalue of C, or a bound for it.
    """

    scale: Array
    triangle: Array
    damping: float
    flat: int
    largest: float

    def solve(self, right: Array) -> Array:
        """Return D^(−½) (C + λI)⁻¹ D^(−½) right."""
        from scipy.linalg import cho_solve

        return self.scale * cho_solve((self.triangle, True), self.scale * right, check_finite=False)


def factorise(hessian: Array) -> DampedFactor:
    """Factorise a symmetric matrix, with the least damping that allows it."""
    from scipy.linalg import cholesky, eigvalsh

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
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * steepest))
    scaled = hessian * scale[:, None] * scale
    try:
        triangle = cholesky(scaled, lower=True, check_finite=False)
        if np.diag(triangle).min() ** 2 > 1e-6:  # far from singular: no need for eigenvalues
            return DampedFactor(scale, triangle, 0.0, 0, float(len(scaled)))
    except np.linalg.LinAlgError:
        pass
    eigenvalues = eigvalsh(scaled, check_finite=False)
    largest = float(np.abs(eigenvalues).max())
    least, rounding = float(eigenvalues[0]), FLAT * largest
    damping = 2 * -least if least < -rounding else 0.0
    flat = int((np.abs(eigenvalues) <= rounding).sum())
    lift = damping or (10 * rounding if flat else 0.0)
    triangle = cholesky(scaled + lift * np.eye(len(scaled)), lower=True, check_finite=False)
    return DampedFactor(scale, triangle, damping, flat, largest)
