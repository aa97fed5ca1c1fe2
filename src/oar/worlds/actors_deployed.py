"""What an actor can differentiate in the model that is deployed: θ as it is, for features in their own units.

    predicted the classes of many people
    goal      L(θ; x†, g) and ∇_θ L
    slopes    L and ∇_x L, for many people with the same goal
    gradient  Σ_i w_i ∇_θ ℓ(θ; x_i, y_i)
    scores    s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) and ∇_x s_i
    influence v = H⁻¹ g, with H the curvature of the risk on some people at θ

Nearest centroid and linear models have closed forms in NumPy, every other model is differentiated by JAX. Of nearest
centroid the training loss is ½‖x − μ_y‖², whose minimum are the class means: ∇_{μ_y} ℓ = μ_y − x, H = diag(W_c/W) ⊗ I.
A scaler is taken as it stands: how members shift it is not part of what is differentiated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from oar.errors import NumericsError, OptionError
from oar.models import Centroids, Differentiable, Scaled
from oar.models.linear import Linear
from oar.models.nearest_centroid import goal_loss
from oar.models.score import AutodiffScore, LinearScore
from oar.worlds.actors_common import Data, refuse_values
from oar.worlds.parts import Array, Rows

FEWEST = 64  # rows of a pass: fewer would be compiled anew, and cost as much
SOLVED = 1e-6  # relative residual of v, which only ranks


class Deployed(Protocol):
    """A model with its parameters. Classes are by code."""

    def predicted(self, rows: Array) -> Rows:
        """Return class codes (m,)."""
        ...

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L and ∇_θ L (p,) of one person."""
        ...

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L (m,) and ∇_x L (m, d)."""
        ...

    def gradient(self, people: Data) -> Array:
        """Return Σ w ∇_θ ℓ (p,)."""
        ...

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return s (m,) and ∇_x s (m, d)."""
        ...

    def influence(self, pull: Array, people: Data) -> Array:
        """Return v (p,) for g = `pull`."""
        ...


def deployed(model: Any, parameters: Any, classes: int, people: Data | None = None) -> Deployed:
    """Return what can be differentiated.

    A linear model behind a scaler is deployed as one matrix; `people` are then those whom the scaler was fitted to.
    """
    refuse_values(model)
    if isinstance(parameters, Centroids):
        return CentroidDeployed(parameters.positions)
    if isinstance(model, Scaled):
        return _scaled(model, parameters, classes, people)
    if isinstance(model, Linear):
        return LinearDeployed(model, np.asarray(parameters, dtype=np.float64), classes)
    if isinstance(model, Differentiable):
        return AutodiffDeployed(model, parameters, classes)
    raise OptionError(
        f"model: this actor needs nearest centroid or one of oar.models to be deployed, got {type(model).__name__}."
    )


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
        """Return L and ∂L/∂μ: centroids are pulled the other way than the query."""
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
        """Return g_c W / W_c; 0 for a class that nobody is in."""
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
        """Return the shortest v that solves H v = g: directions that move no prediction stay out of it."""
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


