"""Nearest centroid with other labels and weights: every single change's loss is known exactly, all of them at once.

A flip of person i from class a to class c moves two centroids, and a leaver one:

    μ_a → (S_a − w x_i) / (W_a − w)        μ_c → (S_c + w x_i) / (W_c + w)

so the losses of all n·k changes take O(n·k·(d + k)) arithmetic, and nothing has to be shortlisted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.models.centroid.nearest_centroid import goal_loss
from oar.problem import Problem
from oar.solvers.discrete.ground import Changes, applied, given_rows, given_weights

Array = NDArray[np.float64]


class CentroidGround:
    """People of some classes, moved, on which single changes are tried."""

    exact = True

    def __init__(self, problem: Problem, moves: Array | None) -> None:
        """Keep where everybody stands, seen from the query."""
        features = np.asarray(problem.people.features, dtype=np.float64)
        self._offsets = (features if moves is None else features + moves) - problem.query_features
        self._rows, self._weights, self._goal = given_rows(problem), given_weights(problem), problem.goal
        self.refits = 0

    def loss(self, changes: Changes) -> float:
        """Return the query's loss with these changes; infinite where a class is left empty."""
        self.refits += 1
        rows, weights = applied(changes, self._rows, self._weights)
        sums, totals = self._class_sums(rows, weights)
        if not (totals > 0).all():
            return np.inf
        distances = np.linalg.norm(sums / totals[:, None], axis=1)
        return float(goal_loss(distances, self._goal))

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) losses after each single change, the last column for leaving."""
        self.refits += 1
        rows, weights = applied(changes, self._rows, self._weights)
        sums, totals = self._class_sums(rows, weights)
        size, classes = rows.shape
        own = rows.argmax(axis=1)
        everyone = np.arange(size)
        safe = np.where(totals > 0, totals, 1.0)
        distances = np.tile(np.linalg.norm(sums / safe[:, None], axis=1), (size, 1))
        # Without person i its own class's mean is elsewhere.
        rest = totals[own] - weights
        weighted = weights[:, None] * self._offsets
        without = (sums[own] - weighted) / np.where(rest > 0, rest, np.nan)[:, None]
        distances[everyone, own] = np.linalg.norm(without, axis=1)
        found = np.empty((size, classes + 1))
        with np.errstate(invalid="ignore"):
            found[:, -1] = goal_loss(distances, self._goal)
            for code in range(classes):
                changed = distances.copy()
                joined = (sums[code] + weighted) / (totals[code] + weights)[:, None]
                changed[:, code] = np.where(own == code, np.nan, np.linalg.norm(joined, axis=1))
                found[:, code] = goal_loss(changed, self._goal)
        return np.where(np.isfinite(found), found, np.inf)

    def _class_sums(self, rows: Array, weights: Array) -> tuple[Array, Array]:
        shares = weights[:, None] * rows
        return shares.T @ self._offsets, shares.sum(axis=0)
