"""Nearest centroid whose centroids are averages that few people can do little to.

**Averages** of the people of a class go coordinate by coordinate, plainly or robustly. Each is, as long as nobody
changes places with anybody, a weighted mean with weights of its own in every coordinate:

    μ_cj = Σ_{i∈c} S_ij x_ij,        ∂μ_cj/∂x_ij = S_ij,        ∂μ_cj/∂w_i = S_ij / w_i · (x_ij − M_ij),

where M_ij is the plain weighted mean that i's number entered (that of its class, or of its block). Who is trimmed away
or is in a block that is not in the middle has S_ij = 0.

**Training.** Parameters are `Centroids`, and everything but the fit is as with `NearestCentroid`. Bound to people it
implements `Training` as if θ minimised R(θ) = Σ_c W_c ½‖θ_c − μ_c(x)‖², where W_c = Σ_{i∈c} w̄_i weighs a class as for
plain means, of whose risk this is all that depends on θ: steps of the same rate go as far. So H = diag(W_c) ⊗ I, a
signal is v_c = g_c / W_c, and since dL/dδ_ij = S_ij g_cj, scores have

    ∇_x s_i = −W_c S_i ⊙ v_c / w̄_i,          s_i = −W_c Σ_j v_cj S_ij (x_ij − M_ij) / w̄_i.

It is locally exact: there are kinks where people change places. No JAX is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_seed, check_that, check_whole, is_number, with_near_names
from oar.errors import OptionError
from oar.models.centroid.nearest_centroid import Centroids, NearestCentroid
from oar.models.centroid.training import CentroidTraining
from oar.models.differentiable import Differentiable
from oar.models.protocol import delegated
from oar.models.training import ALL, Array, Fit, Some
from oar.people import Population

Rows = NDArray[np.intp]


class Shares(NamedTuple):
    """S and M, both (n, d)."""

    shares: Array
    entered: Array


@dataclass(frozen=True)
class PlainMean:
    """The weighted mean."""

    name: ClassVar[str] = "mean"

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return w_i / Σw in every coordinate."""
        return _means_of(features, np.broadcast_to(weights[:, None], features.shape))


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
        fits = is_number(self.share) and 0 < self.share < 0.5
        check_that(fits, "share", "a number above 0 and below 0.5, what is trimmed at either end", self.share)

    def of_class(self, features: Array, weights: Array) -> Shares:
        """Return w_i / Σw over those who are left in a coordinate."""
        size = len(features)
        cut = int(self.share * size)
        order = features.argsort(axis=0, kind="stable")
        kept = np.zeros(features.shape, dtype=bool)
        np.put_along_axis(kept, order[cut : size - cut], True, axis=0)
        return _means_of(features, np.where(kept, weights[:, None], 0.0))


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
        check_whole("blocks", self.blocks, 2)  # a single one would be the mean
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


def _means_of(features: Array, weights: Array) -> Shares:
    """Return what each coordinate's own weights (m, d) make of everyone, all of whom entered one mean."""
    shares = weights / weights.sum(axis=0)
    return Shares(shares, np.broadcast_to((shares * features).sum(axis=0), features.shape))


ClassMean = PlainMean | TrimmedMean | MedianOfBlocks
"""An average of one class's people (m, d), all of weights above 0 (m,)."""


