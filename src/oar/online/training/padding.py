"""Rounds of unlike sizes as few shapes: people of no weight are added, so that compiled passes serve many rounds.

JAX compiles a pass once for each shape. A refit from everything so far has another number of people in every round, and
would spend its time compiling. Sizes are therefore rounded up to 2 · 2^k or 3 · 2^k (thousands, beyond 1,000): at
most half as many people again, and two shapes for every doubling. Who is added weighs nothing, and is not seen outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable, Scaled
from oar.models.linear.losses import Linear
from oar.people import Population

Array = NDArray[np.float64]
CHUNK = 1_000  # people whom a compiled pass takes together
FEW = 400  # linear models of so few people are not compiled


def padded_size(size: int) -> int:
    """Return the next size that is rounded.

    >>> [padded_size(size) for size in (7, 65, 1000, 2001, 4_500, 100_000)]
    [8, 96, 1000, 3000, 6000, 128000]
    """
    if size > CHUNK:
        return CHUNK * padded_size(-(-size // CHUNK))
    power = 1
    while 3 * power < size:
        power *= 2
    return min(next(each for each in (power, 2 * power, 3 * power) if each >= size), CHUNK)


def gains(model: Any, size: int) -> bool:
    """Report whether a model is compiled for this many people, and takes no notice of some who weigh nothing."""
    if isinstance(model, Linear):
        return size > FEW
    return isinstance(model, Differentiable) and model.by_jax and not isinstance(model, Scaled)


def padded(people: Population) -> Population:
    """Return these people and, after them, some of no weight."""
    extra = padded_size(people.size) - people.size
    weights = people.row_weights
    every = people.some(np.append(np.arange(people.size), np.zeros(extra, dtype=np.intp)))
    every.weights = np.append(weights, np.zeros(extra))
    return every


class PaddedTraining:
    """Implements `Training` around one of more people, the last of whom weigh nothing."""

    def __init__(self, training: Any, size: int) -> None:
        """Keep the training; the first `size` are the people."""
        self._training, self.size = training, size
        self.weights, self.targets = training.weights[:size], training.targets[:size]

    def __getattr__(self, name: str) -> Any:
        """Ask the training itself for everything that does not go person by person."""
        return getattr(self._training, name)

    def _filled(self, rows: Array) -> Array:
        return np.concatenate([rows, np.repeat(rows[:1], self._training.size - self.size, axis=0)])

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after the moves."""
        return self._training.moved(None if moves is None else self._filled(moves))

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_x s_i for everyone, (n, d)."""
        return self._training.score_gradients(parameters, features, signal)[: self.size]

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return everyone's s_i (n,), if its target were that row of `targets`."""
        return self._training.scores(parameters, features, signal, self._filled(targets))[: self.size]

    def contributing(self, targets: Array, weights: Array) -> PaddedTraining:
        """Return the same training for other targets and weights."""
        zeros = np.zeros(self._training.size - self.size)
        return PaddedTraining(self._training.contributing(self._filled(targets), np.append(weights, zeros)), self.size)
