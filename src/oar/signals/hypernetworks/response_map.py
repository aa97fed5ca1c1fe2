"""A small learned map from the summary of the moves to the refitted parameters: the hypernetwork θ̂_φ(u).

With z = (u − centre) / scale,

    θ̂(u) = A z + b + C tanh(W z + c),        W, c drawn at random and kept; A, b, C by least squares.

Only the outer layer is fitted, so fitting is one linear solve and has no learning rate. Without hidden units the map is
affine, and with as many samples as directions its slope is a finite-difference Jacobian of θ*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oar.models.training import Array

RIDGE = 1e-8  # of the largest singular value: enough to choose the shortest of equally good fits


@dataclass(frozen=True, eq=False)
class ResponseMap:
    """A fitted θ̂.

    Attributes:
        centre: where z = 0, (q,).
        scale: the length of one unit of z.
        inner: W (h, q).
        shift: c (h,).
        outer: A, C and b, stacked: (q + h + 1, p).
    """

    centre: Array
    scale: float
    inner: Array
    shift: Array
    outer: Array

    def __call__(self, summary: Array) -> Array:
        """Return θ̂(u)."""
        return _features((summary - self.centre) / self.scale, self.inner, self.shift) @ self.outer

    def pull_back(self, summary: Array, slope: Array) -> Array:
        """Return (∂θ̂/∂u)ᵀ slope, (q,)."""
        size = summary.size
        by_feature = self.outer @ slope
        hidden = np.tanh(self.inner @ ((summary - self.centre) / self.scale) + self.shift)
        through = self.inner.T @ ((1 - hidden**2) * by_feature[size:-1])
        return (by_feature[:size] + through) / self.scale


def fit_response_map(
    summaries: Array, parameters: Array, centre: Array, scale: float, hidden: int, seed: int
) -> ResponseMap:
    """Fit θ̂ to pairs of summaries (m, q) and true refits (m, p)."""
    random = np.random.default_rng(seed)
    inner = random.standard_normal((hidden, centre.size)) * np.sqrt(2.0 / centre.size)
    shift = random.standard_normal(hidden)
    features = _features((summaries - centre) / scale, inner, shift)
    left, sizes, right = np.linalg.svd(features, full_matrices=False)
    shrunk = sizes / (sizes**2 + (RIDGE * sizes[0]) ** 2)
    return ResponseMap(centre, scale, inner, shift, right.T @ (shrunk[:, None] * (left.T @ parameters)))


def _features(places: Array, inner: Array, shift: Array) -> Array:
    """Return (z, tanh(W z + c), 1), for one place (q,) or several (m, q)."""
    ones = np.ones((*places.shape[:-1], 1))
    return np.concatenate([places, np.tanh(places @ inner.T + shift), ones], axis=-1)
