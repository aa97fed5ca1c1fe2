"""Solving with the Hessian of a refit, H v = g: what makes a signal, and what Newton steps are made of.

Up to `SMALL` parameters H is built and decomposed; the spectrum of an earlier refit still preconditions conjugate
gradients on the next one's products, which usually takes a handful. Beyond that, conjugate gradients go by products
alone.

H ought to be positive definite at a minimum. Where it is a little negative, the system is damped and `damping` says by
how much; where it is flat along g, or negative beyond `MOST_DAMPING`, there is no honest answer and none is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.fit.conjugate_gradients import Solution, conjugate_gradients
from oar.models.fit.spectrum import FLAT, Spectrum, spectrum
from oar.models.training import Array, Fit

SMALL = 300  # up to this many parameters the Hessian is built and decomposed
STALE_PRODUCTS = 20  # what an old spectrum may cost before a new one is made
MOST_PRODUCTS = 2_000
MOST_DAMPING = 0.1  # of the largest curvature; beyond it the signal would be the damping's, not the training's
ROUNDING = 1e-8  # relative residuals below this are as good as a nearly singular system gets


class Curvature:
    """Solves with H; keeps the last spectrum.

    Args:
        product: `product(θ, features, direction)`, H times a direction.
        hessian: `hessian(θ, features)`, H.
        parameter_count: how long θ is.
        most_damping: of the largest curvature, beyond which there is no answer.

    Attributes:
        spectrum: of H where it was last built, or None.
        damping: what the last `solve` had to add where H was not positive: a share of each parameter's own curvature
            (of the largest curvature, beyond `SMALL` parameters); 0 where nothing was added.
    """

    def __init__(
        self,
        product: Callable[..., Array],
        hessian: Callable[..., Array],
        parameter_count: int,
        most_damping: float = MOST_DAMPING,
    ) -> None:
        """Start without a spectrum."""
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

        Raises:
            NumericsError: if H is flat along `right`, too far from positive definite, or not finite.
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
