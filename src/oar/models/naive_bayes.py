"""Gaussian naive Bayes: each class has a share of the people, and in each feature a mean and a variance.

    p(x, y = c) = π_c Π_j N(x_j; μ_cj, σ²_cj)

Training minimises −log p(x, y), which has a closed form: shares, means and variances of the classes. The query is
judged by −log p(goal | x). With soft labels a person counts for each class by its share.

As in scikit-learn, variances are smoothed: ε = var_smoothing · (largest variance of any feature) is added to each, with
the plain variance of all who are there, whatever they weigh. In terms of the loss that is a term ε / 2σ² for each class
and feature, so that training stays the minimum of a sum over people, given ε.

Parameters are means, log σ² and log π up to a constant: unbounded, and with a Hessian that is positive definite at the
minimum: in the units of (μ_cj, log σ²_cj) it is diag(π_c / σ²_cj, π_c / 2).

**ε follows the moves**, as scikit-learn's does: θ minimises R(θ; X, ε) with ε = var_smoothing · max_j Var_j(X). With
v = H⁻¹∇_θ L, λ = log σ² and N_c = Σ w̄ y_c,

    dL/dε = −vᵀ ∂_ε∇_θ R = ½ Σ_cj N_c v_λcj / σ²_cj

and with j the feature of the largest variance and m its mean, a member's score gains

    −dL/dε · var_smoothing ((x_ij − m)² − Var_j) / (n w̄_i).

Where two features tie for the largest variance there is a kink, and the first of them is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oar.checks import check_not_negative, with_near_names
from oar.errors import DataError
from oar.models.autodiff.training import AutodiffTraining
from oar.models.differentiable import Differentiable
from oar.models.training import ALL, Array, Some


class Smoothing(NamedTuple):
    """ε, the feature whose variance it is a share of, and that feature's mean and variance."""

    added: float
    feature: int
    mean: float
    variance: float

    @classmethod
    def of(cls, features: Array, weights: Array, share: float) -> Smoothing:
        """Return what scikit-learn adds to every variance: a share of the largest among all who weigh something."""
        there = features if (weights > 0).all() else features[weights > 0]
        variances = there.var(axis=0, dtype=np.float64)
        widest = int(variances.argmax())
        largest = float(variances[widest])
        return cls(share * largest, widest, float(there[:, widest].mean(dtype=np.float64)), largest)


@with_near_names
@dataclass(frozen=True)
class GaussianNaiveBayes(Differentiable):
    """The same as scikit-learn's `GaussianNB(var_smoothing=var_smoothing)`, weights and soft labels included.

    Args:
        var_smoothing: share of the largest feature variance that is added to every variance.
        smoothing: ε itself; None for the share of the data as they are at each refit. Where it is given, var_smoothing
            has nothing to do.
    """

    var_smoothing: float = 1e-9
    smoothing: float | None = None
    name = "gaussian-naive-bayes"
    convex = True
    equivariant = True
    holds_class_means = True

    def __post_init__(self) -> None:
        check_not_negative("var_smoothing", self.var_smoothing)
        if self.smoothing is not None:
            check_not_negative("smoothing", self.smoothing)

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return standard normal classes of equal size (never trained from: there is a closed form)."""
        shape = (outputs, dimensions)
        return {"mean": np.zeros(shape), "log_variance": np.zeros(shape), "log_share": np.zeros(outputs)}

    def bound(self, features: Any, targets: Any, weights: Any) -> Any:
        """Bind the model to features (n, d), class shares (n, k) and weights (n,) that sum to 1."""
        return GaussianTraining(self, features, targets, weights)

    def smoothed(self, features: Array, weights: Array) -> GaussianNaiveBayes:
        """Return the model with the ε that these people give it."""
        if self.smoothing is not None:
            return self
        return replace(self, smoothing=Smoothing.of(features, weights, self.var_smoothing).added)

    def closed_form(self, features: Array, targets: Array, weights: Array) -> Any:
        """Return the weighted shares, means and smoothed variances of the classes."""
        counts = class_weights(targets, weights, self.name)
        each = weights[:, None] * targets  # (n, k)
        mean = each.T @ features / counts[:, None]
        variance = np.empty_like(mean)
        for code, (share, count) in enumerate(zip(each.T, counts, strict=True)):
            # A second pass takes off the rounding of sums of large numbers.
            mean[code] += share @ (features - mean[code]) / count
            variance[code] = share @ (features - mean[code]) ** 2 / count + (self.smoothing or 0.0)
        if not (variance > 0).all():
            code, feature = np.argwhere(~(variance > 0))[0]
            # A share of the largest variance is nothing where nobody differs from anybody.
            lack = "smoothing" if self.smoothing is not None and self.var_smoothing > 0 else "var_smoothing"
            raise DataError(
                f"features: need some variance in every class, got none in feature {feature} of class {code}; "
                f"drop that feature or give {lack} a positive value."
            )
        log_share = np.log(counts)
        return {"mean": mean, "log_variance": np.log(variance), "log_share": log_share - log_share.mean()}

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return log p(x, y = c) for every class."""
        import jax

        squares = (features - parameters["mean"]) ** 2 / jax.numpy.exp(parameters["log_variance"])
        normals = -0.5 * (math.log(2 * math.pi) + parameters["log_variance"] + squares).sum(axis=-1)
        return jax.nn.log_softmax(parameters["log_share"]) + normals

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return −Σ_c y_c [log p(x, y = c) − Σ_j ε / 2σ²_cj]."""
        import jax.numpy as jnp

        smoothing = 0.0 if self.smoothing is None else self.smoothing
        smoothed = 0.5 * smoothing * jnp.exp(-parameters["log_variance"]).sum(axis=-1)
        return target @ (smoothed - self.outputs(parameters, features))

    def gauge(self, parameters: Any) -> Any:
        """Return ½ (Σ log π)²: a constant added to all of them changes no share."""
        return 0.5 * parameters["log_share"].sum() ** 2

    def query_loss(self: Differentiable, parameters: Any, features: Any, target: Any) -> Any:
        """Return −Σ_c y_c log p(c | x), of any model whose outputs are logits."""
        import jax

        return -target @ jax.nn.log_softmax(self.outputs(parameters, features))


def class_weights(targets: Array, weights: Array, name: str) -> Array:
    """Return Σ_i w̄_i y_ic for every class; raise a DataError unless each is positive."""
    counts = weights @ targets
    if (targets < 0).any() or not (counts > 0).all():
        worst = int(np.argmin(counts))
        raise DataError(
            f"targets: {name} needs shares of classes, none negative and each class with some weight, "
            f"got a total of {counts[worst]:.3g} for class {worst}."
        )
    return counts


class GaussianTraining(AutodiffTraining):
    """Implements `Training` for `GaussianNaiveBayes`."""

    model: GaussianNaiveBayes
    _last: tuple[Any, ...] = (None, None, None)  # of the features that were asked about last

    def _plain(self, features: Any) -> Array:
        return np.asarray(features).reshape(-1, self.dimensions)[: self.size]

    def smoothing(self, features: Any) -> Smoothing:
        """Return ε of moved people, and where it comes from."""
        last = self._last
        if last[0] is not features or last[1] is not self.weights:
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
