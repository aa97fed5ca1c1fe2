"""The passes over the data that a linear model needs, each one fused function mapped over chunks by XLA.

Arrays come as (chunks, rows, …). Inside a chunk outputs are (o, rows), so that a person's softmax is a column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oar.models.linear import Linear


@lru_cache(maxsize=64)
def compiled(model: Linear, kind: str) -> Callable[..., Any]:
    """Compile one kind of pass for a model (compiled once for each shape, and kept)."""
    import jax

    return jax.jit(_KINDS[kind](model))


def _outputs(parameters: Any, rows: Any) -> Any:
    """Return W x + b for every row: (o, rows)."""
    import jax.numpy as jnp

    return jnp.einsum("od,nd->on", parameters[:, :-1], rows) + parameters[:, -1:]


def _weighted_sum(values: Any, rows: Any) -> Any:
    """Return Σ_n values_on (x_n, 1): (o, d + 1)."""
    import jax.numpy as jnp

    return jnp.concatenate([jnp.einsum("on,nd->od", values, rows), values.sum(axis=1, keepdims=True)], axis=1)


def _add_up(function: Callable[..., Any], chunks: Any, zero: Any) -> Any:
    import jax

    def step(total: Any, chunk: Any) -> tuple[Any, None]:
        return jax.tree.map(lambda one, other: one + other, total, function(*chunk)), None

    return jax.lax.scan(step, zero, chunks)[0]


def _risk(model: Linear) -> Callable[..., Any]:
    """Mean loss and its gradient: Σ w̄ φ and Σ w̄ a ⊗ (x, 1)."""
    import jax.numpy as jnp

    def run(features: Any, targets: Any, weights: Any, parameters: Any) -> Any:
        def chunk(rows: Any, target: Any, weight: Any) -> Any:
            out = _outputs(parameters, rows)
            loss = (weight * model.output_loss(out, target.T)).sum()
            return loss, _weighted_sum(model.slopes(out, target.T) * weight, rows)

        return _add_up(chunk, (features, targets, weights), (jnp.zeros(()), jnp.zeros_like(parameters)))

    return run


def _product(model: Linear) -> Callable[..., Any]:
    """Hessian of the mean loss times a direction: Σ w̄ B u ⊗ (x, 1)."""
    import jax.numpy as jnp

    def run(features: Any, targets: Any, weights: Any, parameters: Any, direction: Any) -> Any:
        def chunk(rows: Any, target: Any, weight: Any) -> Any:
            bent = model.bend(_outputs(parameters, rows), target.T, _outputs(direction, rows))
            return _weighted_sum(bent * weight, rows)

        return _add_up(chunk, (features, targets, weights), jnp.zeros_like(parameters))

    return run


def _hessian(model: Linear) -> Callable[..., Any]:
    """Hessian of the mean loss: Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ, as (o, d + 1, o, d + 1)."""
    import jax
    import jax.numpy as jnp

    def run(features: Any, targets: Any, weights: Any, parameters: Any) -> Any:
        count, width = parameters.shape

        def chunk(rows: Any, target: Any, weight: Any) -> Any:
            curvature = model.curvature(_outputs(parameters, rows), target.T) * weight
            extended = _extended(rows)

            # One output's rows of H at a time, so that memory stays O(rows · parameters).
            def block(bend: Any) -> Any:
                return jnp.einsum("ond,ne->doe", bend[:, :, None] * extended, extended)

            return jax.lax.map(block, curvature)

        return _add_up(chunk, (features, targets, weights), jnp.zeros((count, width, count, width)))

    return run


def _gram(model: Linear) -> Callable[..., Any]:
    """Σ w̄ (x, 1)(x, 1)ᵀ, (d + 1, d + 1)."""
    import jax.numpy as jnp

    def run(features: Any, targets: Any, weights: Any) -> Any:
        def chunk(rows: Any, weight: Any) -> Any:
            extended = _extended(rows)
            return (extended * weight[:, None]).T @ extended

        width = features.shape[-1] + 1
        return _add_up(chunk, (features, weights), jnp.zeros((width, width)))

    return run


def _extended(rows: Any) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([rows, jnp.ones((rows.shape[0], 1))], axis=1)


def _scores(model: Linear) -> Callable[..., Any]:
    """∇_x s for everyone: Vᵀa + Wᵀ B u, as (chunks, rows, d)."""
    import jax
    import jax.numpy as jnp

    def run(features: Any, targets: Any, weights: Any, parameters: Any, signal: Any) -> Any:
        def chunk(arguments: Any) -> Any:
            rows, target = arguments
            out = _outputs(parameters, rows)
            slopes, bent = model.slopes(out, target.T), model.bend(out, target.T, _outputs(signal, rows))
            return jnp.einsum("od,on->nd", signal[:, :-1], slopes) + jnp.einsum("od,on->nd", parameters[:, :-1], bent)

        return jax.lax.map(chunk, (features, targets))

    return run


_KINDS = {"risk": _risk, "product": _product, "hessian": _hessian, "gram": _gram, "scores": _scores}
