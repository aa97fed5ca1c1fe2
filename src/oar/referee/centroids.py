"""The witness of nearest centroid: averages of the moved rows, in one pass.

Centroids come from sorting people by class and averaging their moved rows, distances from `math.dist`. It reads the
data once and keeps O(chunk + k·d) in memory. Those of scikit-learn's own estimator come from its own `fit`, on all rows
at once, and it must predict the goal, too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.estimators.cores.centroid import CentroidTwin
from oar.goals import ClassWish
from oar.models import NearestCentroid
from oar.people import Chunk, Population
from oar.plans import Plan
from oar.problem import Problem
from oar.referee.contributions import Array, Contributions
from oar.referee.verdicts import JudgedModel, Predict, Retrial, Verdict, of_logits

# In a duel of two classes, differences of distance below this share of their feature values (as they were before any
# move) are ties, and a tie is not a success.
TIE_SHARE = 1e-13
# Nor is what rounding alone may have decided: distances are right to a few units in the last place.
ROUNDED = 8 * np.finfo(np.float64).eps
SIZED = 1 << 20  # people whose values are looked at to know how large a class's values are
WITNESS = "class averages of the moved rows (numpy)"


def by_class_averages(plan: Plan) -> Retrial:
    """Average rows class by class before and after the plan's moves."""
    problem, handed_in = plan.problem, Contributions(plan)
    people = problem.people
    shape = len(people.classes), people.dimensions
    before, after, sizes = Means(*shape), Means(*shape), Means(*shape)
    # Kept only where members ask, who are judged where they have moved to, or an estimator is trained on everyone.
    keeps = problem.asked.members is not None or isinstance(problem.model, CentroidTwin)
    kept: list[Array] = []
    for (chunk, moves), later in zip(handed_in.chunks(), handed_in.chunks_after(), strict=False):
        by_class = ByClass(chunk, len(people.classes))
        rows = by_class.sort(chunk.features)
        before.add(by_class, rows)
        if keeps:
            kept.append(chunk.features + moves)
        if chunk.start < SIZED:
            sizes.add(by_class, np.abs(rows).max(axis=1, keepdims=True))
        if later is None:
            after.add(by_class, rows + by_class.sort(moves))
        else:
            by_new_class = ByClass(later, len(people.classes))
            after.add(by_new_class, by_new_class.sort(chunk.features + moves))
    moved_rows = np.vstack(kept) if keeps else None
    moved, scales = handed_in.points(moved_rows), scales_of(before, sizes)
    if isinstance(problem.model, CentroidTwin):
        assert moved_rows is not None
        rows = np.asarray(people.features, dtype=np.float64)
        old = _trained(problem.model, people, rows)
        new = _trained(problem.model, handed_in.after, moved_rows)
    else:
        old, new = (_Refit(means.centroids(), nearest(means.centroids()), WITNESS) for means in (before, after))
    first, last = (JudgedModel(partial(agreed, problem, one, scales), one.predict, one.witness) for one in (old, new))
    return Retrial(handed_in, [(first, last)], moved, UnmovedCentroids(old.centroids, scales, before.counts))


class UnmovedCentroids(NamedTuple):
    """Class averages (k, d) of unmoved people as an audit computes them, sizes (k,) of values, and of classes (k,)."""

    positions: Array
    scales: Array
    numbers: Array


def centroids_of(model: NearestCentroid, people: Population) -> tuple[Array, Array]:
    """Return the class averages (k, d) of unmoved people, as an audit computes them, and the sizes (k,) of values."""
    means, sizes = Means(len(people.classes), people.dimensions), Means(len(people.classes), people.dimensions)
    for chunk in people.chunks():
        by_class = ByClass(chunk, len(people.classes))
        rows = by_class.sort(chunk.features)
        means.add(by_class, rows)
        if chunk.start < SIZED:
            sizes.add(by_class, np.abs(rows).max(axis=1, keepdims=True))
    scales = scales_of(means, sizes)
    if isinstance(model, CentroidTwin):
        return _trained(model, people, np.asarray(people.features, dtype=np.float64)).centroids, scales
    return means.centroids(), scales


def scales_of(means: Means, sizes: Means) -> Array:
    """Return how large the values of each class (k,) are."""
    return np.maximum(np.abs(means.centroids()).max(axis=1), sizes.centroids()[:, 0])


