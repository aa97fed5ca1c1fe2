"""Networks with batch norm bound to a batch: what is "learned" is an average, or the batch itself.

**One normalised layer** (`MomentTraining`): the batch acts through two averages a unit, and all slopes are written out
by hand. Let a(x) be what the layers before the norm make of a person (a fixed function), and measure it from the
unmoved members' mean in units of their spread. What is "learned" is an average of φ(x) = (a, a²):

    θ = (m₁, m₂) = Σ w̄_i φ(x_i) = argmin ½ Σ w̄_i ‖θ − φ(x_i)‖²,     so H = 1 and v = g,
    s_i = vᵀ(θ − φ(x_i)),     ∇_x s_i = −∇a(x_i)ᵀ (v₁ + 2 v₂ a(x_i)).

So (θ, v) is all that a member needs to know: two numbers a unit each. With κ the query's own share of the statistics,

    M = (1 − κ) m₁ + κ a†,     V = (1 − κ)(m₂ − m₁²) + κ (1 − κ)(a† − m₁)²,
    μ = (1 − m) μ_running + m M,     σ² = (1 − m) σ²_running + m V + ϵ,     u = (a† − μ)/σ,
    ∂u/∂M = −m/σ,   ∂u/∂V = −m u/(2σ²),   ∂V/∂m₁ = −2 (1 − κ) M,   ∂V/∂m₂ = 1 − κ,   ∂V/∂a† = 2 κ (a† − M).

**Several normalised layers** (`DeepTraining`): the second's statistics depend on what the first made of all, the query
too. Then no few averages stand for the batch, and what is "learned" is the batch itself, θ = (x_1, …, x_n):

    θ = argmin ½ Σ w̄_i ‖θ_i − x_i‖²,     H = diag(w̄_i),     v_i = g_i / w̄_i,     ∇_x s_i = −v_i,

with g = ∇_θ L, the query's loss differentiated through all layers and their statistics, by JAX, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oar.checks import need_jax
from oar.models.batch_norm.layers import Plain, passed, pulled_back, through
from oar.models.training import ALL, Array, Fit, RowsTraining, Some

if TYPE_CHECKING:
    from oar.models.batch_norm.model import Batch, TestTimeBatchNorm


class Moments(NamedTuple):
    """Mean and variance (u,) of the members at the norm, as the network has them, and the members' total weight."""

    mean: Array
    variance: Array
    total: float

    def outputs(self, model: TestTimeBatchNorm, rows: Array) -> Array:
        """Return the logits (m, k) of people (m, d), each in a batch with these members."""
        norm = model.norms[0]
        place, own = model.layers.index(norm), model.query_share(self.total)
        values, _ = passed(model.layers[:place], rows)
        mean, variance = _with_query(values, self.mean, self.variance, own)
        scale, shift, running_mean, running_variance = norm.plain[1]
        mean = (1 - model.momentum) * running_mean + model.momentum * mean
        variance = (1 - model.momentum) * running_variance + model.momentum * variance
        seen = scale * (values - mean) / np.sqrt(variance + model.epsilon) + shift
        return passed(model.layers[place + 1 :], seen)[0]


def _with_query(values: Array, mean: Array, variance: Array, own: float) -> tuple[Array, Array]:
    """Return M and V: statistics of members and query, whose share is `own`."""
    apart = values - mean
    return mean + own * apart, (1 - own) * (variance + own * apart**2)


