"""A member's score on a table, from what a card holds: s(x), up to a constant, and ∇_x s.

Models behind a scaler see e = (x − centre) / scale. Where the scaler is refitted, a member also acts through the
averages that it learns (`oar.models.wrap.scaled`), which in the same e is a parabola for each coordinate:

    s(x) = score(e) − Σ_j e_j (shift_j + spread_j e_j)          ∇_x s = (∇_e score − shift − 2 spread e) / scale

`score` is that of the model itself, vᵀ∇_θ ℓ(θ; e, y), with y the shares of the classes, or the values:

    linear      z = W e + b, u = V e + c, score = a·u, ∇_e = Vᵀa + WᵀBu, with θ = (W, b) and v = (V, c) of o rows of
                d + 1 numbers, the intercept last. Two classes have one row, whose target is the share of the second.
                softmax-regression: a = p − y, Bu = p (u − p·u), p the softmax of z (of one row, 1 / (1 + e^−z));
                ridge: a = z − y, Bu = u;
                linear-svm: t = 2y − 1, a = −2 t max(0, 1 − t z), Bu = 2 t² u where 1 − t z > −1e−12 (1 + |z|), else 0
    nearest-centroid, prototype-network without an embedding
                score = −Σ_c y_c v_c·e, with v of k rows of d: its loss is ½ Σ_c y_c ‖e − μ_c‖², so ∇_μ = y_c (μ_c − e)
    gaussian-naive-bayes
                score = −Σ_c y_c Σ_j o (M + ½ L o) / σ², o = e_j − μ_cj, with θ = (log shares, log σ², μ) and v likewise
                (·, L, M): k numbers, then twice k rows of d
    all others  by automatic differentiation, in JAX

The same model sees e' in other units, e = a e' + t, with other parameters, and nobody's score changes by more than a
constant:

    linear      W' = W a, b' = b + W t, and V, c of the signal likewise
    prototypes  v' = v a
    gaussian    log σ²' = log σ² − 2 log a, μ' = (μ − t) / a, and of the signal L' = L, M' = M / a
    the scaler's parabola    spread' = spread a², shift' = a (shift + 2 spread t)

So what a scaler has learned need not be published: members go by any round centres and scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.linear.losses import Linear
from oar.models.naive_bayes import GaussianNaiveBayes
from oar.models.protocol import Score
from oar.models.training import Array


@dataclass(frozen=True, eq=False)
class Scaler:
    """The scaler through which a model sees coordinates (d,), and what members do through its averages; see above."""

    centres: Array
    scales: Array
    shift: Array
    spread: Array

    @staticmethod
    def none(dimensions: int) -> Scaler:
        """Return what leaves everything as it is."""
        zeros = np.zeros(dimensions)
        return Scaler(zeros, np.ones(dimensions), zeros, zeros)


class TableScore:
    """s and ∇_x s for rows (n, d) of a table's coordinates and targets (n, o)."""

    def __init__(self, model: Differentiable, parameters: Array, signal: Array, scaler: Scaler) -> None:
        self._scaler = scaler
        if linear_in_features(model):
            self._inner: Score = partial(_of_prototypes, signal)
        elif isinstance(model, GaussianNaiveBayes):
            self._inner = partial(_of_gaussians, parameters, signal)
        else:
            self._inner = model.member_score(parameters, signal)

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s (n,) and ∇_x s (n, d)."""
        by = self._scaler
        seen = (rows - by.centres) / by.scales
        values, slopes = self._inner(seen, targets)
        values = values - (seen * (by.shift + by.spread * seen)).sum(axis=1)
        return values, (slopes - by.shift - 2 * by.spread * seen) / by.scales


def linear_in_features(model: Any) -> bool:
    """Report whether scores are linear, so that nobody needs θ: prototypes of the features themselves."""
    return isinstance(model, PrototypeNetwork) and model.embedding is None


def _of_prototypes(signal: Array, rows: Array, targets: Array) -> tuple[Array, Array]:
    """Return −Σ_c y_c v_c·e, up to a constant, and ∇ s, of v, flat."""
    slopes = -(targets @ signal.reshape(targets.shape[1], -1))
    return (slopes * rows).sum(axis=1), slopes


def _of_gaussians(parameters: Array, signal: Array, rows: Array, targets: Array) -> tuple[Array, Array]:
    """Return −Σ_c y_c Σ_j o (M + ½ L o) / σ², what ∇_θ of −log p(x, y) leaves of x, and ∇ s, of θ and v, flat."""
    classes, dimensions = targets.shape[1], rows.shape[1]
    shape = (2, classes, dimensions)
    log_variance, mean = parameters[classes:].reshape(shape)
    along_log, along_mean = signal[classes:].reshape(shape)
    values, slopes = np.zeros(len(rows)), np.zeros_like(rows)
    for code in range(classes):
        share = -targets[:, code, None] * np.exp(-log_variance[code])
        offset = rows - mean[code]
        values += (share * offset * (along_mean[code] + 0.5 * along_log[code] * offset)).sum(axis=1)
        slopes += share * (along_mean[code] + along_log[code] * offset)
    return values, slopes


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
