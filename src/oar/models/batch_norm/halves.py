"""A network with one batch norm in two halves: affine maps before and after it, and activations right behind it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models.batch_norm.layers import BatchNorm, Dense, activated
from oar.models.batch_norm.model import TestTimeBatchNorm

Array = NDArray[np.float64]


class Sides(NamedTuple):
    """An affine map before the norm, (u, d) and (u,); activations after it; one to the logits, (k, u) and (k,)."""

    weights: Array
    biases: Array
    norm: BatchNorm
    activations: tuple[str, ...]
    head: Array
    head_biases: Array

    def seen(self, values: Array) -> Array:
        """Return f(γ u + β)."""
        values = self.norm.scale * values + self.norm.shift
        for activation in self.activations:
            values = activated(activation, values)
        return values


def sides_of(model: TestTimeBatchNorm) -> Sides | None:
    """Return the network in two halves; None where these are not affine but for activations right after the norm."""
    if len(model.norms) != 1:
        return None
    place = model.layers.index(model.norms[0])
    before, after = list(model.layers[:place]), list(model.layers[place + 1 :])
    activations: list[str] = []
    while isinstance(after[0], str):
        activations.append(after.pop(0))
    if any(isinstance(layer, str) for layer in (*before, *after)):
        return None
    norm = model.norms[0]
    return Sides(*_affine(before, norm.scale.size), norm, tuple(activations), *_affine(after, norm.scale.size))


def _affine(layers: list[Dense], width: int) -> tuple[Array, Array]:
    """Return dense layers as one; the identity of this width where there are none."""
    width = layers[0].weights.shape[1] if layers else width
    weights, biases = np.eye(width), np.zeros(width)
    for layer in layers:
        weights, biases = layer.weights @ weights, layer.weights @ biases + layer.biases
    return weights, biases
