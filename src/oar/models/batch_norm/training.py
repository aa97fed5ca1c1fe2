"""Train a small network with batch norm on data, so that there is one to ask questions about.

Plain full-batch training: cross-entropy plus l2/2 times the squared weights, Adam with a constant rate, statistics of
all training people in every step. Running statistics are those of the training people at the end. The same seed and
data give the same network.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from oar.checks import check_not_negative, check_seed, check_whole, choose, need_jax
from oar.errors import DataError
from oar.models.autodiff.mlp import checked_widths, initial_layers
from oar.models.batch_norm.layers import ACTIVATIONS, BatchNorm, Dense, Layer, Plain, as_plain, passed, through
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
        features: (n, d) numbers.
        labels: n of them, of two classes or more.
        hidden: widths of hidden layers, each dense, normalised and activated; empty for normalised features and one
            dense layer.
        activation: "tanh", "sigmoid", "softplus" or "relu".
        l2: the penalty on weights.
        steps: how many steps are taken.
        rate: how long they are.
        seed: what the first weights are drawn from.
        epsilon: as in `TestTimeBatchNorm`.
    """
    choose("activation", activation, ACTIVATIONS)
    check_not_negative("l2", l2)
    check_not_negative("rate", rate)
    check_seed(seed)
    check_whole("steps", steps)
    widths = checked_widths("hidden", hidden)
    people = Population(features, labels)
    if people.has_label_rows or len(people.classes) < 2:
        raise DataError("labels: must be one label a person, of two classes or more.")
    need_jax("training a network with batch norm")
    rows = np.asarray(people.features, dtype=np.float64)
    network = as_plain(_untrained(rows.shape[1], widths, len(people.classes), activation, seed))
    settings = (float(l2), float(rate), float(epsilon))
    import jax

    with jax.enable_x64(True):
        run, numbers_of_steps = _steps(network.kinds), np.arange(1.0, int(steps) + 1.0)
        numbers = jax.tree.map(np.asarray, run(network.numbers, rows, people.class_rows(), settings, numbers_of_steps))
    return _with_statistics(Plain(network.kinds, numbers), rows, epsilon), people.classes


def _untrained(inputs: int, hidden: tuple[int, ...], outputs: int, activation: str, seed: int) -> list[Layer]:
    """Return Glorot's dense layers; norms change nothing at first but to normalise."""
    dense = [Dense(layer["weights"], layer["biases"]) for layer in initial_layers((inputs, *hidden, outputs), seed)]
    if not hidden:
        return [BatchNorm(np.ones(inputs)), *dense]
    layers: list[Layer] = []
    for layer, width in zip(dense, hidden, strict=False):
        layers += [layer, BatchNorm(np.ones(width)), activation]
    return [*layers, dense[-1]]


@lru_cache(maxsize=64)
def _steps(kinds: tuple[str, ...]) -> Any:
    """Return all of training for layers of these kinds, compiled: parameters are one vector while Adam is at work."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    def run(first: Any, rows: Any, targets: Any, settings: Any, numbers_of_steps: Any) -> Any:
        l2, rate, epsilon = settings
        start, unravel = ravel_pytree(first)
        shares = jnp.full(len(rows), 1 / len(rows))

        def risk(vector: Any) -> Any:
            numbers = unravel(vector)
            logits = through(Plain(kinds, numbers), rows, shares, 1.0, epsilon, jnp)
            size = sum((own[0] ** 2).sum() for kind, own in zip(kinds, numbers, strict=True) if kind == "dense")
            return (jax.nn.logsumexp(logits, axis=1) - (targets * logits).sum(axis=1)).mean() + 0.5 * l2 * size

        def step(state: Any, number: Any) -> tuple[Any, None]:
            vector, slow, squares = state
            slope = jax.grad(risk)(vector)
            slow = FADING * slow + (1 - FADING) * slope
            squares = FADING_SQUARES * squares + (1 - FADING_SQUARES) * slope**2
            size = jnp.sqrt(squares / (1 - FADING_SQUARES**number)) + TINY
            return (vector - rate * slow / (1 - FADING**number) / size, slow, squares), None

        (vector, _, _), _ = jax.lax.scan(step, (start, 0 * start, 0 * start), numbers_of_steps)
        return unravel(vector)

    return jax.jit(run)


def _with_statistics(network: Plain, rows: Any, epsilon: float) -> list[Layer]:
    """Return the network as layers, with the running statistics of these people."""
    layers: list[Layer] = []
    shares = np.full(len(rows), 1 / len(rows))
    for kind, numbers in zip(network.kinds, network.numbers, strict=True):
        if kind == "norm":
            scale, shift, *_ = numbers
            layer: Layer = BatchNorm(scale, shift, rows.mean(axis=0), rows.var(axis=0))
            rows = through(as_plain([layer]), rows, shares, 1.0, epsilon)
        else:
            layer = Dense(*numbers) if kind == "dense" else kind
            rows, _ = passed([layer], rows)
        layers.append(layer)
    return layers