class AutodiffDeployed:
    """Any other model, by JAX. People are padded to a power of two with some of no weight: few shapes are compiled."""

    def __init__(self, model: Differentiable, parameters: Any, classes: int) -> None:
        """Lay the parameters out flat."""
        import jax
        from jax.flatten_util import ravel_pytree

        self._model, self._classes = model, classes
        with jax.enable_x64(True):
            self._theta = np.asarray(ravel_pytree(parameters)[0], dtype=np.float64)

    def _targets(self, codes: Any) -> Array:
        return np.ascontiguousarray(self._model.target_rows(np.eye(self._classes)[codes]))

    def _run(self, kind: str, dimensions: int, outputs: int, *arguments: Any) -> Any:
        import jax

        from oar.models.autodiff_passes import compiled

        over_rows = {"slopes": _slopes, "logits": _logits}
        if kind in over_rows:
            run = _kept(over_rows[kind], self._model, dimensions, outputs)
        else:
            run = compiled(self._model, dimensions, outputs, kind)
        with jax.enable_x64(True):
            found = [np.array(part) for part in run(self._theta, {}, *arguments)]
        if not all(np.isfinite(part).all() for part in found):
            raise NumericsError(
                f"features: the loss of {self._model.name} and its gradients must be finite, got others; these "
                "features may lie where the loss is not differentiable, or too far from the data."
            )
        return found

    def predicted(self, rows: Array) -> Rows:
        """Return what the model's outputs stand for."""
        (found,) = self._run("logits", rows.shape[1], self._targets([0]).shape[1], rows[_padding(len(rows))])
        return np.array([self._model.predicted_class(row) for row in found[: len(rows)]], dtype=np.intp)

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L and ∇_θ L."""
        target = self._targets([code])[0]
        loss, pull, _ = self._run("goal", query.size, target.size, query, target)
        return float(loss), pull

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L and ∇_x L."""
        target = self._targets([code])[0]
        padded = rows[_padding(len(rows))]
        losses, slopes = self._run("slopes", rows.shape[1], target.size, padded, target)
        return losses[: len(rows)], slopes[: len(rows)]

    def gradient(self, people: Data) -> Array:
        """Return Σ w ∇_θ ℓ: the risk's gradient, less that of penalty and gauge, which is left where nobody weighs."""
        rows, targets, weights = self._padded(people)
        sizes = rows.shape[1], targets.shape[1]
        with_people = self._run("risk", *sizes, rows[None], targets[None], weights[None])[1]
        return with_people - self._run("risk", *sizes, rows[None], targets[None], 0.0 * weights[None])[1]

    def _padded(self, people: Data) -> tuple[Array, Array, Array]:
        places = _padding(len(people.features))
        weights = np.zeros(places.size)
        weights[: people.weights.size] = people.weights
        return people.features[places], self._targets(people.codes)[places], weights

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return s and ∇_x s."""
        return AutodiffScore(self._model, self._theta, signal)(rows, self._targets(codes))

    def influence(self, pull: Array, people: Data) -> Array:
        """Return H⁻¹g, or g itself where the risk does not bend upwards everywhere: then only a direction is left."""
        from oar.models.autodiff_training import AutodiffTraining
        from oar.models.training import Fit

        rows, targets, weights = self._padded(people)
        training = AutodiffTraining(self._model, rows, targets, weights / weights.sum())
        fit = Fit(self._theta, training.moved(None), 0.0, True)
        try:
            return training.solve(fit, pull, None, SOLVED)
        except NumericsError:
            return pull


@dataclass(frozen=True, eq=False)
class ScaledDeployed:
    """A model that sees e = (x − centres) / scales: derivatives by x are those by e, divided by the scales."""

    inner: Deployed
    centres: Array
    scales: Array

    def _seen(self, rows: Array) -> Array:
        return (rows - self.centres) / self.scales

    def _seen_people(self, people: Data) -> Data:
        return Data(self._seen(people.features), people.codes, people.weights)

    def predicted(self, rows: Array) -> Rows:
        """Return class codes."""
        return self.inner.predicted(self._seen(rows))

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L and ∇_θ L."""
        return self.inner.goal(self._seen(query), code)

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L and ∇_x L."""
        losses, slopes = self.inner.slopes(self._seen(rows), code)
        return losses, slopes / self.scales

    def gradient(self, people: Data) -> Array:
        """Return Σ w ∇_θ ℓ."""
        return self.inner.gradient(self._seen_people(people))

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return s and ∇_x s."""
        values, slopes = self.inner.scores(self._seen(rows), codes, signal)
        return values, slopes / self.scales

    def influence(self, pull: Array, people: Data) -> Array:
        """Return v."""
        return self.inner.influence(pull, self._seen_people(people))


def _scaled(model: Scaled, parameters: Any, classes: int, people: Data | None) -> ScaledDeployed:
    """Return the model behind its scaler."""
    if not model.linear:
        inner = deployed(model.model, parameters.model, classes)
        return ScaledDeployed(inner, np.asarray(parameters.centres), np.asarray(parameters.scales))
    assert people is not None
    shares = people.weights / people.weights.sum()
    centres = shares @ people.features
    scales = np.sqrt(shares @ (people.features - centres) ** 2)
    scales[scales <= 1e-12 * np.abs(centres)] = 1.0
    # z = W x + b = (W s) e + (b + W c)
    matrix = np.column_stack([parameters[:, :-1] * scales, parameters[:, -1] + parameters[:, :-1] @ centres])
    return ScaledDeployed(deployed(model.model, matrix, classes), centres, scales)


def _kept(make: Callable[..., Any], model: Differentiable, dimensions: int, outputs: int) -> Callable[..., Any]:
    """Return a pass over rows, compiled once for each model; for one that cannot be hashed, each time."""
    try:
        return make(model, dimensions, outputs)
    except TypeError as reason:
        if "unhashable" not in str(reason):
            raise
        return make.__wrapped__(model, dimensions, outputs)  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _slopes(model: Differentiable, dimensions: int, outputs: int) -> Callable[..., Any]:
    import jax

    from oar.models.autodiff_passes import Passes

    loss = Passes(model, dimensions, outputs).query_loss
    return jax.jit(jax.vmap(jax.value_and_grad(loss, 2), (None, None, 0, None)))


@lru_cache(maxsize=64)
def _logits(model: Differentiable, dimensions: int, outputs: int) -> Callable[..., Any]:
    import jax

    from oar.models.autodiff_passes import Passes

    one = Passes(model, dimensions, outputs).outputs
    return jax.jit(lambda *arguments: (jax.vmap(one, (None, None, 0))(*arguments),))


def _with_ones(rows: Array) -> Array:
    return np.column_stack([rows, np.ones(len(rows))])


def _padding(size: int) -> Rows:
    return np.minimum(np.arange(max(FEWEST, 1 << max(size - 1, 0).bit_length())), size - 1)
