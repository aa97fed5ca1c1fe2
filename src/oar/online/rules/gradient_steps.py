"""Online gradient descent: a few steps on the newest batch, from the last θ.

Forwards θ^{k+1} = θ^k − η ∇R_t(θ^k), from θ^0 = θ_{t−1} to θ^K = θ_t. Backwards, from λ^K = λ_t,

    v^k = η λ^{k+1}          dL/dδ_i −= w̄_i ∇_x s_i(θ^k; v^k)          λ^k = λ^{k+1} − H(θ^k) v^k

and λ_{t−1} = λ^0. The K points on the way are computed again, and kept for this one round: K · p numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import check_whole, with_near_names
from oar.errors import NumericsError
from oar.online.rules.protocol import PulledBack, Update
from oar.online.rules.refits import Array, OfTheNewest, check_positive, last_or_start, moved_by

RUNAWAY = 1e30  # no model's parameters are this large


@with_near_names
@dataclass(frozen=True)
class GradientSteps(OfTheNewest):
    """Gradient steps on the risk of each new batch, penalty included.

    Args:
        rate: η, the size of a step in the units of the features as given; below 2/‖H‖, or steps run away.
        steps: how many for each batch.
    """

    rate: float
    steps: int = 1
    name: ClassVar[str] = "gradient steps"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_positive("rate", self.rate)
        check_whole("steps", self.steps)

    def kept_share(self, class_weights: Array, started: bool) -> Array:
        """Return κ of μ_c ← κ_c μ_c + (1 − κ_c) mean_c: the gradient is W_c (μ_c − mean_c)."""
        return (1 - self.rate * class_weights) ** self.steps

    def update(self, update: Update) -> Array:
        """Take the steps."""
        return self._way(update, self.steps)[-1]

    def _way(self, update: Update, steps: int) -> list[Array]:
        """Return θ^0, …, θ^steps."""
        way = [np.asarray(last_or_start(update, self.name))]
        for _ in range(steps):
            slope = update.training.risk_gradient(way[-1], update.features)[1]
            way.append(way[-1] - self.rate * slope)
            if not np.abs(way[-1]).max() < RUNAWAY:
                raise NumericsError(
                    f"rate: must be below 2/‖H‖ for gradient steps to stay near, got {self.rate:g}, with which they "
                    f"run away in round {update.number}; give a smaller rate, or standardise the features."
                )
        return way

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Go back over the steps."""
        moves = np.zeros((update.training.size, update.training.dimensions))
        signals = []
        for parameters in reversed(self._way(update, self.steps - 1)):
            signal = self.rate * adjoint
            moves += moved_by(update, parameters, signal)
            signals.append((parameters, signal))
            adjoint = adjoint - update.training.product(parameters, update.features, signal)
        return PulledBack(adjoint, moves, tuple(reversed(signals)))
