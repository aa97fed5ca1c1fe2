"""The passes over the data that a linear model needs, each one fused function of a chunk of people.

A chunk is features (rows, d), targets (rows, o) and weights (rows,). Inside it outputs are (o, rows), so that a
person's softmax is a column. Without an intercept (x, 1) is (x, 0), and b, which starts at 0, never leaves it.
Many people come in chunks that XLA maps over; a few are one chunk, for which NumPy is the quicker: calling compiled
code costs more than the work itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.models.autodiff.array_library import library_of

if TYPE_CHECKING:
    from oar.models.linear.losses import Linear

Chunk = tuple[Any, Any, Any]


@lru_cache(maxsize=64)
def compiled(model: Linear, kind: str) -> Callable[..., Any]:
    """Compile one kind of pass over chunks (chunks, rows, …); compiled once for each shape, and kept."""
    import jax

    one = KINDS[kind]

    def mapped(*chunks_and_arguments: Any) -> Any:
        chunks, arguments = chunks_and_arguments[:3], chunks_and_arguments[3:]
        return jax.lax.map(lambda chunk: one(model, chunk, *arguments), chunks)

    def summed(*chunks_and_arguments: Any) -> Any:
        chunks, arguments = chunks_and_arguments[:3], chunks_and_arguments[3:]

        def step(total: Any, chunk: Chunk) -> tuple[Any, None]:
            return jax.tree.map(lambda left, right: left + right, total, one(model, chunk, *arguments)), None

        first = jax.tree.map(lambda array: array[0], chunks)
        shapes = jax.eval_shape(lambda chunk: one(model, chunk, *arguments), first)
        zero = jax.tree.map(lambda shape: jax.numpy.zeros(shape.shape, shape.dtype), shapes)
        return jax.lax.scan(step, zero, chunks)[0]

    return jax.jit(mapped if kind == "scores" else summed)


def at_once(model: Linear, kind: str, chunk: Chunk, *arguments: Any) -> Any:
    """Run one kind of pass over people who are a single chunk: NumPy arrays, or JAX's inside of what it compiles."""
    return KINDS[kind](model, chunk, *arguments)


def _outputs(parameters: Any, rows: Any) -> Any:
    """Return W x + b for every row: (o, rows)."""
    return parameters[:, :-1] @ rows.T + parameters[:, -1:]


def _weighted_sum(model: Linear, values: Any, rows: Any) -> Any:
    """Return Σ_n values_on (x_n, 1): (o, d + 1)."""
    sums = values.sum(axis=1, keepdims=True)
    return library_of(rows).concatenate([values @ rows, sums if model.intercept else 0.0 * sums], axis=1)


def _risk(model: Linear, chunk: Chunk, parameters: Any) -> Any:
    """Mean loss and its gradient: Σ w̄ φ and Σ w̄ a ⊗ (x, 1)."""
    rows, target, weight = chunk
    out = _outputs(parameters, rows)
    loss = (weight * model.output_loss(out, target.T)).sum()
    return loss, _weighted_sum(model, model.slopes(out, target.T) * weight, rows)


def _product(model: Linear, chunk: Chunk, parameters: Any, direction: Any) -> Any:
    """Hessian of the mean loss times a direction: Σ w̄ B u ⊗ (x, 1)."""
    rows, target, weight = chunk
    bent = model.bend(_outputs(parameters, rows), target.T, _outputs(direction, rows))
    return _weighted_sum(model, bent * weight, rows)


def _hessian(model: Linear, chunk: Chunk, parameters: Any) -> Any:
    """Hessian of the mean loss: Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ, as (o, d + 1, o, d + 1)."""
    rows, target, weight = chunk
    library, extended = library_of(rows), _extended(model, rows)
    curvature = model.curvature(_outputs(parameters, rows), target.T) * weight

    # One output's rows of H at a time, so that memory stays O(rows · parameters).
    def block(bend: Any) -> Any:
        return ((bend[:, :, None] * extended).swapaxes(1, 2) @ extended).swapaxes(0, 1)

    if library is np:
        return np.stack([block(bend) for bend in curvature])
    import jax

    return jax.lax.map(block, curvature)


def _gram(model: Linear, chunk: Chunk) -> Any:
    """Σ w̄ (x, 1)(x, 1)ᵀ, (d + 1, d + 1)."""
    rows, _, weight = chunk
    extended = _extended(model, rows)
    return (extended * weight[:, None]).T @ extended


def _extended(model: Linear, rows: Any) -> Any:
    library = library_of(rows)
    return library.concatenate([rows, library.full((rows.shape[0], 1), float(model.intercept))], axis=1)


def _scores(model: Linear, chunk: Chunk, parameters: Any, signal: Any, weights: Any, along: Any) -> Any:
    """∇_x s for everyone: Vᵀa + Wᵀ B u, as (rows, r), with the columns of W and V that are asked for."""
    rows, target, _ = chunk
    out = _outputs(parameters, rows)
    slopes, bent = model.slopes(out, target.T), model.bend(out, target.T, _outputs(signal, rows))
    return slopes.T @ along + bent.T @ weights


KINDS: dict[str, Callable[..., Any]] = {
    "risk": _risk,
    "product": _product,
    "hessian": _hessian,
    "gram": _gram,
    "scores": _scores,
}
