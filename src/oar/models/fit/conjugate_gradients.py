"""Conjugate gradients for H v = g where H is known only by its products, and may turn out not to be positive.

**Preconditioning** uses what is known of H⁻¹ by passes that were made anyway (`InverseCurvature`). A base, the inverse
of some Hessian factored earlier or of a bound for it, is corrected by pairs (s, y = H s) seen since: a refit's steps
and changes of gradient, and the directions and products of conjugate gradients. This is the two-loop recursion of
L-BFGS around the base (Nocedal 1980; as a preconditioner, Morales and Nocedal 2000). The result is linear, symmetric
and positive, so it can both scale steps and precondition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Linear = Callable[[Array], Array]
FLAT = 1e-14  # curvatures below this share of the largest are rounding
LARGEST = 1e150  # the squares of larger numbers overflow
PAIRS = 20
UNINFORMATIVE = 1e-10  # pairs with less curvature than this, as a cosine, say nothing


def in_range(numbers: Array | float) -> bool:
    """Return whether all are numbers (not NaN) whose squares and products are numbers too."""
    return bool(np.all(np.abs(numbers) <= LARGEST))


@dataclass(frozen=True, eq=False)
class Solution:
    """The point at which conjugate gradients stopped.

    Attributes:
        solution: v.
        residual: ‖g − H v‖.
        curvature: the least and the largest dᵀHd / dᵀd over the directions tried; (inf, 0) when none was.
        descent: the direction that ended the search because dᵀHd ≤ 0 to rounding; None if none did.
    """

    solution: Array
    residual: float
    curvature: tuple[float, float]
    descent: Array | None


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
    solution, residual, conditioned = np.zeros_like(right), right, precondition or _unchanged
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


def _unchanged(vector: Array) -> Array:
    return vector


class InverseCurvature:
    """An approximation of H⁻¹, as a function of the vector that it multiplies."""

    def __init__(self, base: Callable[[Array], Array]) -> None:
        """Start from a positive linear function, and no pairs."""
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
