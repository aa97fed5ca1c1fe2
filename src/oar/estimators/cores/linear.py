"""Estimators whose outputs are linear in their rows, on the chunked passes and quick refits of `oar.models`.

scikit-learn's penalties stand against sums over people, Σ w ℓ + α/2 ‖W‖², and ours against means: l2 = α / Σw, which
grows when somebody leaves. With class weights c a person's loss counts c_y times: that is its *mass*, w̄ c_y, and its
score is c_y times that of a plain model. Balanced ones follow from who is there, and change when labels do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators.class_weights import ClassWeights
from oar.estimators.cores.protocol import Array, Core
from oar.models.differentiable import need_jax
from oar.models.linear.losses import Linear, LinearSVM, Ridge, SoftmaxRegression
from oar.models.linear.training import LinearTraining
from oar.models.training import Columns
from oar.people import Population


class LinearTwinTraining(LinearTraining):
    """A linear model whose settings follow from who is there: it is made anew where labels change and people leave."""

    def __init__(self, core: LinearCore, rows: Array, people: Population) -> None:
        """Bind it, weights and all."""
        weights = people.row_weights
        first = weights if people.first_weights is None else people.first_weights
        self.core = core
        self._fixed_classes = None if core.class_weights is None else core.class_weights.fixed(people)
        self._given = np.where(weights > 0, weights, first)  # also of those who may come back
        self.held_by = core.held_by
        shares = people.target_rows(core.regresses)
        targets = np.ascontiguousarray(core.target_rows(shares), dtype=np.float64)
        shared = weights / weights.sum()
        super().__init__(self._settled(targets, shared), np.ascontiguousarray(rows, dtype=np.float64), targets, shared)

    @property
    def name(self) -> str:
        """The estimator's."""
        return self.core.name

    def _settled(self, targets: Array, weights: Array) -> Linear:
        """Return the model for people with these targets and weights."""
        total = float(self._given[weights > 0].sum())
        return self.core.model(total, self._classes(targets, weights) if self._by_output(targets) else None)

    def _by_output(self, targets: Array) -> bool:
        return self.core.counts_own_class and targets.shape[1] > 1

    def _classes(self, targets: Array, weights: Array) -> Array | None:
        """Return class weights c (k,) for these people; None where all count alike."""
        if self.core.class_weights is None or self._fixed_classes is not None:
            return self._fixed_classes
        return self.core.class_weights.balanced(_shares(targets), np.where(weights > 0, self._given, 0.0))

    def _counted(self, targets: Array) -> Array | float:
        """Return c_y (n,) for these targets, with the class weights of the people as they are."""
        classes = None if self._by_output(targets) else self._classes(self.targets, self.weights)
        return 1.0 if classes is None else _shares(targets) @ classes

    def _masses(self, targets: Array, weights: Array) -> Array:
        classes = None if self._by_output(targets) else self._classes(targets, weights)
        return weights if classes is None else weights * (_shares(targets) @ classes)

    def contributing(self, targets: Array, weights: Array) -> LinearTwinTraining:
        """Return the same for other targets and weights; those who are left weigh what they were given.

        A penalty is no part of a pass, so that nothing is compiled anew for another one.
        """
        other: Any = super().contributing(targets, weights)
        other.model = self._settled(targets, weights)
        if self._by_output(targets):
            other._passing = other.model
        other.__dict__.pop("_penalty_hessian", None)  # that of the last model
        return other

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return c_y times the scores of a plain model."""
        return self._counted(targets) * super().scores(parameters, features, signal, targets)

    def score_gradients(
        self, parameters: Array, features: Array, signal: Array, columns: Columns | None = None
    ) -> Array:
        """Return c_y times those of a plain model."""
        found, counted = super().score_gradients(parameters, features, signal, columns), self._counted(self.targets)
        return found if isinstance(counted, float) else found * counted[:, None]


def _shares(targets: Array) -> Array:
    """Return class shares (n, k) of targets (n, o)."""
    return targets if targets.shape[1] > 1 else np.column_stack([1 - targets, targets])


class LinearCore(Core):
    """z = W e + b; parameters are (o, d' + 1), the intercept last.

    Attributes:
        class_weights: how much people of each class count; None for alike.
        counts_own_class: whether, of several machines, each counts its own class by its weight and all others once.
        held_by: what to use where there is no penalty and no minimum either, in words.
    """

    linear = True
    class_weights: ClassWeights | None = None
    counts_own_class = False
    held_by: str = "a larger penalty"

    def model(self, total: float, own_class: Array | None) -> Linear:
        """Return the linear model that the estimator is for people whose weights add up to `total`.

        `own_class` are class weights (k,) where machines count their own class by them.
        """
        raise NotImplementedError

    def check(self, people: Population) -> None:
        """Raise where class weights are not for these people."""
        need_jax(self.name)
        if self.class_weights is not None:
            self.class_weights.fixed(people)

    def training(self, rows: Array, people: Population) -> LinearTwinTraining:
        """Bind it, weights and all."""
        return LinearTwinTraining(self, rows, people)

    def written_down(self, people: Population) -> Linear | None:
        """Return it where nothing but the penalty follows from the people, and the intercept is as ours have it."""
        total = people.size if people.weights is None else float(people.weights.sum())
        found = self.model(total, None)
        plain = self.class_weights is None and type(found) in (SoftmaxRegression, Ridge, LinearSVM)
        return found if plain else None

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