def ties_of(scales: Array, goal: int, unmoved: Array) -> Array:
    """Return how much farther (k,) a rival must be than the goal's centroid, whatever rounding does."""
    return TIE_SHARE * np.maximum(np.maximum(scales, scales[goal]), np.abs(unmoved).max())


class _Refit(NamedTuple):
    """Centroids (k, d), what they predict, and who says so."""

    centroids: Array
    predict: Predict
    witness: str


def _trained(model: CentroidTwin, people: Population, features: Array) -> _Refit:
    """Train the estimator that the model is the twin of, by its own `fit`."""
    original = model.original(people, features)
    return _Refit(original.positions, original.predict, f"{' '.join(repr(model.estimator).split())}.fit")


def agreed(problem: Problem, refit: _Refit, scales: Array, points: Array) -> list[Verdict]:
    """Judge everybody who asks; who gets its goal from an estimator must be predicted to by it."""
    told = heard(problem, refit.centroids, scales, points)
    if not isinstance(problem.model, CentroidTwin):
        return told
    codes = refit.predict(points)
    for number, (wish, one, code) in enumerate(zip(problem.wishes, told, codes, strict=True)):
        assert isinstance(wish, ClassWish)
        if one.reached and wish.probability is None and int(code) not in wish.codes:
            told[number] = replace(one, prediction=problem.people.classes[int(code)], lead=min(one.lead, 0.0))
    return told


class ByClass:
    """A chunk's people sorted by class: the order, the classes that occur, and where each one's run starts."""

    def __init__(self, chunk: Chunk, classes: int) -> None:
        # NumPy sorts small integers by counting, several times as fast as wide ones.
        codes = chunk.codes.astype(np.min_scalar_type(classes))
        self.order = np.argsort(codes, kind="stable")
        counts = np.bincount(chunk.codes, minlength=classes)
        self.present = np.flatnonzero(counts)
        self.starts = (np.cumsum(counts) - counts)[self.present]
        self.weights = None if chunk.weights is None else chunk.weights[self.order]
        self.counts = counts[self.present]
        self.totals = self.counts if self.weights is None else np.add.reduceat(self.weights, self.starts)

    def sort(self, rows: Array) -> Array:
        """Return rows (n, d) in the order of the classes."""
        return rows.take(self.order, axis=0)


class Means:
    """Class averages, accumulated chunk by chunk: sorted rows are added up run by run."""

    def __init__(self, classes: int, dimensions: int) -> None:
        self.sums, self.weights, self.counts = np.zeros((classes, dimensions)), np.zeros(classes), np.zeros(classes)

    def add(self, people: ByClass, rows: Array) -> None:
        """Add some people's rows, sorted by class."""
        weighted = rows if people.weights is None else rows * people.weights[:, None]
        self.sums[people.present] += np.add.reduceat(weighted, people.starts, axis=0)
        self.weights[people.present] += people.totals
        self.counts[people.present] += people.counts

    def __add__(self, other: Means) -> Means:
        found = Means(*self.sums.shape)
        found.sums, found.weights = self.sums + other.sums, self.weights + other.weights
        found.counts = self.counts + other.counts
        return found

    def centroids(self) -> Array:
        """Return the averages; 0 for a class of no weight."""
        return self.sums / np.where(self.weights > 0, self.weights, 1.0)[:, None]


def nearest(centroids: Array) -> Predict:
    """Return the nearest of these for each of many people."""

    def predict(rows: Array) -> NDArray:
        apart = [np.sqrt(((rows - centroid) ** 2).sum(axis=1)) for centroid in centroids]
        return np.argmin(apart, axis=0)

    return predict


def heard(problem: Problem, centroids: Array, scales: Array, points: Array) -> list[Verdict]:
    """Judge everybody who asks by the distances to centroids (k, d) of classes whose values are of sizes (k,)."""
    heard = []
    for wish, point, unmoved in zip(problem.wishes, points, problem.asked.points, strict=True):
        assert isinstance(wish, ClassWish)
        distances = np.array([math.dist(centroid, point) for centroid in centroids])
        with np.errstate(invalid="ignore"):
            losses = [np.logaddexp.reduce([0.0, *(far - np.delete(distances, c))]) for c, far in enumerate(distances)]
        goal = wish.codes[int(np.argmin(distances[list(wish.codes)]))]
        ties = np.maximum(ties_of(scales, goal, unmoved), ROUNDED * np.maximum(distances, distances[goal]))
        heard.append(of_logits(problem, wish, -distances, np.array(losses), ties))
    return heard
