"""Clipping: no person's loss gradient may exceed the typical one by much.

With G_i = ‖∇_θ ℓ(θ; x_i, y_i)‖ at the deployed θ and m the median of all G, person i weighs

    w'_i = w_i f_i,    f_i = min(1, most · m / G_i),

so that f_i G_i ≤ most · m. Weights depend on features through each person's own G_i and, for people at the median, m:

    ∂f_i = most/G_i ∂m − most · m/G_i² ∂G_i        for clipped people, 0 for all others.

For z = W x + b, with a = ∂φ/∂z and B = ∂²φ/∂z², ∇_θ ℓ = a ⊗ (x, 1), so G = ‖a‖ √(1 + ‖x‖²) and
∇_x G = √(1 + ‖x‖²) Wᵀ B a/‖a‖ + ‖a‖ x / √(1 + ‖x‖²). For centroids ℓ = ½‖x − μ_y‖² and G = ‖x − μ_y‖.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from oar.checks import check_number, with_near_names
from oar.defences.base import Array, Defence, Prepared, reweighed
from oar.models.centroid.nearest_centroid import Centroids
from oar.models.differentiable import Differentiable, need_jax_functions
from oar.models.linear.losses import Linear
from oar.models.wrap.scaled import ScaledParameters
from oar.people import Population


@with_near_names
@dataclass(frozen=True)
class ClippedInfluence(Defence):
    """Clipped influence: reduces the weight of people whose gradient exceeds `most` times the median.

    Gradients are those at the deployed model, in θ as the model stores it: for linear models, scaled or not, the matrix
    (W, b) that applies to the given features; for other scaled models, the parameters behind the scaler. No weight
    becomes 0, so no class is emptied. Nothing is clipped before the first model is deployed. People of weight 0 do not
    count for the median.

    Args:
        most: above 0; below 1 even the typical person loses weight.
    """

    most: float
    name: ClassVar[str] = "clipped influence"

    def __post_init__(self) -> None:
        check_number("most", self.most, above=0)

    def prepared(self, people: Population, model: Any, parameters: Any, rng: np.random.Generator) -> Prepared:
        """Reduce the weights of people with large gradients."""
        everyone = np.ones(people.size, dtype=bool)
        if parameters is None:
            return Prepared(people, everyone)
        weights, (lengths, gradients_of_lengths) = people.row_weights, _pulls(people, model, parameters)
        counted = np.flatnonzero(weights > 0)
        order = counted[lengths[counted].argsort(kind="stable")]
        middle = order[[(order.size - 1) // 2, order.size // 2]]
        bound = self.most * lengths[middle].mean()
        clipped = lengths > bound
        factors = np.where(clipped, bound / np.where(clipped, lengths, 1.0), 1.0)
        if bound == 0:  # most people do not pull at all: there is nothing to compare others with
            return Prepared(people, everyone)

        def pull_back(by_weight: Array) -> Array:
            gradients = gradients_of_lengths()
            by_factor = np.where(clipped, by_weight * weights / np.where(clipped, lengths, 1.0), 0.0)
            slopes = -(by_factor * factors)[:, None] * gradients
            for person in middle:  # ∂m = the mean of the middle two's ∂G
                slopes[person] += by_factor.sum() * self.most * 0.5 * gradients[person]
            return slopes

        return Prepared(reweighed(people, model, weights * factors), everyone, pull_back)


Pulls = tuple[Array, Callable[[], Array]]
"""G (n,), and what returns ∇_x G (n, d), which only few ask for."""


def _pulls(people: Population, model: Any, parameters: Any) -> Pulls:
    """Return how hard people pull at a deployed model."""
    features = np.asarray(people.features, dtype=np.float64)
    if isinstance(parameters, Centroids):
        return _centroid_pulls(features - parameters.positions[people.codes(0, people.size)])
    pulls = _linear_pulls if isinstance(model.unscaled, Linear) else _autodiff_pulls
    return pulls(model, parameters, features, model.targets(people))


def _centroid_pulls(offsets: Array) -> Pulls:
    """Return how hard people pull who are these offsets (n, d) away from their class's centroids."""
    lengths = np.linalg.norm(offsets, axis=1)
    return lengths, lambda: offsets / np.where(lengths > 0, lengths, 1.0)[:, None]  # 0 where G has no gradient


def _linear_pulls(deployed: Any, parameters: Any, features: Array, targets: Array) -> Pulls:
    model = deployed.unscaled
    outputs = parameters[:, :-1] @ features.T + parameters[:, -1:]  # z (o, n)
    slopes = np.asarray(model.slopes(outputs, targets.T))  # a (o, n)
    far, size = np.sqrt(1 + (features**2).sum(axis=1)), np.linalg.norm(slopes, axis=0)

    def gradients() -> Array:
        bent = np.asarray(model.bend(outputs, targets.T, slopes / np.where(size > 0, size, 1.0)))
        return far[:, None] * (bent.T @ parameters[:, :-1]) + (size / far)[:, None] * features

    return size * far, gradients


def _autodiff_pulls(model: Any, parameters: Any, features: Array, targets: Array) -> Pulls:
    need_jax_functions(model.unscaled, "oar.defences.ClippedInfluence")
    import jax

    with jax.enable_x64(True):
        lengths, gradients = map(np.asarray, _compiled(model)(parameters, features, targets))
    return lengths, lambda: gradients


@lru_cache(maxsize=8)
def _compiled(model: Differentiable) -> Any:
    """Return G and ∇_x G of many people as one compiled function of θ, rows and targets."""
    import jax
    import jax.numpy as jnp

    def length(row: Any, parameters: Any, target: Any) -> Any:
        if isinstance(parameters, ScaledParameters):
            parameters, row = parameters.model, parameters.scaled(row)
        gradient = jax.grad(model.unscaled.example_loss)(parameters, row, target)
        squares = sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient))
        return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)

    each = jax.vmap(jax.value_and_grad(length), in_axes=(0, None, 0))
    return jax.jit(lambda parameters, rows, targets: each(rows, parameters, targets))