@delegated("nearest", "check", "probabilities", "predict", "goal_loss")
@dataclass(frozen=True)
class RobustCentroids(Differentiable):
    """Nearest centroid, with another average than the mean; given the centroids, it says what nearest centroid says."""

    mean: ClassMean = field(default_factory=PlainMean)
    nearest: ClassVar[NearestCentroid] = NearestCentroid()
    convex = True
    equivariant = True
    smooth = False
    holds_class_means = True
    keeps_absent = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The kind of average."""
        return f"{self.mean.name} centroids"

    def training(self, people: Population) -> RobustTraining:
        """Bind the model to people."""
        return RobustTraining(self, people)

    @with_near_names
    def fit(self, people: Population) -> Centroids:
        """Return the averages, class weights and sizes."""
        self.check(people)
        training = self.training(people)
        return training.parameters(training.means(training.moved(None), training.start()))


class RobustTraining(CentroidTraining):
    """Implements `Training`; θ is the centroids, class after class."""

    def __init__(self, model: RobustCentroids, people: Population) -> None:
        super().__init__(model, people)
        self._given, self.codes = people.row_weights, self.targets.argmax(axis=1)

    def _shares(self, features: Array) -> Shares:
        """Return S and M of everybody (n, d), class by class; S = 0 for those who weigh nothing."""
        shares, entered = np.zeros(features.shape), np.zeros(features.shape)
        for code in range(self.shape[0]):
            rows = np.flatnonzero((self.codes == code) & (self.weights > 0))
            if rows.size:
                shares[rows], entered[rows] = self.model.mean.of_class(features[rows], self.weights[rows])
        return Shares(shares, entered)

    def means(self, features: Array, start: Array) -> Array:
        """Return the centroids (k · d,) of these features; a class that nobody has keeps the one in `start`."""
        self.passes += 1
        shares, means, rest = self._shares(features).shares, np.zeros(self.shape), np.zeros(self.shape)
        np.add.at(means, self.codes, shares * features)
        # A second pass takes off the rounding of sums of large numbers.
        np.add.at(rest, self.codes, shares * (features - means[self.codes]))
        return np.where(self.absent[:, None], start.reshape(self.shape), means + rest).ravel()

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Average; there is nothing to iterate."""
        return Fit(self.means(features, start), features, 0.0, True)

    def parameters(self, flat: Array) -> Centroids:
        """Return flat parameters as `Centroids`."""
        each = self._given, self._given * np.abs(self._features).max(axis=1)
        totals, largest = (np.bincount(self.codes, one, self.shape[0]).astype(np.float64) for one in each)
        positions = flat.reshape(self.shape)
        sizes = np.maximum(largest / np.where(totals > 0, totals, 1.0), np.abs(positions).max(axis=1))
        return Centroids(positions, totals, sizes)

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return Σ_c W_c ½‖θ_c − μ_c‖² and W_c (θ_c − μ_c)."""
        away = parameters - self.means(features, parameters)
        slope = self.product(parameters, features, away)
        return 0.5 * float(away @ slope), slope

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return −W_c S_i ⊙ v_c / w̄_i (n, d); 0 for those who weigh nothing."""
        self.passes += 1
        shares = self._shares(features).shares
        found = -shares * self._weighed_by_class(signal) / self._divisors
        return found[:, columns]

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return −W_c Σ_j v_cj S_ij (x_ij − M_ij) / w̄_i (n,), for everyone's own class."""
        if not np.array_equal(targets, self.targets):
            raise OptionError(
                f"action: {self.model.name} say nothing of people who change their class, and other labels were asked "
                "about; let members move, or leave."
            )
        self.passes += 1
        shares, entered = self._shares(features)
        return -(self._weighed_by_class(signal) * shares * (features - entered) / self._divisors).sum(axis=1)

    def contributing(self, targets: Array, weights: Array) -> RobustTraining:
        """Return the same training for other classes (one-hot rows) and weights."""
        if not np.isin(targets, (0.0, 1.0)).all():
            raise OptionError(f"labels: {self.model.name} need one class a person, got soft labels.")
        other: Any = super().contributing(targets, weights)
        other.codes, other._given = targets.argmax(axis=1), weights * self._given.sum()
        return other

    def _weighed_by_class(self, signal: Array) -> Array:
        """Return W_c v_c (n, d) of everyone's class."""
        return (self.class_weights[:, None] * signal.reshape(self.shape))[self.codes]

    @property
    def _divisors(self) -> Array:
        return np.where(self.weights > 0, self.weights, 1.0)[:, None]
