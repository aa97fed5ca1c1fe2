"""Fine-tuning: fit the newest batch, but stay near the last θ.

    θ_t = argmin_θ  F(θ) = R_t(θ) + μ/2 ‖θ − θ_{t−1}‖²

∇R_t(θ_t) + μ (θ_t − θ_{t−1}) = 0 for all moves and all θ_{t−1}, so by the implicit function theorem, with
v = (H + μ I)⁻¹ λ_t,

    λ_{t−1} = μ v          dL/dδ_i = −w̄_i ∇_x s_i(θ_t; v).

Large μ is a small step, −∇R_t(θ_{t−1})/μ; small μ is a refit of the batch alone. A batch that lacks a class is no harm:
the pull gives it a minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import with_near_names
from oar.errors import NumericsError
from oar.models.fit.minimise import Objective, minimise
from oar.models.fit.quasi_newton import conjugate_gradients
from oar.online.rules.protocol import PulledBack, Update
from oar.online.rules.refits import SOLVED, Array, OfTheNewest, check_positive, last_or_start, moved_by
from oar.tolerances import CONVERGED, TIGHT

MOST_PRODUCTS = 2_000
ROUNDING = 1e-7  # the residual of (H + μ I) v = λ that is taken for a solution, as a share of ‖λ‖


@with_near_names
@dataclass(frozen=True)
class FineTune(OfTheNewest):
    """Fit each new batch with a quadratic penalty on the distance to the last θ, to the minimum of the sum.

    Args:
        pull: μ, above 0, in the units of the features as given, relative to the curvature of the risk.
    """

    pull: float
    name: ClassVar[str] = "fine-tuning"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_positive("pull", self.pull)

    def kept_share(self, class_weights: Array, started: bool) -> Array:
        """Return κ of μ_c ← κ_c μ_c + (1 − κ_c) mean_c, from W_c (θ − mean_c) + μ (θ − μ_c) = 0."""
        return self.pull / (class_weights + self.pull)

    def update(self, update: Update) -> Array:
        """Minimise F, beginning at the last θ."""
        training, last = update.training, np.asarray(last_or_start(update, self.name))

        def pulled(parameters: Array) -> tuple[float, Array]:
            risk, slope = training.risk_gradient(parameters, update.features)
            away = parameters - last
            return risk + 0.5 * self.pull * float(away @ away), slope + self.pull * away

        objective = Objective(
            pulled,
            lambda parameters, direction: self._product(update, parameters, direction),
            lambda: None,
            lambda parameters: None,
        )
        found = minimise(objective, objective.at(last.copy()), TIGHT, from_afar=False, many_minima=False)
        if not found.residual <= CONVERGED * max(1.0, self.pull):
            raise NumericsError(
                f"rule: {self.name} must end at a gradient norm of {CONVERGED:.0e} or less, got {found.residual:.1e} "
                f"in round {update.number}; a larger pull or standardised features make it easier."
            )
        return found.parameters

    def _product(self, update: Update, parameters: Array, direction: Array) -> Array:
        """Return (H + μ I) times a direction."""
        return update.training.product(parameters, update.features, direction) + self.pull * direction

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Solve (H + μ I) v = λ_t."""
        size = float(np.linalg.norm(adjoint))
        solved = conjugate_gradients(
            lambda direction: self._product(update, after, direction), adjoint, SOLVED * size, MOST_PRODUCTS
        )
        if solved.descent is not None or not solved.residual <= ROUNDING * size:
            raise NumericsError(
                f"rule: {self.name} must end at a minimum to be differentiated, got a saddle or a system that cannot "
                f"be solved in round {update.number}; a larger pull or standardised features help."
            )
        moves = moved_by(update, after, solved.solution)
        return PulledBack(self.pull * solved.solution, moves, ((after, solved.solution),))
