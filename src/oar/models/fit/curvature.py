"""Linear solves with the Hessian of a refit, H v = g, for signals and for Newton steps.

Up to `SMALL` parameters H is built and decomposed; the spectrum of an earlier refit still preconditions conjugate
gradients on the next one's products, which usually takes a handful. Beyond that, conjugate gradients go by products
alone.

Parameters have units of their own, so H is first scaled to C = D^(−½) H D^(−½) with D = |diag H|: its diagonal is ±1,
lengths ‖D^½ s‖ are the same in all units, and a damping λ, C + λI, is a share of each parameter's own curvature. H
ought to be positive definite at a minimum. Three cases, by the eigenvalues of C:

* all clearly positive: no damping;
* some zero (a dead hidden unit, a free rotation): *flat*. Training does not care about such directions, and neither do
  predictions, so H v = g still has solutions; a tiny damping makes an inverse that preconditions the search for one;
* some negative: the refit stands on a saddle. λ = 2 |least eigenvalue| is the smallest damping after which no direction
  is softer than the wrong one was. The signal is then that of training held back by λ, and `damping` says by how much.

Where H is flat along g, or negative beyond `MOST_DAMPING`, there is no honest answer and none is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.fit.one_thread import one_thread
from oar.models.fit.quasi_newton import Solution, conjugate_gradients
from oar.models.training import Array, Fit

FLAT = 1e-10  # eigenvalues of C below this share of the largest are rounding
LEAST = 1e-8  # of the steepest curvature; what bends less (a dead unit's bias) is scaled as if it bent so much
MOST_BISECTIONS = 60
SMALL = 300  # up to this many parameters the Hessian is built and decomposed
STALE_PRODUCTS = 20  # what an old spectrum may cost before a new one is made
MOST_PRODUCTS = 2_000
MOST_DAMPING = 0.1  # of the largest curvature; beyond it the signal would be the damping's, not the training's
ROUNDING = 1e-8  # relative residuals below this are as good as a nearly singular system gets


@dataclass(frozen=True, eq=False)
class Spectrum:
    """C = Q Λ Qᵀ."""

    scale: Array  # D^(−½), (p,)
    values: Array  # Λ, from least to largest, (p,)
    vectors: Array  # Q (p, p)
    damping: float  # λ where H has negative curvature, otherwise 0
    flat: int  # how many directions have no curvature

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
    """Decompose a symmetric matrix; raise where it is not finite, or has a diagonal of zeros."""
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


class Curvature:
    """Solves with H by `product(θ, features, direction)` and `hessian(θ, features)`; keeps the last spectrum, if any.

    `damping` is what the last `solve` had to add where H was not positive: a share of each parameter's own curvature
    (of the largest curvature, beyond `SMALL` parameters). Beyond `most_damping` there is no answer.
    """

    def __init__(
        self,
        product: Callable[..., Array],
        hessian: Callable[..., Array],
        parameter_count: int,
        most_damping: float = MOST_DAMPING,
    ) -> None:
        self._product, self._hessian, self._count = product, hessian, parameter_count
        self._most_damping = most_damping
        self.damping = 0.0
        self.forget()

    def forget(self) -> None:
        """Drop the spectrum, so that what comes next depends on nothing before."""
        self.spectrum: Spectrum | None = None
        self._spectrum_of: tuple[Any, Any] = (None, None)

    def spectrum_at(self, parameters: Array, features: Any) -> Spectrum | None:
        """Return the spectrum of H there, and keep it; None where H is too large, or is no matrix of numbers."""
        if self._count > SMALL:
            return None
        try:
            return self._decompose(parameters, features)
        except NumericsError:
            return None  # a refit goes on without; `solve` will say why it cannot

    def _decompose(self, parameters: Array, features: Any) -> Spectrum:
        self.spectrum, self._spectrum_of = spectrum(self._hessian(parameters, features)), (parameters, features)
        return self.spectrum

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with ‖H v − right‖ ≤ tolerance ‖right‖ (or 1e-8 of it, where rounding allows no better).

        Raises where H is flat along `right`, too far from positive definite, or not finite.
        """
        self.damping = 0.0
        if not np.isfinite(right).all():
            raise NumericsError("right: must be finite, got entries that are not; the query's gradient has overflowed.")
        if not right.any():
            return np.zeros_like(right)
        return (self._solve_small if self._count <= SMALL else self._solve_large)(fit, right, start, tolerance)

    def _search(self, fit: Fit, right: Array, enough: float, most: int, damping: float = 0.0, **extra: Any) -> Solution:
        solved = conjugate_gradients(
            lambda direction: self._product(fit.parameters, fit.features, direction) + damping * direction,
            right,
            enough,
            most,
            **extra,
        )
        if np.isnan(solved.residual):
            raise NumericsError(
                "loss: its second derivatives must be finite at the refit, got some that are not; look for the norm "
                "or square root of something that can be zero."
            )
        return solved

    def _solve_small(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        size = float(np.linalg.norm(right))
        kept, enough = self.spectrum, tolerance * size
        fresh = self._spectrum_of[0] is fit.parameters and self._spectrum_of[1] is fit.features
        if kept is not None and not fresh:
            solved = self._search(fit, right, enough, STALE_PRODUCTS, start=start, precondition=kept.solve)
            if solved.residual <= enough:
                return solved.solution
        if kept is None or not fresh:
            kept = self._decompose(fit.parameters, fit.features)
        if kept.damping > self._most_damping * kept.largest:
            raise _not_a_minimum(fit, kept.damping / kept.largest)
        if kept.damping:
            self.damping = kept.damping
            return kept.solve(right)
        solved = self._search(fit, right, enough, self._count + 50, precondition=kept.solve)
        if solved.residual > max(tolerance, ROUNDING) * size:
            raise _flat(str(kept.flat or "nearly one"), self._count, solved.residual / size)
        return solved.solution

    def _solve_large(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        size, damping, largest = float(np.linalg.norm(right)), 0.0, 0.0
        while True:
            solved = self._search(fit, right, tolerance * size, MOST_PRODUCTS, damping, start=start)
            least, largest = solved.curvature[0], max(largest, solved.curvature[1])
            if solved.descent is None:
                break
            if least > -FLAT * largest:
                raise _flat("at least one", self._count, solved.residual / size)
            # least − damping is the curvature of H itself along the direction that was found wanting
            damping = max(4 * damping, 2 * (damping - least), 1e-8 * largest)
            if damping > self._most_damping * largest:
                raise _not_a_minimum(fit, damping / largest if largest else np.inf)
        if solved.residual > max(tolerance, ROUNDING) * size:
            raise NumericsError(
                f"Hessian: must be solvable to a residual of {tolerance:.0e}, got {solved.residual / size:.1e} "
                f"after {MOST_PRODUCTS} products; a larger penalty or standardised features condition it better."
            )
        self.damping = damping / largest if damping else 0.0
        return solved.solution


def _flat(flat: str, count: int, share: float) -> NumericsError:
    return NumericsError(
        f"Hessian: must bend wherever the query's loss does, got {flat} flat of {count} directions, with {share:.1e} "
        "of the query's gradient along them; give the model a penalty, or a gauge if they move no prediction."
    )


def _not_a_minimum(fit: Fit, damping: float) -> NumericsError:
    return NumericsError(
        f"refit: must end at a minimum for training to be differentiated there, got a saddle (it would take a damping "
        f"of {damping:.1e} of the largest curvature; gradient norm {fit.residual:.1e}); fit to a smaller tolerance, "
        "start elsewhere (another seed), or give the model a larger penalty."
    )
