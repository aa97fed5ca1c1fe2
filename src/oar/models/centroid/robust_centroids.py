"""Nearest centroid whose centroids are averages that few people can do little to (`class_means`).

Parameters are `Centroids`, and everything but the fit is as with `NearestCentroid`. Bound to people it implements
`Training` as if θ minimised R(θ) = Σ_c W_c ½‖θ_c − μ_c(x)‖², where W_c = Σ_{i∈c} w̄_i weighs a class as for plain
means, of whose risk this is all that depends on θ: steps of the same rate go as far. So H = diag(W_c) ⊗ I, a signal is
v_c = g_c / W_c, and since dL/dδ_ij = S_ij g_cj, scores have

    ∇_x s_i = −W_c S_i ⊙ v_c / w̄_i,          s_i = −W_c Σ_j v_cj S_ij (x_ij − M_ij) / w̄_i.

It is locally exact: there are kinks where people change places. No JAX is needed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError
from oar.models.centroid.class_means import ClassMean, PlainMean, class_means, class_shares
from oar.models.centroid.nearest_centroid import Centroids, NearestCentroid
from oar.models.differentiable import Differentiable
from oar.models.training import ALL, Array, Fit, Some, displaced
from oar.people import Population

NEAREST = NearestCentroid()


@dataclass(frozen=True)
class RobustCentroids(Differentiable):
    """Nearest centroid, with another average than the mean.

    Args:
        mean: how the people of a class are averaged.
    """

    mean: ClassMean = field(default_factory=PlainMean)
    convex = True
    equivariant = True
    smooth = False
    holds_class_means = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The kind of average."""
        return f"{self.mean.name} centroids"

    def check(self, people: Population) -> None:
        """Raise where nearest centroid could not be fitted to these people."""
        NEAREST.check(people)

    def training(self, people: Population) -> RobustTraining:
        """Bind the model to people."""
        weights = people.row_weights
        features = np.ascontiguousarray(people.features, dtype=np.float64)
        return RobustTraining(self, features, people.class_rows(), weights)

    def fit(self, people: Population) -> Centroids:
        """Return the averages, class weights and sizes."""
        self.check(people)
        training = self.training(people)
        features = training.moved(None)
        return training.parameters(training.means(features, training.start()), features)

    def probabilities(self, parameters: Centroids, features: Any) -> NDArray[np.float64]:
        """Return class probabilities, shape (..., k)."""
        return NEAREST.probabilities(parameters, features)

    def predict(self, parameters: Centroids, features: Any) -> NDArray[Any]:
        """Return the code of the nearest class, shape (...)."""
        return NEAREST.predict(parameters, features)

    def goal_loss(self, parameters: Centroids, features: Any, goal: int) -> NDArray[np.float64]:
        """Return −log p(goal | x), shape (...)."""
        return NEAREST.goal_loss(parameters, features, goal)


