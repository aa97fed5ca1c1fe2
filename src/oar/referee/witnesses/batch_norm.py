"""The witness for networks with test-time batch norm: the statistics of the moved batch, layer by layer, in NumPy.

Written out again, from the layers' numbers alone: neither the hand-made slopes nor JAX have a part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import BatchNorm, TestTimeBatchNorm
from oar.people import Population

Array = NDArray[np.float64]
WITNESS = "batch statistics of the moved rows, recomputed layer by layer (numpy)"


def recomputed(model: TestTimeBatchNorm, people: Population, features: Array) -> Callable[[Array], Array]:
    """Return a function from a person's features (d,) to the logits (k,) in a batch with these members (n, d)."""
    counted = np.append(people.row_weights, 1.0 if model.query_in_batch else 0.0)

    def logits(person: Array) -> Array:
        hidden = np.concatenate([features, person[None]])
        for layer in model.layers:
            hidden = _after(layer, hidden, counted, model)
        return hidden[-1]

    return logits


def _after(layer: Any, hidden: Array, counted: Array, model: TestTimeBatchNorm) -> Array:
    """Return everybody's units (n + 1, u) after a layer."""
    if isinstance(layer, BatchNorm):
        mean = np.average(hidden, axis=0, weights=counted)
        variance = np.average(np.square(hidden - mean), axis=0, weights=counted)
        if layer.mean is not None:
            kept = 1.0 - model.momentum
            mean, variance = (
                kept * layer.mean + model.momentum * mean,
                kept * layer.variance + model.momentum * variance,
            )
        return (hidden - mean) * (layer.scale / np.sqrt(variance + model.epsilon)) + layer.shift
    if layer == "relu":
        return np.where(hidden > 0, hidden, 0.0)
    if layer == "tanh":
        return np.tanh(hidden)
    if layer in ("sigmoid", "softplus"):
        from scipy.special import expit, log1p

        softplus = np.maximum(hidden, 0.0) + log1p(np.exp(-np.abs(hidden)))
        return np.asarray(expit(hidden) if layer == "sigmoid" else softplus)
    return np.einsum("ni,oi->no", hidden, layer.weights) + layer.biases
