"""What is known of H⁻¹ from passes that were made anyway.

A base (the inverse of some Hessian factored earlier, or of a bound for it) is corrected by pairs (s, y = H s) seen
since: a refit's steps and changes of gradient, and the directions and products of conjugate gradients. This is the
two-loop recursion of L-BFGS around the base (Nocedal 1980; as a preconditioner, Morales and Nocedal 2000). The result
is linear, symmetric and positive, so it can both scale steps and precondition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PAIRS = 20
FLAT = 1e-10  # pairs with less curvature than this, as a cosine, say nothing


class InverseCurvature:
    """A function of a vector: about H⁻¹ times it."""

    def __init__(self, base: Callable[[Array], Array]) -> None:
        """Start from a positive linear function, and no pairs."""
        self._base = base
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=PAIRS)

    def learn(self, step: Array, bend: Array) -> None:
        """Remember that H times `step` is `bend`; forget the oldest pair if there are too many."""
        along = float(step @ bend)
        if along > FLAT * float(np.linalg.norm(step) * np.linalg.norm(bend)):
            self._pairs.append((step, bend, along))

    def __call__(self, vector: Array) -> Array:
        """Return about H⁻¹ vector."""
        shares = []
        for step, bend, along in reversed(self._pairs):
            share = float(step @ vector) / along
            vector = vector - share * bend
            shares.append(share)
        result = self._base(vector)
        for (step, bend, along), share in zip(self._pairs, reversed(shares), strict=True):
            result = result + (share - float(bend @ result) / along) * step
        return result
