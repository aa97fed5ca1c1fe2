"""Derivatives of the deployed model as actors see it, for features in their own units.

Nearest centroid and linear models have closed forms in NumPy; JAX differentiates every other model. Nearest centroid's
training loss is ½‖x − μ_y‖², whose minimum is the class means: ∇_{μ_y} ℓ = μ_y − x, H = diag(W_c/W) ⊗ I. A scaler is
constant here: derivatives do not include the effect of members on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from oar.errors import OptionError
from oar.models import Centroids, Differentiable, Scaled
from oar.models.linear.losses import Linear
from oar.worlds.actors.common import refuse_values
from oar.worlds.deployed.autodiff import AutodiffDeployed
from oar.worlds.deployed.closed_form import CentroidDeployed, LinearDeployed
from oar.worlds.people.crowds import Data
from oar.worlds.protocol import Array, Rows


class DeployedModel(Protocol):
    """A deployed model with its parameters. Classes are codes."""

    def predicted(self, rows: Array) -> Rows:
        """Return class codes (m,)."""

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L(θ; x†, g) and ∇_θ L (p,) of one person."""

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L (m,) and ∇_x L (m, d) of many people with the same goal."""

    def gradient(self, people: Data) -> Array:
        """Return Σ_i w_i ∇_θ ℓ(θ; x_i, y_i) (p,)."""

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) (m,) and ∇_x s_i (m, d)."""

    def influence(self, pull: Array, people: Data) -> Array:
        """Return v = H⁻¹ g (p,) for g = `pull`, with H the curvature of the risk on some people at θ."""


def deployed(model: Any, parameters: Any, classes: int, people: Data | None = None) -> DeployedModel:
    """Return the model with its derivatives.

    A linear model behind a scaler is deployed as one matrix; the scaler was fitted to `people`.
    """
    refuse_values(model)
    match model, parameters:
        case _, Centroids():
            return CentroidDeployed(parameters.positions)
        case Scaled(), _:
            return _scaled(model, parameters, classes, people)
        case Linear(), _:
            return LinearDeployed(model, np.asarray(parameters, dtype=np.float64), classes)
        case Differentiable(), _:
            return AutodiffDeployed(model, parameters, classes)
    raise OptionError(
        f"model: this actor needs nearest centroid or one of oar.models to be deployed, got {type(model).__name__}."
    )


@dataclass(frozen=True, eq=False)
class _ScaledDeployed:
    """A model that sees e = (x − centres) / scales: derivatives by x are those by e, divided by the scales."""

    inner: DeployedModel
    centres: Array
    scales: Array

    def _seen(self, rows: Array) -> Array:
        return (rows - self.centres) / self.scales

    def _seen_people(self, people: Data) -> Data:
        return Data(self._seen(people.features), people.codes, people.weights)

    def predicted(self, rows: Array) -> Rows:
        return self.inner.predicted(self._seen(rows))

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        return self.inner.goal(self._seen(query), code)

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        losses, slopes = self.inner.slopes(self._seen(rows), code)
        return losses, slopes / self.scales

    def gradient(self, people: Data) -> Array:
        return self.inner.gradient(self._seen_people(people))

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        values, slopes = self.inner.scores(self._seen(rows), codes, signal)
        return values, slopes / self.scales

    def influence(self, pull: Array, people: Data) -> Array:
        return self.inner.influence(pull, self._seen_people(people))


def _scaled(model: Scaled, parameters: Any, classes: int, people: Data | None) -> _ScaledDeployed:
    """Return the model behind its scaler."""
    if not model.linear:
        inner = deployed(model.model, parameters.model, classes)
        return _ScaledDeployed(inner, np.asarray(parameters.centres), np.asarray(parameters.scales))
    assert people is not None
    shares = people.weights / people.weights.sum()
    centres = shares @ people.features
    scales = np.sqrt(shares @ (people.features - centres) ** 2)
    scales[scales <= 1e-12 * np.abs(centres)] = 1.0
    # z = W x + b = (W s) e + (b + W c)
    matrix = np.column_stack([parameters[:, :-1] * scales, parameters[:, -1] + parameters[:, :-1] @ centres])
    return _ScaledDeployed(deployed(model.model, matrix, classes), centres, scales)
