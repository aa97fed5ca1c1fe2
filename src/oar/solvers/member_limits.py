"""Everyone's limits while all move together, and the certificate that they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Limits:
    """Everyone's ball: radii (n + 1,) around where they stand, zero for those who stay; weights (n + 1,).

    The first n are the members, with weights w̄; the last is the query, with weight 1.
    """

    norm: Norm
    radii: Array
    weights: Array

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limit."""
        return self.norm.project(moves, self.radii)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: the full move against it."""
        return self.norm.maximise(-gradient, self.radii)

    def inner(self, left: Array, right: Array) -> float:
        """Return Σ w̄_i ⟨a_i, b_i⟩."""
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        each = self.radii * self.norm.dual.length(gradient) + np.einsum("nd,nd->n", gradient, moves)
        return float((self.weights * np.maximum(each, 0.0)).sum())

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max()) / steepest if steepest > 0 else 1.0
