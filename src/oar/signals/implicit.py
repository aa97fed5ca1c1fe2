"""The implicit signal: v = H⁻¹ g, from the implicit function theorem at the refit.

∇R(θ*(Δ), Δ) = 0 for every Δ, so θ* moves with member i by dθ* = −w̄_i H⁻¹ ∂_x∇_θ ℓ_i dδ_i, and the query's loss by

    dL = gᵀ dθ* = −w̄_i vᵀ ∂_x∇_θ ℓ_i dδ_i = −w̄_i ∇_x s_iᵀ dδ_i,        s_i = vᵀ∇_θ ℓ_i.

Koh & Liang (2017), Understanding black-box predictions via influence functions; Lorraine, Vicol & Duvenaud (2020),
Optimizing millions of hyperparameters by implicit differentiation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oar.checks import with_near_names
from oar.models.training import Training
from oar.signals.base import Memory, Outcome, Signal, Step, caution, check_positive, check_share


@with_near_names
@dataclass(frozen=True)
class Implicit(Signal):
    """Solve H v = g. Exact up to the refit's and this solve's tolerance, unless the note says that H was damped.

    Args:
        tolerance: ‖H v − g‖ at the most, as a share of ‖g‖.
    """

    tolerance: float = 1e-6
    name: ClassVar[str] = "implicit"
    exact: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("solve", "score_gradients")

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_share("tolerance", self.tolerance)  # v = 0 leaves all of ‖g‖

    def refusal(self, training: Training) -> str | None:
        """Refuse a tolerance where H is factored, which solves to the last digits whatever is asked for."""
        reason, inner = super().refusal(training), getattr(training, "inner", training)
        if reason is None and self.tolerance != type(self).tolerance and getattr(inner, "factors", False):
            count = training.parameter_count
            return (
                f"tolerance does nothing where H is factored, as for {count:,} parameters here; leave it out, got "
                f"{self.tolerance:g}"
            )
        return reason

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Solve for v, from the last round's where there is one; one more pass turns it into gradients."""
        fit = outcome.fit
        signal = training.solve(fit, outcome.pull, None if memory is None else memory.signal, self.tolerance)
        gradient = training.score_gradients(fit.parameters, fit.features, -signal)  # linear in v
        damping = float(getattr(training, "damping", 0.0))
        damped = f" H was damped by {damping:.1e} to be positive, so the gradient is not exact." if damping else ""
        damped += getattr(training, "inexact", "")
        note = f"Implicit: H v = g was solved to {self.tolerance:.0e} of ‖g‖ or better.{damped}{caution(fit)}"
        return Step(outcome, gradient, signal, Memory(fit.parameters, signal, maker=self.name), None, note)
