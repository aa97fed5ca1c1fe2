"""Estimators whose outputs are linear in their rows, on the chunked passes and quick refits of `oar.models`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators.core import Array, Core
from oar.models.linear import Linear, SoftmaxRegression
from oar.models.linear_training import LinearTraining
from oar.people import Population


class LinearTwinTraining(LinearTraining):
    """A linear model whose settings follow from who is there: it is made anew where labels change and people leave."""

    def __init__(self, core: LinearCore, rows: Array, targets: Array, weights: Array) -> None:
        """`weights` (n,) are as given, with any sum."""
        self.core, self.total = core, float(weights.sum())
        super().__init__(core.model(targets, weights), rows, targets, weights / self.total)

    def contributing(self, targets: Array, weights: Array) -> LinearTwinTraining:
        """Return the same for other targets and weights; of those who are left, weights keep their proportions."""
        other: Any = super().contributing(targets, weights)
        other.total = self.total * float(self.weights[weights > 0].sum())
        other.model = self.core.model(targets, weights * other.total)
        return other


class LinearCore(Core):
    """z = W e + b; parameters are (o, d' + 1), the intercept last."""

    linear = True

    def model(self, targets: Array, weights: Array) -> Linear:
        """Return the model of `oar.models` that the estimator is, for people with these targets and weights (n,)."""
        raise NotImplementedError

    def training(self, rows: Array, people: Population) -> LinearTwinTraining:
        """Bind it, weights and all."""
        weights = np.ones(people.size) if people.weights is None else people.weights
        shares = people.value_rows() if self.regresses else people.class_rows()
        targets = np.ascontiguousarray(self.target_rows(shares), dtype=np.float64)
        return LinearTwinTraining(self, np.ascontiguousarray(rows, dtype=np.float64), targets, weights)

    def own_parameters(self, training: LinearTraining, flat: Array) -> Array:
        """Return (W, b) for rows as they are."""
        return training.matrix(flat)

    def outputs(self, parameters: Array, rows: Array) -> Array:
        """Return W e + b."""
        return rows @ parameters[:, :-1].T + parameters[:, -1]

    def read(self, fitted: Any, places: NDArray[np.intp] | None) -> Array:
        """Return coef_ and intercept_, classes in the people's order."""
        weights = np.atleast_2d(np.asarray(fitted.coef_, dtype=np.float64))
        intercepts = np.broadcast_to(np.asarray(fitted.intercept_, dtype=np.float64), len(weights))
        return in_order(np.column_stack([weights, intercepts]).T, places).T

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp] | None) -> Array:
        """Return what its decision_function says, or its predictions where they are values."""
        found = fitted.predict(rows) if self.regresses else fitted.decision_function(rows)
        return in_order(np.asarray(found, dtype=np.float64).reshape(len(rows), -1), places)


def in_order(outputs: Array, places: NDArray[np.intp] | None) -> Array:
    """Return outputs (m, o) with a column for each of the people's classes, in their order.

    A single output is that of the second class against the first: its sign turns where they are the other way round.
    """
    if places is None:
        return outputs
    if outputs.shape[1] == 1:
        return outputs if places[0] < places[-1] else -outputs
    found = np.full((len(outputs), int(places.max()) + 1), -np.inf)
    found[:, places] = outputs
    return found


@dataclass(frozen=True)
class Logistic(LinearCore):
    """LogisticRegression with an l2 penalty: C Σ w ℓ + ½‖W‖² is Σ w̄ ℓ + ½‖W‖²/(C Σ w) times C Σ w."""

    C: float
    name = "LogisticRegression"
    equivariant = True

    def target_rows(self, targets: Any) -> Any:
        """Return a single logit's targets for two classes."""
        return targets[:, 1:] if targets.shape[1] == 2 else targets

    def model(self, targets: Array, weights: Array) -> Linear:
        """Return softmax regression with the penalty as it is for so much weight."""
        return SoftmaxRegression(l2=1 / (self.C * float(weights.sum())))
