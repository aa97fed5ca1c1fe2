"""The linear models of `oar.models` with what scikit-learn's estimators know beside them.

That is no intercept, a penalised one, machines that count their own class more than the others, and values of ±1 that
are regressed and read as classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.models.linear.losses import Array, Linear, LinearSVM, Ridge, SoftmaxRegression, library_of


@dataclass(frozen=True)
class Softmax(SoftmaxRegression):
    """Softmax regression; liblinear penalises the intercept as that of a feature of size s: a share 1/s² of l2."""

    intercept: bool = True
    intercept_share: float = 0.0


@dataclass(frozen=True)
class Values(Ridge):
    """Ridge regression."""

    intercept: bool = True


@dataclass(frozen=True)
class SignedValues(Linear):
    """Ridge regression on t = 2y − 1, one output a class or one for two; a query is judged by outputs as logits."""

    l2: float
    intercept: bool = True
    name = "ridge-classifier"
    quadratic = True
    steepest = 1.0
    # As a classifier's, the cross-entropy falls the more clearly the goal leads.
    judge = SoftmaxRegression(0.0)

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return ½‖z − t‖²."""
        return 0.5 * ((outputs - (2 * target - 1)) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return z − t."""
        return outputs - (2 * target - 1)

    bend, curvature = Ridge.bend, Ridge.curvature


@dataclass(frozen=True)
class Machines(LinearSVM):
    """Squared hinges, one against the rest, of which each may count its own class by a weight (liblinear).

    With c_o such weights φ = Σ_o (1 + (c_o − 1) y_o) max(0, 1 − t_o z_o)²: those of other classes count once.
    """

    intercept: bool = True
    intercept_share: float = 0.0
    own_class: tuple[float, ...] = ()
    judge = LinearSVM(0.0)  # by the hinges alone

    def _counted(self, target: Any) -> Any:
        """Return how often each machine counts people, (o, ...); 1 where all count once."""
        if not self.own_class:
            return 1.0
        weights = np.array(self.own_class).reshape(-1, *(1 for _ in target.shape[1:]))
        return 1 + (weights - 1) * target

    @property
    def steepest(self) -> float:  # type: ignore[override]
        """Return 2, times the largest weight."""
        return 2.0 * max((1.0, *self.own_class))

    def best_lengths(
        self, outputs: tuple[Array, Array], people: tuple[Array, Array], penalty: tuple[Array, Array]
    ) -> Array:
        """Search each machine's line with its own weights."""
        if not self.own_class:
            return super().best_lengths(outputs, people, penalty)
        (at, ahead), (targets, weights) = outputs, people
        counted = self._counted(targets) * weights
        each = [
            super(Machines, self).best_lengths(
                (at[[one]], ahead[[one]]), (targets[[one]], counted[one]), (penalty[0][[one]], penalty[1][[one]])
            )
            for one in range(len(at))
        ]
        return np.concatenate(each)

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return Σ_o of the hinges."""
        library = library_of(outputs)
        return (self._counted(target) * library.maximum(1 - (2 * target - 1) * outputs, 0.0) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return their slopes."""
        return self._counted(target) * super().slopes(outputs, target)

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return their curvature times u."""
        return self._counted(target) * super().bend(outputs, target, direction)

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return their curvature, a diagonal."""
        return self._counted(target) * super().curvature(outputs, target)
