"""The unrolled signal: differentiate the optimiser's path instead of the point at which it ends.

No H is inverted, so it also works where H is singular or the refit is far from a minimum; the price is a path of T
steps forwards and back for every gradient. It is exact for the loss at θ_T, the end of its own path, which is
the true refit's only as T → ∞: both losses are reported.

Maclaurin, Duvenaud & Adams (2015), Gradient-based hyperparameter optimization through reversible learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import with_near_names
from oar.models.training import Training
from oar.signals.backpropagation import Descent, sharpness, spacing, unroll
from oar.signals.base import (
    Memory,
    Outcome,
    Signal,
    Step,
    caution,
    check_count,
    check_given,
    check_positive,
    check_share,
)


@with_near_names
@dataclass(frozen=True)
class Unrolled(Signal):
    """T steps of gradient descent from `training.start()`, and the adjoint recursion back.

    Args:
        steps: T.
        step: η; None takes 1/‖H‖, the larger of ‖H‖ at the start and at the first refit. It is kept for later rounds,
            so that all of them differentiate the same map.
        momentum: β, 0 ≤ β < 1; 0.9 reaches in T steps about what 0 reaches in 10 T.
        checkpoint_every: keep every so-manieth state of the path and run the stretches between them again; None keeps
            all of them where 64 MB suffice, and every √T-th otherwise.
    """

    steps: int = 200
    step: float | None = None
    momentum: float = 0.9
    checkpoint_every: int | None = None
    name: ClassVar[str] = "unrolled"
    needs: ClassVar[tuple[str, ...]] = ("risk_gradient", "product", "score_gradients")

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_given(check_positive, "step", self.step)
        check_share("momentum", self.momentum)
        check_given(check_count, "checkpoint_every", self.checkpoint_every)

    def refusal(self, training: Training) -> str | None:
        """A closed form is not reached step by step."""
        model = getattr(training, "model", None)
        if getattr(model, "closed_form", None) is not None:
            name = getattr(model, "name", type(model).__name__)
            return f"{name} is fitted in closed form, so there is no path to unroll; 'implicit' is exact for it"
        return super().refusal(training)

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Unroll from scratch on the moved features."""
        fit, start = outcome.fit, training.start()
        step = self.step or self.own(memory)
        if step is None:
            largest = [sharpness(training, parameters, fit.features)[0] for parameters in (start, fit.parameters)]
            step = 1.0 / max(*largest, np.finfo(float).tiny)
        every = self.checkpoint_every or spacing(self.steps, training.parameter_count)
        descent = Descent(self.steps, step, self.momentum, min(every, self.steps))
        path = unroll(training, fit.features, start, descent, outcome.query, outcome.target)
        apart = float(np.linalg.norm(path.last - fit.parameters))
        note = (
            f"Unrolled: {self.steps} steps of {step:.3g} with momentum {self.momentum:g} end {apart:.1e} from the "
            f"refit, at a loss of {path.loss:.6g} against {outcome.loss:.6g}.{caution(fit)}"
        )
        kept = Memory(fit.parameters, path.signal, step, self.name)
        return Step(outcome, path.gradient, path.signal, kept, path.loss, note)
