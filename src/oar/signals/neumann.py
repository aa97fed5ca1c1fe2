"""The truncated series: H⁻¹ = η Σ_j (I − ηH)^j for 0 < η < 2/‖H‖, cut after K terms.

The partial sums are the iterates of v ← v + η (g − H v) from v = 0, one product with H a term. After K terms there is
(I − ηH)^K H⁻¹ g left out: flat directions of H (eigenvalues μ) are found only after about 1/(ημ) terms, so a short
series damps them. Started from the last round's v instead of 0, the same iteration goes on improving v while the outer
loop moves; a few terms a round are then enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import check_flag, with_near_names
from oar.errors import NumericsError
from oar.models.training import Training
from oar.signals.backpropagation import sharpness
from oar.signals.base import Memory, Outcome, Signal, Step, caution, check_count, check_given, check_positive

GROWTH = 10.0  # a residual this many times ‖g‖ comes from a diverging series, not from rounding


@with_near_names
@dataclass(frozen=True)
class Neumann(Signal):
    """v ≈ η Σ_{j<K} (I − ηH)^j g: K products with H, no solve.

    Args:
        terms: K.
        step: η; None takes 1/‖H‖, estimated by power iteration.
        warm_start: whether to go on from the last round's v rather than from 0.
    """

    terms: int = 50
    step: float | None = None
    warm_start: bool = True
    name: ClassVar[str] = "neumann"
    needs: ClassVar[tuple[str, ...]] = ("product", "score_gradients")

    def __post_init__(self) -> None:
        check_count("terms", self.terms)
        check_given(check_positive, "step", self.step)
        check_flag("warm_start", self.warm_start)

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Sum the series; the eigenvector of the largest curvature is remembered beside v."""
        fit, pull = outcome.fit, outcome.pull
        direction, step = self.own(memory), self.step
        if step is None:
            largest, direction = sharpness(training, fit.parameters, fit.features, direction)
            step = 1.0 / largest if largest > 0 else 1.0

        signal, rest = np.zeros_like(pull), pull
        if self.warm_start and memory is not None and memory.signal is not None:
            signal = memory.signal
            rest = pull - training.product(fit.parameters, fit.features, signal)
        allowed = GROWTH * max(float(np.linalg.norm(rest)), float(np.linalg.norm(pull)))
        for term in range(self.terms):
            if term > 0:
                rest = pull - training.product(fit.parameters, fit.features, signal)
            if not float(np.linalg.norm(rest)) <= allowed:
                raise NumericsError(
                    f"signal: the Neumann series diverges at step {step:.3g}, because ‖I − step·H‖ > 1: take a smaller "
                    "step, or fit to a minimum (H must have no negative eigenvalue); signal='unrolled' needs neither."
                )
            signal = signal + step * rest
        left = float(np.linalg.norm(rest)) / max(float(np.linalg.norm(pull)), 1e-300)
        gradient = -training.score_gradients(fit.parameters, fit.features, signal)
        note = f"Neumann: {self.terms} terms at step {step:.3g} left ‖H v − g‖ below {left:.1e} ‖g‖.{caution(fit)}"
        return Step(outcome, gradient, signal, Memory(fit.parameters, signal, direction, self.name), None, note)
