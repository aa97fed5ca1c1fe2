"""The passes of `passes`, compiled for people whose labels come as codes: a row of targets for each class.

Targets of classes are as large as features; looked up inside the compiled pass they never leave the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from oar.models.linear.losses import KINDS, Linear


@lru_cache(maxsize=64)
def compiled(model: Linear, kind: str, by_class: bool) -> Callable[..., Any]:
    """Compile one kind of pass over chunks (chunks, rows, …); compiled once for each shape, and kept.

    It is called with features (c, r, d), labels (c, r) that are codes or (c, r, o) that are values, weights (c, r), the
    classes' targets (k, o), and what the pass itself needs.
    """
    import jax

    one = KINDS[kind]

    def each(chunk: Any, targets: Any, arguments: Any) -> Any:
        features, labels, weights = chunk
        return one(model, (features, targets[labels] if by_class else labels, weights), *arguments)

    def mapped(features: Any, labels: Any, weights: Any, targets: Any, *arguments: Any) -> Any:
        return jax.lax.map(lambda chunk: each(chunk, targets, arguments), (features, labels, weights))

    def summed(features: Any, labels: Any, weights: Any, targets: Any, *arguments: Any) -> Any:
        chunks = features, labels, weights

        def step(sums: Any, chunk: Any) -> tuple[Any, None]:
            return jax.tree.map(lambda left, right: left + right, sums, each(chunk, targets, arguments)), None

        first = jax.tree.map(lambda array: array[0], chunks)
        shapes = jax.eval_shape(lambda chunk: each(chunk, targets, arguments), first)
        zero = jax.tree.map(lambda shape: jax.numpy.zeros(shape.shape, shape.dtype), shapes)
        return jax.lax.scan(step, zero, chunks)[0]

    return jax.jit(mapped if kind == "scores" else summed)
