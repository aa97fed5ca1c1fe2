"""Move from the last θ towards what the newest batch says: θ_t = (1 − β) θ_{t−1} + β θ*(batch t).

For nearest centroid θ* are the batch's class means, and this is the exponentially weighted mean; a class that the batch
lacks keeps its centroid. For any other model it averages fits. Backwards, with v = H⁻¹ (β λ_t) at θ*:

    λ_{t−1} = (1 − β) λ_t          dL/dδ_i = −w̄_i ∇_x s_i(θ*; v)

and θ* = (θ_t − (1 − β) θ_{t−1}) / β need not be fitted again. In the first round, with nothing before, β is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oar.checks import with_near_names
from oar.online.rules.protocol import PulledBack, Update
from oar.online.rules.refits import (
    Array,
    check_every_class,
    check_present,
    check_share,
    fitted,
    pulled_through,
)
from oar.online.stream import Stream


@with_near_names
@dataclass(frozen=True)
class ExponentialMeans:
    """θ_t = (1 − rate) θ_{t−1} + rate θ*(batch t).

    Args:
        rate: β, above 0 and at most 1; 1 forgets everything but the newest batch.
    """

    rate: float
    name: ClassVar[str] = "exponentially weighted means"
    reads: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_share("rate", self.rate)

    def check(self, stream: Stream, model: Any, started: bool) -> None:
        """Raise where a batch that is fitted lacks a class: of nearest centroid, only the first with nothing before."""
        rounds = range((0 if started else 1) if model.keeps_absent else stream.rounds)
        check_every_class(self.name, self.reads, stream, model, rounds)

    def kept_share(self, class_weights: Array, started: bool) -> Array:
        """Return κ of μ_c ← κ_c μ_c + (1 − κ_c) mean_c."""
        return np.where(class_weights > 0, 1 - self.rate if started else 0.0, 1.0)

    def update(self, update: Update) -> Array:
        """Fit the newest batch and go there by a share of the way."""
        self._check_present(update)
        newest = fitted(update, self.name)
        return newest if update.before is None else (1 - self.rate) * update.before + self.rate * newest

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Pull back through the fit and through the average."""
        self._check_present(update)
        if update.before is None:
            newest, by_fit, by_before = after, adjoint, np.zeros_like(adjoint)
        else:
            newest = (after - (1 - self.rate) * update.before) / self.rate
            by_fit, by_before = self.rate * adjoint, (1 - self.rate) * adjoint
            if update.training.model.keeps_absent:  # what a batch lacks stays as it was
                stays = np.repeat(update.training.absent, update.training.dimensions)
                by_fit, by_before = np.where(stays, 0.0, by_fit), np.where(stays, adjoint, by_before)
        moves, signal = pulled_through(update, newest, by_fit)
        return PulledBack(by_before, moves, ((newest, signal),))

    def _check_present(self, update: Update) -> None:
        """Raise where the batch lacks a class that has nothing to keep."""
        if update.before is None or not update.training.model.keeps_absent:
            check_present(update, self.name)
