"""Derivatives of the deployed model as actors see it, for features in their own units.

    predicted the classes of many people
    goal      L(θ; x†, g) and ∇_θ L of one person
    slopes    L and ∇_x L, for many people with the same goal
    gradient  Σ_i w_i ∇_θ ℓ(θ; x_i, y_i)
    scores    s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) and ∇_x s_i
    influence v = H⁻¹ g, with H the curvature of the risk on some people at θ

Nearest centroid and linear models have closed forms in NumPy; JAX differentiates every other model. Nearest centroid's
training loss is ½‖x − μ_y‖², whose minimum is the class means: ∇_{μ_y} ℓ = μ_y − x, H = diag(W_c/W) ⊗ I. A scaler is
constant here: derivatives do not include the effect of members on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import OptionError
from oar.models import Centroids, Differentiable, Scaled
from oar.models.centroid.nearest_centroid import goal_loss
from oar.models.linear.losses import Linear, LinearScore
from oar.worlds.actors.common import refuse_values
from oar.worlds.deployed.autodiff import AutodiffDeployed
from oar.worlds.people.crowds import Data
from oar.worlds.protocol import Array, Rows


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


@dataclass(frozen=True, eq=False)
class CentroidDeployed:
    """θ is the centroids (k, d); with d_c = ‖x − μ_c‖ and p = softmax(−d), ∂L/∂d_c = [c = g] − p_c."""

    positions: Array

    def _pulls(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L (m,), and (∂L/∂d_c) (x − μ_c)/d_c as (m, k, d); 0 where a centroid is met."""
        offsets = rows[:, None, :] - self.positions
        distances = np.linalg.norm(offsets, axis=2)
        shares = np.exp(distances.min(axis=1, keepdims=True) - distances)
        slopes = -shares / shares.sum(axis=1, keepdims=True)
        slopes[:, code] += 1.0
        factors = np.divide(slopes, distances, out=np.zeros_like(slopes), where=distances > 0)
        return goal_loss(distances, code), factors[..., None] * offsets

    def predicted(self, rows: Array) -> Rows:
        """Return the nearest."""
        return np.linalg.norm(rows[:, None, :] - self.positions, axis=2).argmin(axis=1)

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L and ∂L/∂μ, which points opposite to the query's gradient."""
        losses, pulls = self._pulls(query[None], code)
        return float(losses[0]), -pulls[0].ravel()

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L and ∇_x L."""
        losses, pulls = self._pulls(rows, code)
        return losses, pulls.sum(axis=1)

    def gradient(self, people: Data) -> Array:
        """Return Σ w (μ_y − x), class by class."""
        found = np.zeros_like(self.positions)
        np.add.at(found, people.codes, people.weights[:, None] * (self.positions[people.codes] - people.features))
        return found.ravel()

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return v_yᵀ(μ_y − x) and −v_y."""
        own = signal.reshape(self.positions.shape)[codes]
        return np.einsum("md,md->m", own, self.positions[codes] - rows), -own

    def influence(self, pull: Array, people: Data) -> Array:
        """Return g_c W / W_c; 0 for an empty class."""
        totals = np.bincount(people.codes, people.weights, minlength=len(self.positions))[:, None]
        scale = np.divide(totals.sum(), totals, out=np.zeros_like(totals), where=totals > 0)
        return (pull.reshape(self.positions.shape) * scale).ravel()


@dataclass(frozen=True, eq=False)
class LinearDeployed:
    """θ is (W, b), (o, d + 1). With x̃ = (x, 1), a = ∂φ/∂z and B = ∂²φ/∂z²: ∇_θ ℓ = a ⊗ x̃, H = Σ w̄ B ⊗ x̃x̃ᵀ + ∇²Ω."""

    model: Linear
    matrix: Array
    classes: int

    def _targets(self, codes: Any) -> Array:
        return self.model.target_rows(np.eye(self.classes)[codes])

    def _outputs(self, rows: Array) -> Array:
        return self.matrix[:, :-1] @ rows.T + self.matrix[:, -1:]

    def predicted(self, rows: Array) -> Rows:
        """Return the largest logit's class, or the sign of a single one."""
        outputs = self._outputs(rows)
        return outputs.argmax(axis=0) if len(outputs) > 1 else (outputs[0] > 0).astype(np.intp)

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return φ and a ⊗ x̃."""
        outputs, target = self._outputs(query[None])[:, 0], self._targets([code])[0]
        by_outputs = self.model.slopes(outputs, target)
        return float(self.model.output_loss(outputs, target)), np.outer(by_outputs, np.append(query, 1.0)).ravel()

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return φ and Wᵀa."""
        outputs, targets = self._outputs(rows), self._targets(np.full(len(rows), code)).T
        return self.model.output_loss(outputs, targets), self.model.slopes(outputs, targets).T @ self.matrix[:, :-1]

    def gradient(self, people: Data) -> Array:
        """Return Σ w a ⊗ x̃."""
        by_outputs = self.model.slopes(self._outputs(people.features), self._targets(people.codes).T) * people.weights
        return (by_outputs @ _with_ones(people.features)).ravel()

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return aᵀu and Vᵀa + WᵀBu."""
        return LinearScore(self.model, self.matrix.ravel(), signal)(rows, self._targets(codes))

    def influence(self, pull: Array, people: Data) -> Array:
        """Return the shortest v that solves H v = g, without directions that move no prediction."""
        outputs, width = len(self.matrix), self.matrix.shape[1]
        rows, shares = _with_ones(people.features), people.weights / people.weights.sum()
        bends = self.model.curvature(self._outputs(people.features), self._targets(people.codes).T) * shares
        hessian = np.empty((outputs, width, outputs, width))
        for one in range(outputs):
            for other in range(outputs):
                hessian[one, :, other, :] = (rows.T * bends[one, other]) @ rows
        flat = hessian.reshape(pull.size, pull.size)
        penalised = np.ones(width)
        penalised[-1] = float(self.model.penalise_intercept)
        flat[np.diag_indices(pull.size)] += self.model.l2 * np.tile(penalised, outputs)
        return np.asarray(np.linalg.lstsq(flat, pull, rcond=None)[0], dtype=np.float64)


def _with_ones(rows: Array) -> Array:
    return np.column_stack([rows, np.ones(len(rows))])


DeployedModel = CentroidDeployed | LinearDeployed | AutodiffDeployed | _ScaledDeployed
