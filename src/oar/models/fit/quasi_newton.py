"""Curvature that is learned from steps: conjugate gradients, their preconditioner, and the spectral step length.

**Conjugate gradients** solve H v = g where H is known only by its products, and may turn out not to be positive.

**Preconditioning** uses what is known of H⁻¹ by passes that were made anyway (`InverseCurvature`). A base, the inverse
of some Hessian factored earlier or of a bound for it, is corrected by pairs (s, y = H s) seen since: a refit's steps
and changes of gradient, and the directions and products of conjugate gradients. This is the two-loop recursion of
L-BFGS around the base (Nocedal 1980; as a preconditioner, Morales and Nocedal 2000). The result is linear, symmetric
and positive, so it can both scale steps and precondition.

**The spectral step length** (Barzilai and Borwein 1988; Birgin, Martínez and Raydan 2000) keeps one number of a pair.
After a step s = x₊ − x along which the gradient of f changed by y = ∇f(x₊) − ∇f(x), the Hessian averaged over the step,
B = ∫₀¹ ∇²f(x + t s) dt, satisfies y = B s. The multiple 1/α of the identity that replaces B best on what was seen,

    min over 1/α of ‖s/α − y‖²        at        1/α = sᵀy / ‖s‖²,

is the Rayleigh quotient of B along s, which lies between the extreme eigenvalues of B: hence "spectral". Where the
curvature sᵀy is not positive, the model has no minimum along the gradient, and the longest allowed step is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from oar.errors import NumericsError
from oar.models.fit.one_thread import one_thread
from oar.models.training import Array, Fit

Linear = Callable[[Array], Array]
Length = TypeVar("Length", float, Array)
FLAT = 1e-14  # curvatures below this share of the largest are rounding
LARGEST = 1e150  # the squares of larger numbers overflow
PAIRS = 20
UNINFORMATIVE = 1e-10  # pairs with less curvature than this, as a cosine, say nothing
ONE_THREAD = 64  # parameters up to which nobody would factor H on several threads
SMALL = 600  # parameters up to which H itself is factored
SLOW = 0.3  # a step that leaves more than this share of the gradient asks for a fresh look at the curvature
EASY_STEPS = 5  # a fit that takes more may be hard because people have moved far
MOST_STEPS = 200  # with H itself,
MOST_BOUND_STEPS = 1_000  # and with a bound for it
MOST_HALVINGS = 40
FEW_HALVINGS = 6  # where values cannot tell a better point from a worse one
MOST_PRODUCTS = 500
MOST_REFINEMENTS = 10
FINEST = 1e-13  # no gradient is asked to be smaller than this in the values' units: it could not be
ROUNDING = 1e-14  # a risk that is to fall by less than this share of itself cannot be seen to fall


def in_range(numbers: Array | float) -> bool:
    """Return whether all are numbers (not NaN) whose squares and products are numbers too."""
    return bool(np.all(np.abs(numbers) <= LARGEST))


@dataclass(frozen=True, eq=False)
class Solution:
    """The point at which conjugate gradients stopped."""

    solution: Array  # v
    residual: float  # ‖g − H v‖
    # the least and the largest dᵀHd / dᵀd over the directions tried; (inf, 0) when none was
    curvature: tuple[float, float]
    descent: Array | None  # the direction that ended the search because dᵀHd ≤ 0 to rounding; None if none did


def conjugate_gradients(
    product: Linear,
    right: Array,
    enough: float,
    most: int,
    start: Array | None = None,
    precondition: Linear | None = None,
) -> Solution:
    """Solve H v = right to ‖right − H v‖ ≤ enough, with `most` products at most.

    Stops at a direction of no positive curvature: there the quadratic has no minimum.
    """
    solution, residual, conditioned = np.zeros_like(right), right, precondition or (lambda vector: vector)
    if start is not None:
        solution, residual = start, right - product(start)
        if not np.linalg.norm(residual) <= np.linalg.norm(right):  # a start that is worse than none
            solution, residual = np.zeros_like(right), right
    scaled = conditioned(residual)
    direction, energy = scaled, float(residual @ scaled)
    least, largest = np.inf, 0.0
    for _ in range(most):
        if np.linalg.norm(residual) <= enough or energy <= 0:
            break
        image = product(direction)
        if not in_range(image):
            return Solution(solution, float("nan"), (least, largest), None)
        along, length_squared = float(direction @ image), float(direction @ direction)
        least, largest = min(least, along / length_squared), max(largest, along / length_squared)
        if along <= FLAT * largest * length_squared:
            return Solution(solution, float(np.linalg.norm(residual)), (least, largest), direction)
        step = energy / along
        solution, residual = solution + step * direction, residual - step * image
        scaled = conditioned(residual)
        energy, last = float(residual @ scaled), energy
        direction = scaled + (energy / last) * direction
    return Solution(solution, float(np.linalg.norm(residual)), (least, largest), None)


class InverseCurvature:
    """An approximation of H⁻¹, as a function of the vector that it multiplies; `base` is one that is positive."""

    def __init__(self, base: Linear) -> None:
        self._base = base
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=PAIRS)

    def learn(self, step: Array, image: Array) -> None:
        """Remember that H times `step` is `image`; forget the oldest pair if there are too many."""
        along = float(step @ image)
        if along > UNINFORMATIVE * float(np.linalg.norm(step) * np.linalg.norm(image)):
            self._pairs.append((step, image, along))

    def __call__(self, vector: Array) -> Array:
        """Return about H⁻¹ vector."""
        shares = []
        for step, image, along in reversed(self._pairs):
            share = float(step @ vector) / along
            vector = vector - share * image
            shares.append(share)
        result = self._base(vector)
        for (step, image, along), share in zip(self._pairs, reversed(shares), strict=True):
            result = result + (share - float(image @ result) / along) * step
        return result


def spectral_length(squared: Length, curvature: Length, longest: Length) -> Length:
    """Return min(‖s‖² / sᵀy, longest), or longest where sᵀy ≤ 0 (−sᵀy of what is maximised); of arrays, each entry."""
    if np.ndim(curvature) == 0:
        return min(squared / curvature, longest) if curvature > 0 else longest
    curved = np.asarray(curvature > 0)
    each: Any = np.where(curved, np.minimum(squared / np.where(curved, curvature, 1.0), longest), longest)
    return each


class NewtonPoint(NamedTuple):
    """Parameters, the risk there, its gradient, and the gradient's norm in the values' units."""

    parameters: Array
    risk: float
    gradient: Array
    size: float


class NewtonRefits:
    """The half of a `Training` that takes damped Newton steps on curvature that is kept, and solves H v = g with it.

    A refit that starts near the last one needs few steps, and what earlier passes told of the curvature serves for most
    of them: the Hessian is looked at afresh only when a step shrinks the gradient too little. The same knowledge
    preconditions the conjugate gradients, and these add to it. Where H has too many entries to be factored (`SMALL`), a
    bound for it takes its place; where it costs hardly more than a gradient (`_quick`), it is always fresh.
    """

    shape: tuple[int, int]
    risk_gradient: Callable[[Array, Any], tuple[float, Array]]
    product: Callable[[Array, Any, Array], Array]
    hessian: Callable[[Array, Any], Array]
    _bound: Callable[[Any], Linear]  # the inverse of a bound for H
    _measured_afresh: Callable[[NewtonPoint, Any], NewtonPoint]  # the gradient, where a fit turns out to be hard
    _unbalanced: Callable[[NewtonPoint], bool]  # whether a small gradient is not enough yet
    _best_lengths: Callable[[NewtonPoint, Array, Any], Array | None]  # what share of a step is best for each output
    model: Any
    _small: bool
    _quick: bool
    _unit: float
    _sizes: Array
    _inverse: InverseCurvature | None = None

    @property
    def name(self) -> str:
        """Under which messages know the model."""
        return self.model.name

    def _renewed(self, parameters: Array, features: Any) -> InverseCurvature:
        """Look at the curvature afresh: at H itself, or where that is too large at a bound for it."""
        base = self._factor(self.hessian(parameters, features)) if self._small else self._bound(features)
        self._inverse = InverseCurvature(base)
        return self._inverse

    def _factor(self, hessian: Array) -> Linear:
        """Return H⁻¹ times a vector or matrix. It only steers, so where H is singular a little is added to it.

        The little is a share of H's own diagonal, so that features of unlike sizes each get their own. Some is always
        added: along directions flatter than that the gradient is rounding, and H⁻¹ would make a leap of it.
        """
        from scipy.linalg.lapack import dpotrf, dpotrs  # cho_factor and cho_solve take longer to check than to do

        diagonal = np.diag(hessian)
        if not in_range(hessian):
            raise self._not_fitted("has curvature that is not finite")
        sizes = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny + 1e-30 * diagonal.max()))
        scaled = hessian / sizes / sizes[:, None]
        for share in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):
            shifted = scaled + np.diag(np.full(len(scaled), share))
            with one_thread() if len(scaled) > ONE_THREAD else nullcontext():
                factor, failed = dpotrf(shifted, clean=False)
            if not failed:
                return lambda vector: (dpotrs(factor, (vector.T / sizes).T)[0].T / sizes).T
        raise self._not_fitted("has no positive curvature")

    def _not_fitted(self, what: str) -> NumericsError:
        return NumericsError(
            f"model: the training risk of {self.name} {what} here, so it cannot be refitted; "
            "use a larger penalty, or check the data."
        )

    def _enough(self, tolerance: float) -> float:
        """Return the gradient to stop at: `tolerance` both in the values' units and as it is, as far as digits go."""
        return max(min(tolerance, tolerance / self._unit), min(tolerance, FINEST))

    def _descended(self, start: Array, features: Any, enough: float) -> NewtonPoint:
        """Step until the gradient is small enough, or no step makes it smaller."""
        point, extra = self._point(start, features), 0
        inverse = None if self._quick else self._inverse
        for number in range(MOST_STEPS if self._small else MOST_BOUND_STEPS):
            if number == EASY_STEPS:
                point = self._measured_afresh(point, features)
            small = point.size <= enough
            extra += small
            if small and (extra > EASY_STEPS or not self._unbalanced(point)):
                break
            # Old curvature gets one try, then it is renewed; a bound does not grow old.
            final = inverse is None or not self._small
            inverse = inverse or self._renewed(point.parameters, features)
            step = -inverse(point.gradient)
            last, accepted = self._searched(point, step, features) if final else self._tried(point, step, features)
            if final and not accepted:
                break  # no progress even with the true Hessian: rounding is the limit
            inverse.learn(last.parameters - point.parameters, last.gradient - point.gradient)
            slow = self._quick or not accepted or last.size > SLOW * point.size
            point = last if accepted else point
            if slow and self._small:
                inverse = None
        return point

    def _point(self, parameters: Array, features: Any) -> NewtonPoint:
        risk, gradient = self.risk_gradient(parameters, features)
        return NewtonPoint(parameters, risk, gradient, self._norm(gradient))

    def _norm(self, gradient: Array) -> float:
        return float(np.linalg.norm(gradient.reshape(self.shape) / self._sizes)) / self._unit

    def _tried(self, point: NewtonPoint, step: Array, features: Any) -> tuple[NewtonPoint, bool]:
        """Take a step; return where it led to, and whether that is good enough."""
        trial = self._point(point.parameters + step, features)
        return trial, self._falls(point, trial, 1e-4 * float(point.gradient @ step))

    def _falls(self, point: NewtonPoint, trial: NewtonPoint, promised: float) -> bool:
        """Report whether the risk falls by what is promised (a number below 0), or if values cannot tell the gradient.

        Near the minimum values are equal to rounding; there the gradient decides. Only there: far out the gradient can
        be small where the risk is not. Steps on H itself shrink it fast or are at the limit of rounding; those on a
        bound for H shrink it slowly all the way.
        """
        level = trial.risk <= point.risk + 1e-10 * self._size_of(point.risk)
        shrinks = trial.size <= 0.9 * point.size if self._small else trial.size < point.size
        return trial.risk <= point.risk + promised or (level and shrinks)

    def _size_of(self, risk: float) -> float:
        """Return a size of risks beside which rounding is seen; risks of values are squares of these."""
        return max(self._unit**2, abs(risk))

    def _searched(self, point: NewtonPoint, step: Array, features: Any) -> tuple[NewtonPoint, bool]:
        """Go along a step as far as is best, where the model knows; else halve it until it is good enough."""
        lengths = self._best_lengths(point, step, features)
        if lengths is not None:
            step = (lengths[:, None] * step.reshape(self.shape)).ravel()
            trial, _ = self._tried(point, step, features)
            return trial, trial.risk < point.risk or self._falls(point, trial, 0.0)
        promised = float(point.gradient @ step)
        for halvings in range(MOST_HALVINGS):
            trial, accepted = self._tried(point, step, features)
            unseen = -promised <= ROUNDING * self._size_of(point.risk)  # then only the gradient can tell
            if accepted or (unseen and halvings >= FEW_HALVINGS):
                break
            step, promised = 0.5 * step, 0.5 * promised
        return trial, accepted

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Solve H v = right by conjugate gradients, preconditioned with what is known of the curvature."""
        size = float(np.linalg.norm(right))
        direct = self._solved_directly(fit, right, tolerance * size) if self._quick else None
        if direct is not None:
            return direct
        seen = []

        def product(direction: Array) -> Array:
            seen.append((direction, self.product(fit.parameters, fit.features, direction)))
            return seen[-1][1]

        solved = conjugate_gradients(product, right, tolerance * size, MOST_PRODUCTS, start, self._inverse)
        if not solved.residual <= max(tolerance, 1e-3) * size:
            direct = self._solved_directly(fit, right, tolerance * size)
            if direct is not None:
                return direct
            raise NumericsError(
                f"signal: H v = g cannot be solved for {self.name} here, because the Hessian is singular in the "
                "query's direction; use a larger penalty."
            )
        if self._inverse is not None:
            for direction, image in seen:
                self._inverse.learn(direction, image)
        return solved.solution

    def _solved_directly(self, fit: Fit, right: Array, enough: float) -> Array | None:
        """Solve H v = right by factoring H, and refine; None where H is too large or too flat for that.

        Where people have moved far, H's entries differ so much in size that conjugate gradients take some for rounding.
        """
        if not self._small:
            return None
        inverse, solution, residual = self._renewed(fit.parameters, fit.features), np.zeros_like(right), right
        for _ in range(MOST_REFINEMENTS):
            solution = solution + inverse(residual)
            residual = right - self.product(fit.parameters, fit.features, solution)
            if np.linalg.norm(residual) <= enough:
                return solution
        return None
