"""GaussianNB: shares, means and variances of classes, which are an explicit function of the people.

With N_c = Σ w̄ y_c, μ_c = Σ w̄ y_c x / N_c and σ²_c = Σ w̄ y_c (x − μ_c)² / N_c + ε, θ = (μ, σ², log π) is no minimum
that has to be searched: θ = S(people), as if training minimised ½‖θ − S‖². So H = I and a signal is v = g = ∇_θ L.
When a person's mass grows by dm at (x, y), S changes by

    dμ_c = y_c (x − μ_c) / N_c dm      dσ²_c = y_c ((x − μ_c)² − σ²_c + ε) / N_c dm      d log π_c = y_c / N_c dm

(log π up to a constant; nothing where priors are given), and s is minus what that does to the query's loss:

    s(x, y) = −Σ_c y_c / N_c [v_μc·(x − μ_c) + v_σ²c·((x − μ_c)² − σ²_c + ε) + v_πc] − e(x)

ε = var_smoothing · max_j Var_j, the plain variance of all who are there, follows the moves: with j the feature of the
largest variance and m its mean, and n people there, e(x_i) = v_ε var_smoothing ((x_ij − m)² − Var_j) / (n w̄_i), where
v_ε = Σ v_σ². Both are differentiated as they stand. Where two features tie for the largest variance there is a kink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.estimators.cores.protocol import Array, Core
from oar.estimators.rows import up_to_last
from oar.estimators.twin import NO_FRONT, TwinParameters
from oar.models.naive_bayes import Smoothing, class_weights
from oar.models.training import ALL, Fit, RowsTraining, Some
from oar.people import Population


class Gaussians(NamedTuple):
    """The parameters that are learned: means and variances (k, d), and log shares (k,)."""

    means: Array
    variances: Array
    log_shares: Array

    @classmethod
    def of(cls, flat: Array, classes: int) -> Gaussians:
        """Read them from one vector."""
        means, variances = flat[:-classes].reshape(2, classes, -1)
        return cls(means, variances, flat[-classes:])

    def flat(self) -> Array:
        """Return them as one vector."""
        return np.concatenate([self.means.ravel(), self.variances.ravel(), self.log_shares])

    def outputs(self, rows: Array) -> Array:
        """Return log p(x, y = c) for rows (m, d): (m, k)."""
        away = (rows[:, None] - self.means) ** 2 / self.variances
        return self.log_shares - 0.5 * (np.log(2 * np.pi * self.variances) + away).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class GaussianCore(Core):
    """GaussianNB with priors, given or not, and var_smoothing."""

    var_smoothing: float
    priors: Array | None = None
    name = "GaussianNB"
    equivariant = True
    smooth = False  # where another feature begins to have the largest variance

    @classmethod
    def of(cls, estimator: Any) -> GaussianCore:
        """Read the settings of a GaussianNB."""
        priors = None if estimator.priors is None else np.asarray(estimator.priors, dtype=np.float64)
        return cls(float(estimator.var_smoothing), priors)

    def _shares(self, people: Population) -> Array | None:
        """Return given priors (k,) in the order of the people's classes; the estimator's are in that of the labels."""
        if self.priors is None:
            return None
        labels = np.array(people.classes)
        if self.priors.shape != labels.shape or (self.priors < 0).any() or not np.isclose(self.priors.sum(), 1.0):
            raise DataError(
                f"priors: must be {labels.size} shares that add up to 1, one for each class, got {self.priors}."
            )
        return self.priors[np.searchsorted(np.unique(labels), labels)]

    def check(self, people: Population) -> None:
        """Raise where priors are not for these classes."""
        self._shares(people)

    def training(self, rows: Array, people: Population) -> GaussianCoreTraining:
        """Bind it, weights and all."""
        weights = people.row_weights
        return GaussianCoreTraining(self, rows, people.class_rows(), weights / weights.sum(), self._shares(people))

    def read(self, fitted: Any, places: NDArray[np.intp]) -> Gaussians:
        """Return theta_, var_ and class_prior_, classes in the people's order."""
        order = np.argsort(places)
        with np.errstate(divide="ignore"):  # a prior may be 0
            return Gaussians(fitted.theta_[order], fitted.var_[order], np.log(fitted.class_prior_)[order])

    def own_parameters(self, training: GaussianCoreTraining, flat: Array) -> Gaussians:
        """Return flat parameters as `Gaussians`."""
        return Gaussians.of(flat, training.classes)

    def outputs(self, parameters: Gaussians, rows: Array) -> Array:
        """Return log p(x, y = c)."""
        return parameters.outputs(rows)

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp]) -> Array:
        """Return the estimator's own joint log probabilities, classes in the people's order."""
        last, seen = up_to_last(fitted, rows)
        return last.predict_joint_log_proba(seen)[:, np.argsort(places)]


