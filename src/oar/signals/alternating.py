"""The alternating signal, as GANs train: a few inner steps and one response a round, none of them to the end.

The maker keeps a θ of its own. Each round moves it by K gradient steps on the data as they are now, and differentiates
the query's loss through these K steps only. For K = 1, with θ⁺ = θ − η ∇R(θ),

    v = η g(θ⁺) at θ        −∇_x s_i(θ; v) = (dL(θ⁺)/dδ_i) / w̄_i.

One step sees only what moves at once, so the gradient is short (by about η times each eigenvalue of H) and turned
towards stiff directions. It never needs the refit; the outcome's loss is still that of a true one.

Goodfellow et al. (2014), Generative adversarial nets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import with_near_names
from oar.models.training import Training
from oar.signals.backpropagation import Descent, sharpness, unroll
from oar.signals.base import Memory, Outcome, Signal, Step, caution, check_count, check_given, check_positive


@with_near_names
@dataclass(frozen=True)
class Alternating(Signal):
    """K inner steps from its own θ, and the response to them.

    Args:
        inner_steps: K.
        step: η; None takes 1/‖H‖ at the first round's refit, and keeps it.
    """

    inner_steps: int = 1
    step: float | None = None
    name: ClassVar[str] = "alternating"
    needs: ClassVar[tuple[str, ...]] = ("risk_gradient", "product", "score_gradients")

    def __post_init__(self) -> None:
        check_count("inner_steps", self.inner_steps)
        check_given(check_positive, "step", self.step)

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Go on from the last round's θ; the first round starts from the refit."""
        fit = outcome.fit
        step, own = self.own(memory) or (None, fit.parameters)
        step = self.step or step
        if step is None:
            step = 1.0 / max(sharpness(training, own, fit.features)[0], np.finfo(float).tiny)
        descent = Descent(self.inner_steps, step, momentum=0.0, every=1)
        path = unroll(training, fit.features, own, descent, outcome.query, outcome.target)
        apart = float(np.linalg.norm(path.last - fit.parameters))
        note = f"Alternating: its own θ is {apart:.1e} from the refit, at a loss of {path.loss:.6g}.{caution(fit)}"
        kept = Memory(fit.parameters, path.signal, (step, path.last), self.name)
        return Step(outcome, path.gradient, path.signal, kept, path.loss, note)
