"""Ways to average the people of a class, coordinate by coordinate: plainly, or so that few of them can do little.

Each is, as long as nobody changes places with anybody, a weighted mean with weights of its own in every coordinate:

    μ_cj = Σ_{i∈c} S_ij x_ij,        ∂μ_cj/∂x_ij = S_ij,        ∂μ_cj/∂w_i = S_ij / w_i · (x_ij − M_ij),

where M_ij is the plain weighted mean that i's number entered (that of its class, or of its block). Who is trimmed away
or is in a block that is not in the middle has S_ij = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_whole, is_number
from oar.errors import DataError
from oar.models.settings import check_seed

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Shares(NamedTuple):
    """S and M, both (n, d)."""

    shares: Array
    entered: Array


class ClassMean(Protocol):
    """An average of one class's people (m, d), all of weights above 0 (m,)."""

    name: ClassVar[str]

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return S and M of these people."""
        ...


@dataclass(frozen=True)
class PlainMean:
    """The weighted mean."""

    name: ClassVar[str] = "mean"

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return w_i / Σw in every coordinate."""
        shares = np.broadcast_to((weights / weights.sum())[:, None], features.shape)
        return Shares(shares, np.broadcast_to((shares * features).sum(axis=0), features.shape))


@dataclass(frozen=True)
class TrimmedMean:
    """The weighted mean without the ⌊share · m⌋ lowest and as many of the highest numbers of each coordinate.

    Without weights it is `scipy.stats.trim_mean`. People are counted, not weighed, to find who is trimmed.

    >>> TrimmedMean(0.25).of_class(np.array([[0.0], [1.0], [3.0], [50.0]]), np.ones(4)).shares.ravel()
    array([0. , 0.5, 0.5, 0. ])
    """

    share: float
    name: ClassVar[str] = "trimmed"

    def __post_init__(self) -> None:
        """Refuse to trim everybody, or nobody."""
        if not (is_number(self.share) and 0 < self.share < 0.5):
            raise DataError(
                f"share: must be a number above 0 and below 0.5, what is trimmed at either end, got {self.share!r}."
            )

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return w_i / Σw over those who are left in a coordinate."""
        size = len(features)
        cut = int(self.share * size)
        order = features.argsort(axis=0, kind="stable")
        kept = np.zeros(features.shape, dtype=bool)
        np.put_along_axis(kept, order[cut : size - cut], True, axis=0)
        shares = np.where(kept, weights[:, None], 0.0)
        shares /= shares.sum(axis=0)
        return Shares(shares, np.broadcast_to((shares * features).sum(axis=0), features.shape))


@dataclass(frozen=True)
class MedianOfBlocks:
    """The coordinate-wise median of the weighted means of blocks, into which people are drawn by `seed`.

    Who is in which block depends on people's places alone, never on their features. A class of fewer people than
    blocks has one person a block: then it is the median.
    """

    blocks: int
    seed: int = 0
    name: ClassVar[str] = "median-of-means"

    def __post_init__(self) -> None:
        """Refuse a single block, which would be the mean."""
        check_whole("blocks", self.blocks, 2)
        check_seed(self.seed)

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return w_i / Σw over the block for those in the middle block; half of it where two are in the middle."""
        block = self.block_of(len(features))
        totals = np.bincount(block, weights=weights)
        means = np.zeros((totals.size, features.shape[1]))
        np.add.at(means, block, weights[:, None] * features)
        means /= totals[:, None]
        order = means.argsort(axis=0, kind="stable")
        middle = order[(totals.size - 1) // 2], order[totals.size // 2]  # the same where their number is odd
        in_middle = 0.5 * ((block[:, None] == middle[0]) + 1.0 * (block[:, None] == middle[1]))
        return Shares(in_middle * (weights / totals[block])[:, None], means[block])

    def block_of(self, size: int) -> Rows:
        """Return each one's block (m,): as equal in size as can be."""
        count = min(self.blocks, size)
        return np.random.default_rng(self.seed).permutation(size) % count


def class_shares(mean: ClassMean, features: Array, codes: NDArray[Any], weights: Array, classes: int) -> Shares:
    """Return S and M of everybody (n, d), class by class; S = 0 for those who weigh nothing."""
    shares, entered = np.zeros(features.shape), np.zeros(features.shape)
    for code in range(classes):
        rows = np.flatnonzero((codes == code) & (weights > 0))
        if rows.size:
            shares[rows], entered[rows] = mean.of_class(features[rows], weights[rows])
    return Shares(shares, entered)


def class_means(shares: Array, features: Array, codes: NDArray[Any], classes: int) -> Array:
    """Return μ (k, d); a second pass takes off the rounding of sums of large numbers."""
    means = np.zeros((classes, features.shape[1]))
    np.add.at(means, codes, shares * features)
    rest = np.zeros_like(means)
    np.add.at(rest, codes, shares * (features - means[codes]))
    return means + rest
