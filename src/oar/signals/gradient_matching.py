"""The matched signal: v ∝ g, as if the Hessian were the identity.

Witches' Brew moves members so that the training gradient they cause points along g = ∇_θ L, measured by the cosine of
the two. To first order in the moves that is s_i = vᵀ∇_θ ℓ_i with v along g; the cosine's normalisation sets the length
of v. Here the length is the one that makes v the best multiple of g for H v = g, so that the gradient predicts changes
of the loss as well as its direction allows:

    v = (‖g‖² / gᵀH g) g,        the first iterate of conjugate gradients from zero.

Geiping et al. (2021), Witches' Brew: industrial scale data poisoning via gradient matching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import with_near_names
from oar.models.training import Training
from oar.signals.base import Memory, Outcome, Signal, Step, caution


@with_near_names
@dataclass(frozen=True)
class GradientMatching(Signal):
    """One product with H for the length, one pass for the gradients; nothing is solved."""

    name: ClassVar[str] = "gradient-matching"
    needs: ClassVar[tuple[str, ...]] = ("product", "score_gradients")

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Scale g and turn it into gradients."""
        fit, pull = outcome.fit, outcome.pull
        along = float(pull @ training.product(fit.parameters, fit.features, pull))
        square = float(pull @ pull)
        if along > 0:
            length = square / along
        else:  # the curvature gᵀH g is not positive: only the direction of v can be trusted
            length = 1.0 / np.sqrt(square) if square > 0 else 0.0
        signal = length * pull
        gradient = -training.score_gradients(fit.parameters, fit.features, signal)
        note = f"Gradient matching: v is g times {length:.3g}; curvature across g is ignored.{caution(fit)}"
        return Step(outcome, gradient, signal, Memory(fit.parameters, signal, maker=self.name), None, note)