class BatchTraining(RowsTraining):
    """The half of a `Training` that is the same for all networks with batch norm."""

    model: TestTimeBatchNorm
    parameters: Callable[[Array], Moments | Batch]

    def __init__(self, model: TestTimeBatchNorm, features: Array, weights: Array, parameter_count: int) -> None:
        self._total = float(weights.sum())
        self._own = model.query_share(self._total)  # of the statistics
        super().__init__(model, features, weights / self._total, parameter_count)

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the logits (k,) of one person."""
        return self.parameters(parameters).outputs(self.model, query[None])[0]


class MomentTraining(BatchTraining):
    """Implements `Training` for a network with one normalised layer."""

    def __init__(self, model: TestTimeBatchNorm, features: Array, weights: Array) -> None:
        """Cut the network at its norm, and measure its inputs in units of the unmoved members."""
        norm = model.norms[0]
        super().__init__(model, features, weights, 2 * norm.scale.size)
        place = model.layers.index(norm)
        self._norm, self._before, self._after = norm, model.layers[:place], model.layers[place + 1 :]
        values, _ = passed(self._before, features)
        self._centre = self.weights @ values
        spread = np.sqrt(self.weights @ (values - self._centre) ** 2)
        self._scale = np.where(spread > 0, spread, 1.0)
        m, squared = model.momentum, self._scale**2
        self._mean = 0.0 if m == 1 else (1 - m) * (norm.mean - self._centre) / self._scale
        self._variance = (model.epsilon + (0.0 if m == 1 else (1 - m) * norm.variance)) / squared

    def _inputs(self, rows: Array) -> tuple[Array, list[Array]]:
        """Return a(x) for rows (n, d), and what every layer before the norm was given."""
        values, given = passed(self._before, rows)
        return (values - self._centre) / self._scale, given

    def _slopes(self, given: list[Array], slopes: Array) -> Array:
        """Return ∇a(x)ᵀ slopes, row by row."""
        return pulled_back(self._before, given, slopes / self._scale)

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Average."""
        self.passes += 1
        values, _ = self._inputs(features)
        return Fit(np.concatenate([self.weights @ values, self.weights @ values**2]), features, 0.0, True)

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return ½ Σ w̄ ‖θ − φ‖² and its gradient."""
        self.passes += 1
        off = self._off(parameters, features)
        return 0.5 * float(self.weights @ (off**2).sum(axis=1)), self.weights @ off

    def _off(self, parameters: Array, features: Array) -> Array:
        values, _ = self._inputs(features)
        return parameters - np.hstack([values, values**2])

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return s_i (n,); targets play no part."""
        self.passes += 1
        return self._off(parameters, features) @ signal

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i (n, d), or (n, r) of these columns."""
        self.passes += 1
        values, given = self._inputs(features)
        by_mean, by_square = np.split(signal, 2)
        found = -self._slopes(given, by_mean + 2 * by_square * values)
        return found[:, columns]

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the cross-entropy L at the goal, ∇_θ L and ∇_x L."""
        values, given = self._inputs(query[None])
        mean, square = np.split(parameters, 2)
        m, own = self.model.momentum, self._own
        centre, variance = _with_query(values[0], mean, np.maximum(square - mean**2, 0.0), own)
        sigma = np.sqrt(self._variance + m * variance)
        unit = (values[0] - self._mean - m * centre) / sigma
        logits, later = passed(self._after, (self._norm.scale * unit + self._norm.shift)[None])
        loss = np.logaddexp.reduce(logits[0])
        by_logits = np.exp(logits[0] - loss) * target.sum() - target
        by_unit = self._norm.scale * pulled_back(self._after, later, by_logits[None])[0]
        by_centre, by_variance = -by_unit * m / sigma, -0.5 * by_unit * m * unit / sigma**2
        by_mean = (1 - own) * (by_centre - 2 * centre * by_variance)
        by_value = by_unit / sigma + own * (by_centre + 2 * (values[0] - centre) * by_variance)
        pull = np.concatenate([by_mean, (1 - own) * by_variance])
        return float(loss * target.sum() - target @ logits[0]), pull, self._slopes(given, by_value[None])[0]

    def parameters(self, flat: Array) -> Moments:
        """Return θ as the network has it."""
        mean, square = np.split(flat, 2)
        variance = np.maximum(square - mean**2, 0.0) * self._scale**2
        return Moments(self._centre + self._scale * mean, variance, self._total)


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


class DeepTraining(BatchTraining):
    """Implements `Training` for any network with batch norm."""

    def __init__(self, model: TestTimeBatchNorm, features: Array, weights: Array) -> None:
        need_jax(f"{model.name} with several normalised layers")
        super().__init__(model, features, weights, features.size)

    def start(self) -> Array:
        """Return the unmoved batch."""
        return self._features.ravel().copy()

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

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the cross-entropy L at the goal, ∇_θ L and ∇_x L: one pass forwards, one back."""
        import jax

        self.passes += 1
        rows = parameters.reshape(self.size, self.dimensions)
        model, person = self.model, np.asarray(query, np.float64)
        run, settings = _compiled(model.plain.kinds), (float(model.momentum), float(model.epsilon))
        shares = np.append((1 - self._own) * self.weights, self._own)  # in the statistics, the query's last
        with jax.enable_x64(True):
            loss, slopes = run(rows, person, model.plain.numbers, settings, shares, target)
        by_rows, by_query = (np.asarray(slope) for slope in slopes)
        return float(loss), by_rows.ravel(), by_query

    def parameters(self, flat: Array) -> Batch:
        """Return θ as the batch that it is."""
        from oar.models.batch_norm.model import Batch

        return Batch(flat.reshape(self.size, self.dimensions), self._total * self.weights)
