"""Nearest centroid bound to people who are not in memory: `CentroidTraining`, whose sums are one pass each."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.centroid.nearest_centroid import Centroids
from oar.models.centroid.training import CentroidTraining
from oar.models.training import ALL, Array, Fit, RowsTraining, Some
from oar.people.parts.population import StreamedPopulation
from oar.people.parts.rows import everyones_features, everyones_targets, products


class CentroidsInParts(CentroidTraining):
    """Implements `Training`; features, moves and targets are rows in parts."""

    def __init__(self, model: Any, people: StreamedPopulation) -> None:
        first: Centroids = model.fit(people)
        weights = people.row_weights
        self.targets: Any = everyones_targets(people, regresses=False)
        self.shape = first.positions.shape
        features: Any = everyones_features(people)
        RowsTraining.__init__(self, model, features, weights / weights.sum(), first.positions.size)
        self.class_weights = first.class_weights / first.class_weights.sum()
        self._first = first

    def moved(self, moves: Any, columns: Some = ALL) -> Any:
        """Return everyone's features after the moves."""
        return self._features if moves is None else self._features + moves

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Return the class means: one pass."""
        self.passes += 1
        means = products(features, self.targets * self.weights[:, None])
        means = means / np.where(self.absent, 1.0, self.class_weights)[:, None]
        means = np.where(self.absent[:, None], start.reshape(self.shape), means)
        return Fit(means.ravel(), features, 0.0, bool(np.isfinite(means).all()))

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return R and ∇R."""
        self.passes += 1
        centroids, each = parameters.reshape(self.shape), self.targets * self.weights[:, None]
        norms = (centroids**2).sum(axis=1)
        squares = (features**2).sum(axis=1)[:, None] - 2 * (features @ centroids.T) + norms
        slope = self.class_weights[:, None] * centroids - products(features, each)
        return 0.5 * float((each * squares).sum()), slope.ravel()

    def parameters(self, flat: Array) -> Centroids:
        """Return θ as the model's own centroids; how large numbers are is told by the people as they are."""
        positions = np.array(flat).reshape(self.shape)
        sizes = np.maximum(self._first.sizes, np.abs(positions).max(axis=1))
        return Centroids(positions, self.class_weights * self.size, sizes)
