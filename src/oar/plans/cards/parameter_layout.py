"""The layout of a model's flat parameters: which numbers belong to which feature, and how they change with its units.

A model sees e = (x − centre) / scale. The same model sees e' in other units, e = a e' + t, with other parameters, and
nobody's score changes by more than a constant:

    linear      W' = W a, b' = b + W t, and V, c of the signal likewise
    prototypes  v' = v a
    gaussian    log σ²' = log σ² − 2 log a, μ' = (μ − t) / a, and of the signal L' = L, M' = M / a
    the scaler's parabola    spread' = spread a², shift' = a (shift + 2 spread t)

So what a scaler has learned need not be published: members go by any round centres and scales.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models import GaussianNaiveBayes
from oar.models.linear.losses import Linear
from oar.plans.cards.table.score import Scaler, linear_in_features

Array = NDArray[np.float64]


class Parts(NamedTuple):
    """Views of a flat vector: rows of numbers (m, d), one for each feature, and all other numbers (r,) or (r, 1)."""

    rows: Array
    rest: Array


def is_laid_out(model: Any) -> bool:
    """Report whether it is known which of a model's numbers belong to which feature."""
    return isinstance(model, Linear | GaussianNaiveBayes) or linear_in_features(model)


def parts(model: Any, vector: Array, dimensions: int) -> Parts:
    """Return views of θ or v of a model that is laid out."""
    match model:
        case Linear():
            table = vector.reshape(-1, dimensions + 1)
            return Parts(table[:, :dimensions], table[:, dimensions])
        case GaussianNaiveBayes():
            classes = vector.size // (1 + 2 * dimensions)  # log shares, then twice as many rows
            return Parts(vector[classes:].reshape(-1, dimensions), vector[:classes])
    return Parts(vector.reshape(-1, dimensions), vector[:0])


class CardSignal(NamedTuple):
    """The signal of a card: θ and v of a model, and the scaler through which it sees members."""

    parameters: Array
    signal: Array
    scaler: Scaler


def in_units(model: Any, sent: CardSignal, centres: Array, scales: Array) -> CardSignal:
    """Return the same for members who are seen by other centres and scales (d,); the model is laid out."""
    old, size = sent.scaler, centres.size
    a, t = scales / old.scales, (centres - old.centres) / old.scales
    vectors = parameters, signal = sent.parameters.copy(), sent.signal.copy()
    if isinstance(model, GaussianNaiveBayes):
        log_variance, mean = np.split(parts(model, parameters, size).rows, 2)
        log_variance -= 2 * np.log(a)
        mean[:] = (mean - t) / a
        np.split(parts(model, signal, size).rows, 2)[1][:] /= a
    else:
        for vector in (each for each in vectors if each.size):
            rows, rest = parts(model, vector, size)
            if rest.size:
                rest += rows @ t
            rows *= a
    scaler = Scaler(centres, scales, a * (old.shift + 2 * old.spread * t), old.spread * a**2)
    return CardSignal(parameters, signal, scaler)


def kept(model: Any, vector: Array, dimensions: int, places: NDArray[np.intp]) -> Array:
    """Return θ or v of a model with the numbers of some features alone, in this order."""
    if not vector.size:
        return vector
    rows, rest = parts(model, vector, dimensions)
    some = rows[:, places]
    if isinstance(model, Linear):
        return np.column_stack([some, rest]).ravel()
    return np.concatenate([rest, some.ravel()])
