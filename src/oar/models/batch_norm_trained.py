"""Train a small network with batch norm on data, so that there is one to ask questions about.

Plain full-batch training: cross-entropy plus l2/2 times the squared weights, Adam with a constant rate, statistics of
all training people in every step. Running statistics are those of the training people at the end. The same seed and
data give the same network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, OptionError, choose
from oar.models.batch_norm_layers import ACTIVATIONS, BatchNorm, Dense, Layer, activated
from oar.models.differentiable import need_jax
from oar.models.mlp import checked_widths, initial_layers
from oar.models.settings import check_not_negative, check_seed
from oar.people import Population

FADING, FADING_SQUARES, TINY = 0.9, 0.999, 1e-8  # Adam's usual numbers


def train(
    features: Any,
    labels: Any,
    hidden: tuple[int, ...] = (8,),
    *,
    activation: str = "tanh",
    l2: float = 1e-3,
    steps: int = 300,
    rate: float = 0.02,
    seed: int = 0,
    epsilon: float = 1e-5,
) -> tuple[list[Layer], tuple[Any, ...]]:
    """Return the layers of a trained network, and the classes of its outputs.

    Args:
        features: (n, d) numbers; labels: n of them.
        hidden: widths of hidden layers, each dense, normalised and activated; empty for normalised features and one
            dense layer.
        activation: "tanh", "sigmoid", "softplus" or "relu".
        l2: the penalty on weights.
        steps: how many steps are taken, of length `rate`.
        seed: what the first weights are drawn from.
        epsilon: as in `TestTimeBatchNorm`.
    """
    choose("activation", activation, ACTIVATIONS)
    check_not_negative("l2", l2)
    check_not_negative("rate", rate)
    check_seed(seed)
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise OptionError(f"steps: must be a whole number of at least 1, got {steps!r}.")
    widths = checked_widths("hidden", hidden)
    people = Population(features, labels)
    if people.has_label_rows or len(people.classes) < 2:
        raise DataError("labels: must be one label a person, of two classes or more.")
    need_jax("training a network with batch norm")
    rows, targets = np.asarray(people.features, dtype=np.float64), people.class_rows()
    first = _untrained(rows.shape[1], widths, len(people.classes), seed)
    found, statistics = _descended(first, rows, targets, (activation, float(l2), float(epsilon)), int(steps), rate)
    return _as_layers(found, statistics, activation), people.classes


def _untrained(inputs: int, hidden: tuple[int, ...], outputs: int, seed: int) -> dict[str, list[Any]]:
    dense = initial_layers((inputs, *hidden, outputs), seed)
    units = hidden or (inputs,)
    norms = [{"scale": np.ones(width), "shift": np.zeros(width)} for width in units]
    return {"dense": dense, "norms": norms}


def _forward(network: Any, rows: Any, activation: str, epsilon: float) -> tuple[Any, list[Any]]:
    """Return everybody's logits, and each norm's mean and variance."""
    import jax.numpy as jnp

    statistics = []
    bare = len(network["dense"]) == 1  # then the features are normalised
    for place, norm in enumerate(network["norms"]):
        if not bare:
            layer = network["dense"][place]
            rows = rows @ layer["weights"].T + layer["biases"]
        mean, variance = rows.mean(axis=0), rows.var(axis=0)
        statistics.append((mean, variance))
        rows = norm["scale"] * (rows - mean) / jnp.sqrt(variance + epsilon) + norm["shift"]
        rows = rows if bare else activated(activation, rows, jnp)
    last = network["dense"][-1]
    return rows @ last["weights"].T + last["biases"], statistics


def _descended(
    first: Any, rows: Any, targets: Any, settings: tuple[str, float, float], steps: int, rate: float
) -> tuple[Any, list[Any]]:
    """Return what Adam's steps lead to, and its statistics there, in NumPy arrays."""
    import jax
    import jax.numpy as jnp

    activation, l2, epsilon = settings

    def risk(network: Any) -> Any:
        logits, _ = _forward(network, rows, activation, epsilon)
        size = sum((layer["weights"] ** 2).sum() for layer in network["dense"])
        return (jax.nn.logsumexp(logits, axis=1) - (targets * logits).sum(axis=1)).mean() + 0.5 * l2 * size

    def step(state: Any, number: Any) -> tuple[Any, None]:
        network, slow, squares = state
        slopes = jax.grad(risk)(network)
        slow = jax.tree.map(lambda old, new: FADING * old + (1 - FADING) * new, slow, slopes)
        squares = jax.tree.map(
            lambda old, new: FADING_SQUARES * old + (1 - FADING_SQUARES) * new**2, squares, slopes
        )

        def moved(value: Any, mean: Any, square: Any) -> Any:
            size = jnp.sqrt(square / (1 - FADING_SQUARES**number)) + TINY
            return value - rate * mean / (1 - FADING**number) / size

        return (jax.tree.map(moved, network, slow, squares), slow, squares), None

    with jax.enable_x64(True):
        network = jax.tree.map(jnp.asarray, first)
        nothing = jax.tree.map(jnp.zeros_like, network)
        (network, _, _), _ = jax.lax.scan(step, (network, nothing, nothing), jnp.arange(1.0, steps + 1.0))
        _, statistics = _forward(network, rows, activation, epsilon)
        return jax.tree.map(np.asarray, (network, statistics))


def _as_layers(network: Any, statistics: list[Any], activation: str) -> list[Layer]:
    """Return the network as layers."""
    dense = [Dense(layer["weights"], layer["biases"]) for layer in network["dense"]]
    norms = [
        BatchNorm(norm["scale"], norm["shift"], *found)
        for norm, found in zip(network["norms"], statistics, strict=True)
    ]
    if len(dense) == 1:
        return [*norms, *dense]
    hidden = [layer for pair in zip(dense, norms, strict=False) for layer in (*pair, activation)]
    return [*hidden, dense[-1]]
