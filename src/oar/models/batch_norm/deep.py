"""Networks of several normalised layers: the second's statistics depend on what the first made of all, the query too.

Then no few averages stand for the batch, and what is "learned" is the batch itself, θ = (x_1, …, x_n):

    θ = argmin ½ Σ w̄_i ‖θ_i − x_i‖²,     H = diag(w̄_i),     v_i = g_i / w̄_i,     ∇_x s_i = −v_i,

with g = ∇_θ L, the query's loss differentiated through all layers and their statistics, by JAX, in float64.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.models.batch_norm.layers import Plain, through
from oar.models.differentiable import need_jax
from oar.models.training import ALL, Fit, Some, displaced

if TYPE_CHECKING:
    from oar.models.batch_norm.model import Batch, TestTimeBatchNorm

Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def _compiled(kinds: tuple[str, ...]) -> Any:
    """Return the query's loss and its slopes by members (n, d) and query (d,), for layers of these kinds."""
    import jax
    import jax.numpy as jnp

    def loss(rows: Any, query: Any, numbers: Any, settings: Any, shares: Any, target: Any) -> Any:
        momentum, epsilon = settings
        logits = through(Plain(kinds, numbers), jnp.vstack([rows, query]), shares, momentum, epsilon, jnp)[-1]
        return jax.nn.logsumexp(logits) * target.sum() - target @ logits

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


class DeepTraining:
    """Implements `Training` for any network with batch norm.

    Args:
        model: the network.
        features: (n, d), everybody before any move.
        weights: (n,), as given.
    """

    def __init__(self, model: TestTimeBatchNorm, features: Array, weights: Array) -> None:
        """Keep the batch."""
        need_jax(f"{model.name} with several normalised layers")
        self.model, self._features, self._given = model, features, weights
        self._total = float(weights.sum())
        self.weights = weights / self._total
        self.size, self.dimensions = features.shape
        self.parameter_count = features.size
        self.passes = 0

    def _shares(self) -> Array:
        """Return everybody's share in the statistics (n + 1,), the query's last."""
        own = self.model.query_share(self._total)
        return np.append((1 - own) * self.weights, own)

    def start(self) -> Array:
        """Return the unmoved batch."""
        return self._features.ravel().copy()

    def moved(self, moves: Array | None, columns: Some = ALL) -> Array:
        """Return everyone's features after the moves."""
        return displaced(self._features, moves, columns)

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Remember the batch."""
        return Fit(features.ravel().copy(), features, 0.0, True)

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return ½ Σ w̄ ‖θ_i − x_i‖² and its gradient."""
        off = parameters.reshape(features.shape) - features
        return 0.5 * float(self.weights @ (off**2).sum(axis=1)), (self.weights[:, None] * off).ravel()

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return H times a direction."""
        return (self.weights[:, None] * direction.reshape(features.shape)).ravel()

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v; people without weight, who move nothing, have none."""
        pull = right.reshape(self.size, self.dimensions)
        heavy = self.weights > 0
        return np.where(heavy[:, None], pull / np.where(heavy, self.weights, 1.0)[:, None], 0.0).ravel()

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return s_i (n,); targets play no part."""
        return np.einsum("nd,nd->n", signal.reshape(features.shape), parameters.reshape(features.shape) - features)

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i (n, d), or (n, r) of these columns."""
        found = -signal.reshape(self.size, self.dimensions)
        return found[:, columns]

    def contributing(self, targets: Array, weights: Array) -> DeepTraining:
        """Return the same training for other weights (n,) that sum to 1; targets play no part."""
        other = copy.copy(self)
        other.weights, other.passes = weights, 0
        return other

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the cross-entropy L at the goal, ∇_θ L and ∇_x L: one pass forwards, one back."""
        import jax

        self.passes += 1
        rows = parameters.reshape(self.size, self.dimensions)
        model, person = self.model, np.asarray(query, np.float64)
        run, settings = _compiled(model.plain.kinds), (float(model.momentum), float(model.epsilon))
        with jax.enable_x64(True):
            loss, slopes = run(rows, person, model.plain.numbers, settings, self._shares(), target)
        by_rows, by_query = (np.asarray(slope) for slope in slopes)
        return float(loss), by_rows.ravel(), by_query

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the logits (k,) of one person."""
        rows = np.vstack([parameters.reshape(self.size, self.dimensions), query])
        return np.asarray(self.model.batch_outputs(rows, self._shares())[-1])

    def parameters(self, flat: Array) -> Batch:
        """Return θ as the batch that it is."""
        from oar.models.batch_norm.model import Batch

        return Batch(flat.reshape(self.size, self.dimensions), self._total * self.weights)
