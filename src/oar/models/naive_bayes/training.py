"""Gaussian naive Bayes bound to data, with an ε that follows the moves as scikit-learn's does.

θ minimises R(θ; X, ε), whose ε = var_smoothing · max_j Var_j(X) is the plain variance of all n who are there. With
v = H⁻¹∇_θ L, λ = log σ² and N_c = Σ w̄ y_c,

    dL/dε = −vᵀ ∂_ε∇_θ R = ½ Σ_cj N_c v_λcj / σ²_cj

and with j the feature of the largest variance and m its mean, a member's score gains

    −dL/dε · var_smoothing ((x_ij − m)² − Var_j) / (n w̄_i).

Where two features tie for the largest variance there is a kink, and the first of them is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.autodiff.training import AutodiffTraining
from oar.models.naive_bayes.gaussian import GaussianNaiveBayes, Smoothing
from oar.models.training import ALL, Array, Some


class GaussianTraining(AutodiffTraining):
    """Implements `Training` for `GaussianNaiveBayes`."""

    model: GaussianNaiveBayes
    _last: tuple[Any, Array, Smoothing] | None = None  # of the features that were asked about last

    def _plain(self, features: Any) -> Array:
        return np.asarray(features).reshape(-1, self.dimensions)[: self.size]

    def smoothing(self, features: Any) -> Smoothing:
        """Return ε of moved people, and where it comes from."""
        last = self._last
        if last is None or last[0] is not features or last[1] is not self.weights:
            found = Smoothing.of(self._plain(features), self.weights, self.model.var_smoothing)
            last = self._last = features, self.weights, found
        return last[2]

    def _settings(self, features: Any) -> dict[str, Any]:
        fixed = self.model.smoothing
        return {"smoothing": self.smoothing(features).added if fixed is None else fixed}

    def widening(self, parameters: Array, signal: Array) -> float:
        """Return var_smoothing · dL/dε / n: what a unit of squared distance from the mean does, in that feature."""
        if self.model.smoothing is not None:
            return 0.0
        own, along = self.parameters(parameters), self.parameters(signal)
        counts = self.weights @ self.targets
        pull = 0.5 * float(counts @ (along["log_variance"] * np.exp(-own["log_variance"])).sum(axis=1))
        return self.model.var_smoothing * pull / int((self.weights > 0).sum())

    def _by_weight(self, rate: float) -> Array:
        """Return a rate over everyone's weight (n,), 0 for those who have left."""
        there = self.weights > 0
        return np.where(there, rate / np.where(there, self.weights, 1.0), 0.0)

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return s (n,) for everyone, if its class shares were that row of `targets` (n, k)."""
        found = super().scores(parameters, features, signal, targets)
        rate = self.widening(parameters, signal)
        if rate:
            by = self.smoothing(features)
            spread = (self._plain(features)[:, by.feature] - by.mean) ** 2 - by.variance
            found = found - self._by_weight(rate) * spread
        return found

    def score_gradients(self, parameters: Array, features: Any, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s for everyone, in these columns."""
        found = super().score_gradients(parameters, features, signal)
        rate = self.widening(parameters, signal)
        if rate:
            by, found = self.smoothing(features), found.copy()
            found[:, by.feature] -= 2 * self._by_weight(rate) * (self._plain(features)[:, by.feature] - by.mean)
        return found[:, columns]
