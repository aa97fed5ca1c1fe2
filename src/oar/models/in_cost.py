"""A training whose moves are measured in cost: u = costs · δ, for members and query alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Training

Array = NDArray[np.float64]


class InCost:
    """Implements `Training` around another one; only what speaks of features changes. `made` are moves made already."""

    def __init__(self, training: Training, costs: Array, made: Array | None = None) -> None:
        self._training, self._costs, self._made = training, costs, made

    def __getattr__(self, name: str) -> Any:
        """Ask the training itself for everything else."""
        return getattr(self._training, name)

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after moves in cost."""
        if self._made is not None:
            moves = self._made if moves is None else moves + self._made
        return self._training.moved(None if moves is None else moves / self._costs)

    def from_there(self, made: Array) -> InCost:
        """Return the same training, with everybody's moves counted from these (n, d), in cost."""
        return InCost(self._training, self._costs, made if self._made is None else self._made + made)

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_u s_i for everyone."""
        return self._training.score_gradients(parameters, features, signal) / self._costs

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the loss of a query in cost, ∇_θ L, and ∇_u L."""
        loss, pull, slope = self._training.goal(parameters, query / self._costs, target)
        return loss, pull, slope / self._costs

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs for a query in cost."""
        return self._training.outputs(parameters, query / self._costs)
