"""Nearest centroid bound to people, as a `Training`: everything in closed form, with NumPy alone.

Centroids minimise R(μ) = Σ_i w̄_i ½ ‖x_i − μ_{y_i}‖², so with W_c = Σ_{i∈c} w̄_i

    ∇R = W_c (μ_c − mean_c)        H = diag(W_c) ⊗ I        s_i = v_{y_i}ᵀ(μ_{y_i} − x_i)        ∇_x s_i = −v_{y_i}.

θ is all centroids, class after class. A class that has nobody leaves its own centroid free: a fit keeps it as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.centroid.nearest_centroid import Centroids, goal_loss
from oar.models.training import ALL, Array, Fit, RowsTraining, Some
from oar.people import Population


class CentroidTraining(RowsTraining):
    """Implements `Training` for nearest centroid."""

    def __init__(self, model: Any, people: Population) -> None:
        features = np.ascontiguousarray(people.features, dtype=np.float64)
        self.targets, weights = people.class_rows(), people.row_weights
        self.shape = (self.targets.shape[1], features.shape[1])
        super().__init__(model, features, weights / weights.sum(), self.shape[0] * self.shape[1])
        self.class_weights = self.weights @ self.targets

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Which classes (k,) nobody of any weight has: their centroids stay where they are."""
        return ~(self.class_weights > 0)

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Return the class means; a class that nobody has keeps the centroid that it starts from."""
        self.passes += 1
        shares = self.weights[:, None] * self.targets / np.where(self.absent, 1.0, self.class_weights)
        means = np.where(self.absent[:, None], start.reshape(self.shape), shares.T @ features)
        return Fit(means.ravel(), features, 0.0, bool(np.isfinite(means).all()))

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return R and ∇R."""
        self.passes += 1
        centroids, each = parameters.reshape(self.shape), self.weights[:, None] * self.targets
        squares = ((features[:, None, :] - centroids) ** 2).sum(axis=2)
        slope = self.class_weights[:, None] * centroids - each.T @ features
        return 0.5 * float((each * squares).sum()), slope.ravel()

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return H times a direction."""
        return (self.class_weights[:, None] * direction.reshape(self.shape)).ravel()

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with H v = right."""
        given = right.reshape(self.shape)
        if given[self.absent].any():
            raise NumericsError("refit: a class that nobody has leaves its centroid free, so nothing moves it.")
        return (given / np.where(self.absent, 1.0, self.class_weights)[:, None]).ravel()

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i = −v_{y_i} for everyone, (n, d), or (n, r) of `columns` (r,)."""
        self.passes += 1
        found = -self.targets @ signal.reshape(self.shape)
        return found[:, columns]

    def contributing(self, targets: Array, weights: Array) -> CentroidTraining:
        """Return the same training for other targets (n, k) and weights (n,) that sum to 1."""
        other: CentroidTraining = super().contributing(targets, weights)
        other.targets, other.class_weights = targets, weights @ targets
        return other

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return everyone's s_i (n,), if its class were that row of `targets`."""
        self.passes += 1
        centroids, along = parameters.reshape(self.shape), signal.reshape(self.shape)
        return (targets * ((along * centroids).sum(axis=1) - features @ along.T)).sum(axis=1)

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return −Σ_c t_c log p(c | x†) for the shares t of `target`, and its gradients.

        With L = Σ_c t_c d_c + log Σ_c e^{−d_c}: ∂L/∂d_c = t_c − p_c, and ∇_{μ_c} d_c = (μ_c − x†)/d_c, taken to be 0
        where they meet.
        """
        offsets = parameters.reshape(self.shape) - query
        distances = np.linalg.norm(offsets, axis=1)
        likelihood = np.exp(distances.min() - distances)
        slopes = target - likelihood / likelihood.sum()
        pulls = (slopes / np.where(distances > 0, distances, 1.0))[:, None] * offsets
        loss = sum(target[code] * goal_loss(distances, int(code)) for code in np.flatnonzero(target))
        return float(loss), pulls.ravel(), -pulls.sum(axis=0)

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return −‖x† − μ_c‖ for every class."""
        return -np.linalg.norm(parameters.reshape(self.shape) - query, axis=1)

    def flat(self, parameters: Centroids) -> Array:
        """Return the model's own centroids as one vector θ."""
        return parameters.positions.ravel()

    def parameters(self, flat: Array) -> Centroids:
        """Return θ as the model's own centroids; how large numbers are is told by the people as they are."""
        positions = np.array(flat).reshape(self.shape)
        large = self.weights @ np.abs(self._features).max(axis=1)
        sizes = np.maximum(large, np.abs(positions).max(axis=1))
        return Centroids(positions, self.class_weights * self.size, sizes)