class RobustTraining:
    """Implements `Training`; θ is the centroids, class after class."""

    def __init__(self, model: RobustCentroids, features: Array, targets: Array, weights: Array) -> None:
        """Keep the people; targets are one-hot rows (n, k)."""
        self.model, self.targets, self._features = model, targets, features
        self._given, self.weights = weights, weights / weights.sum()
        self.codes = targets.argmax(axis=1)
        self.size, self.dimensions = features.shape
        self.classes = targets.shape[1]
        self.parameter_count = self.classes * self.dimensions
        self.passes = 0

    @property
    def class_weights(self) -> Array:
        """W (k,), everyone's weights by class."""
        return np.asarray(self.weights @ self.targets)

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Which classes (k,) nobody of any weight has: their centroids stay where they are."""
        return ~(self.class_weights > 0)

    def start(self) -> Array:
        """Start from the origin; a fit does not depend on it."""
        return np.zeros(self.parameter_count)

    def moved(self, moves: Array | None, columns: Some = ALL) -> Array:
        """Return everyone's features after the moves."""
        return displaced(self._features, moves, columns)

    def means(self, features: Array, start: Array) -> Array:
        """Return the centroids (k · d,) of these features; a class that nobody has keeps the one in `start`."""
        self.passes += 1
        shares = class_shares(self.model.mean, features, self.codes, self.weights, self.classes).shares
        found = class_means(shares, features, self.codes, self.classes)
        return np.where(self.absent[:, None], start.reshape(found.shape), found).ravel()

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Average; there is nothing to iterate."""
        return Fit(self.means(features, start), features, 0.0, True)

    def parameters(self, flat: Array, features: Array | None = None) -> Centroids:
        """Return flat parameters as `Centroids`."""
        rows = self._features if features is None else features
        totals = np.bincount(self.codes, weights=self._given, minlength=self.classes).astype(np.float64)
        largest = np.bincount(self.codes, weights=self._given * np.abs(rows).max(axis=1), minlength=self.classes)
        sizes = largest / np.where(totals > 0, totals, 1.0)
        positions = flat.reshape(self.classes, self.dimensions)
        return Centroids(positions, totals, np.maximum(sizes, np.abs(positions).max(axis=1)))

    def flat(self, parameters: Centroids) -> Array:
        """Return `Centroids` as one vector."""
        return parameters.positions.ravel()

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return Σ_c W_c ½‖θ_c − μ_c‖² and W_c (θ_c − μ_c)."""
        away = parameters - self.means(features, parameters)
        slope = self._weighed(away)
        return 0.5 * float(away @ slope), slope

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return H times a direction, W_c times each class's part."""
        return self._weighed(direction)

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with H v = right."""
        given = right.reshape(self.classes, self.dimensions)
        if given[self.absent].any():
            raise NumericsError("refit: a class that nobody has leaves its centroid free, so nothing moves it.")
        return (given / np.where(self.absent, 1.0, self.class_weights)[:, None]).ravel()

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return −W_c S_i ⊙ v_c / w̄_i (n, d); 0 for those who weigh nothing."""
        self.passes += 1
        shares = class_shares(self.model.mean, features, self.codes, self.weights, self.classes).shares
        found = -shares * self._weighed_by_class(signal) / self._divisors
        return found[:, columns]

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return −W_c Σ_j v_cj S_ij (x_ij − M_ij) / w̄_i (n,), for everyone's own class."""
        if not np.array_equal(targets, self.targets):
            raise OptionError(
                f"action: {self.model.name} say nothing of people who change their class, and other labels were asked "
                "about; let members move, or leave."
            )
        self.passes += 1
        shares, entered = class_shares(self.model.mean, features, self.codes, self.weights, self.classes)
        return -(self._weighed_by_class(signal) * shares * (features - entered) / self._divisors).sum(axis=1)

    def contributing(self, targets: Array, weights: Array) -> RobustTraining:
        """Return the same training for other classes (one-hot rows) and weights."""
        if not np.isin(targets, (0.0, 1.0)).all():
            raise OptionError(f"labels: {self.model.name} need one class a person, got soft labels.")
        other = copy.copy(self)
        other.targets, other.codes = targets, targets.argmax(axis=1)
        other._given, other.weights = weights * self._given.sum(), weights
        return other

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L = Σ_c t_c d_c + log Σ_c e^(−d_c), with ∂L/∂μ_c = (t_c − p_c)(μ_c − x†)/d_c, and 0 at d_c = 0."""
        offsets = parameters.reshape(self.classes, self.dimensions) - query
        distances = np.linalg.norm(offsets, axis=1)
        total = np.logaddexp.reduce(-distances)
        pulls = target - np.exp(-distances - total)
        by_class = pulls[:, None] * offsets / np.where(distances > 0, distances, 1.0)[:, None]
        return float(target @ distances + total), by_class.ravel(), -by_class.sum(axis=0)

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return −d_c for every class."""
        return -np.linalg.norm(parameters.reshape(self.classes, self.dimensions) - query, axis=1)

    def _weighed(self, vector: Array) -> Array:
        """Return W_c times each class's part."""
        return np.repeat(self.class_weights, self.dimensions) * vector

    def _weighed_by_class(self, signal: Array) -> Array:
        """Return W_c v_c (n, d) of everyone's class."""
        return self._weighed(signal).reshape(self.classes, self.dimensions)[self.codes]

    @property
    def _divisors(self) -> Array:
        return np.where(self.weights > 0, self.weights, 1.0)[:, None]