class GaussianCoreTraining(RowsTraining):
    """Implements `Training`; θ is means, variances and log shares, one after the other."""

    def __init__(self, core: GaussianCore, features: Array, targets: Array, weights: Array, log: Array | None) -> None:
        """Keep the people; `log` are given priors (k,), None where they follow from who is there."""
        self.core, self.targets, self._priors, self.classes = core, targets, log, targets.shape[1]
        rows = np.asarray(features, dtype=np.float64)
        super().__init__(core, rows, weights, self.classes * (2 * rows.shape[1] + 1))

    def start(self) -> Array:
        """Start from standard normal classes; a fit does not depend on it."""
        shape = self.classes, self.dimensions
        return Gaussians(np.zeros(shape), np.ones(shape), np.zeros(self.classes)).flat()

    def _smoothing(self, features: Array) -> Smoothing:
        """Return what is added to every variance."""
        return Smoothing.of(features, self.weights, self.core.var_smoothing)

    def _learned(self, features: Array) -> Gaussians:
        """Return S: one pass."""
        self.passes += 1
        counts = class_weights(self.targets, self.weights, self.core.name)
        means, variances = np.empty((2, self.classes, self.dimensions))
        for code, share in enumerate((self.weights[:, None] * self.targets).T):
            some = np.flatnonzero(share)
            rows, own = features[some], share[some] / counts[code]
            means[code] = own @ rows
            means[code] += own @ (rows - means[code])  # takes off the rounding of sums of large numbers
            variances[code] = own @ (rows - means[code]) ** 2
        variances += self._smoothing(features).added
        if not (variances > 0).all():
            code, feature = np.argwhere(~(variances > 0))[0]
            raise DataError(
                f"features: need some variance in every class, got none in feature {feature} of class {code}; drop "
                "that feature, or give GaussianNB a larger var_smoothing."
            )
        with np.errstate(divide="ignore"):
            return Gaussians(means, variances, np.log(counts if self._priors is None else self._priors))

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Count and average; there is nothing to iterate."""
        return Fit(self._learned(features).flat(), features, 0.0, True)

    def parameters(self, flat: Array) -> TwinParameters:
        """Return flat parameters as the twin has them, without a front."""
        return TwinParameters(NO_FRONT, Gaussians.of(flat, self.classes))

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return ½‖θ − S‖² and θ − S."""
        away = parameters - self._learned(features).flat()
        away = np.where(np.isfinite(away), away, 0.0)  # of a class whose prior is 0
        return 0.5 * float(away @ away), away

    def _there(self) -> tuple[Array, int]:
        """Return 1 / w̄_i (n,), 0 for those who have left, and how many are there."""
        there = self.weights > 0
        return np.where(there, 1 / np.where(there, self.weights, 1.0), 0.0), int(there.sum())

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return s (n,) for everyone, if its class shares were that row of `targets`."""
        self.passes += 1
        own, along = Gaussians.of(parameters, self.classes), Gaussians.of(signal, self.classes)
        widened, counts = self._smoothing(features), self.weights @ self.targets
        found = np.zeros(self.size)
        for code, share in enumerate(targets.T):
            away = features - own.means[code]
            gained = away @ along.means[code] + (away**2 - own.variances[code] + widened.added) @ along.variances[code]
            if self._priors is None:
                gained = gained + along.log_shares[code]
            found -= share / counts[code] * gained
        inverse, number = self._there()
        spread = (features[:, widened.feature] - widened.mean) ** 2 - widened.variance
        return found - float(along.variances.sum()) * self.core.var_smoothing * spread * inverse / number

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s (n, d), in these columns."""
        self.passes += 1
        own, along = Gaussians.of(parameters, self.classes), Gaussians.of(signal, self.classes)
        widened, shares = self._smoothing(features), self.targets / (self.weights @ self.targets)
        # −Σ_c y_c / N_c (v_μc + 2 v_σ²c (x − μ_c)), with the sums over classes taken first
        found = shares @ (2 * along.variances * own.means - along.means) - 2 * (shares @ along.variances) * features
        inverse, number = self._there()
        pull = 2 * float(along.variances.sum()) * self.core.var_smoothing / number
        found[:, widened.feature] -= pull * inverse * (features[:, widened.feature] - widened.mean)
        return found[:, columns]

    def contributing(self, targets: Array, weights: Array) -> GaussianCoreTraining:
        """Return the same training for other class shares (n, k) and weights (n,) that sum to 1."""
        other: GaussianCoreTraining = super().contributing(targets, weights)
        other.targets = targets
        return other

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L = log Σ e^z − yᵀz with z = log p(x†, c), and its gradients."""
        own = Gaussians.of(parameters, self.classes)
        outputs = own.outputs(query[None])[0]
        total = float(np.logaddexp.reduce(outputs))
        named = target > 0  # 0 · ∞ is nothing
        pulls = (np.exp(outputs - total) - target)[:, None]
        away = query - own.means
        by_variance = 0.5 * (away**2 / own.variances - 1) / own.variances
        by_parameters = Gaussians(pulls * away / own.variances, pulls * by_variance, pulls[:, 0])
        by_query = -(pulls * away / own.variances).sum(axis=0)
        return total - float(target[named] @ outputs[named]), by_parameters.flat(), by_query

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return log p(x†, c) for every class."""
        return Gaussians.of(parameters, self.classes).outputs(query[None])[0]
