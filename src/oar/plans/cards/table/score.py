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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from oar.models import Differentiable
from oar.models.centroid.prototypes import PrototypeNetwork
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
        """Find the model's own score."""
        self._scaler, self._inner = scaler, inner_score(model, parameters, signal)

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s (n,) and ∇_x s (n, d)."""
        by = self._scaler
        seen = (rows - by.centres) / by.scales
        values, slopes = self._inner(seen, targets)
        values = values - (seen * (by.shift + by.spread * seen)).sum(axis=1)
        return values, (slopes - by.shift - 2 * by.spread * seen) / by.scales


def inner_score(model: Differentiable, parameters: Array, signal: Array) -> Score:
    """Return the score of a model without a scaler."""
    if linear_in_features(model):
        return partial(_of_prototypes, signal)
    if isinstance(model, GaussianNaiveBayes):
        return partial(_of_gaussians, parameters, signal)
    return model.member_score(parameters, signal)


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
