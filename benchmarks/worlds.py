"""The populations and questions that are measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oar
import oar.datasets

CLASSES = DIMENSIONS = 10
ROWS_AT_A_TIME = 1 << 16


@cache
def mnist() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the embedding of the 60,000 MNIST training images and their digits."""
    embedding = oar.datasets.mnist_embedding()
    return embedding.features, embedding.labels


@cache
def iris() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the 150 flowers and their species."""
    flowers = oar.datasets.iris()
    return flowers.features, flowers.labels


@cache
def crowd(size: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return people around ten random centres in ten dimensions; made in place, because ten million are 800 MB."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=size)
    features = random.standard_normal((size, DIMENSIONS))
    centres = 2.0 * random.standard_normal((CLASSES, DIMENSIONS))
    for start in range(0, size, ROWS_AT_A_TIME):
        features[start : start + ROWS_AT_A_TIME] += centres[labels[start : start + ROWS_AT_A_TIME]]
    return features, labels


def problem_of(features: Any, labels: Any, goal: int = 0, other: int = 1) -> oar.Problem:
    """Ask for class `goal` from three quarters of the way to the centroid of class `other`.

    Between these two alone a quarter of their distance would be just enough; the budget is a little more.
    """
    people = oar.Population(features, labels)
    centroids = oar.NearestCentroid().fit(people).positions
    point = 0.25 * centroids[goal] + 0.75 * centroids[other]
    budget = 0.3 * float(np.linalg.norm(centroids[goal] - centroids[other]))
    return oar.Problem(people, oar.NearestCentroid(), oar.Query(point, goal=goal), oar.Perturb(budget))


def all_pairs(people: oar.Population) -> tuple[NDArray[np.float64], list[int]]:
    """Return the queries and goals of all ordered pairs of classes."""
    centroids = oar.NearestCentroid().fit(people).positions
    pairs = list(permutations(range(len(people.classes)), 2))
    queries = np.array([0.25 * centroids[goal] + 0.75 * centroids[other] for goal, other in pairs])
    return queries, [people.classes[goal] for goal, _ in pairs]


@dataclass(frozen=True, eq=False)
class World:
    """People for a softmax regression that is refitted, and a query: plain arrays, for the package and its peers."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    query: NDArray[np.float64]
    goal: int = 1
    l2: float = 1e-2

    def problem(self, budget: float) -> oar.Problem:
        """Ask for the goal when everyone may move by `budget`."""
        people, query = oar.Population(self.features, self.labels), oar.Query(self.query, goal=self.goal)
        return oar.Problem(people, oar.SoftmaxRegression(self.l2), query, oar.Perturb(budget))


def blobs(size: int = 60_000) -> World:
    """Return ten overlapping clouds in ten dimensions."""
    random = np.random.default_rng(0)
    centres, labels = 0.9 * random.standard_normal((10, 10)), random.integers(0, 10, size)
    return _asking(centres[labels] + random.standard_normal((size, 10)), labels)


def flowers() -> World:
    """Return Iris, standardised."""
    features, labels = iris()
    return _asking((features - features.mean(axis=0)) / features.std(axis=0), labels)


def _asking(features: NDArray[np.float64], labels: NDArray[np.int64]) -> World:
    """Ask for class 1 from three quarters of the way to the mean of class 2."""
    return World(
        features, labels, 0.25 * features[labels == 1].mean(axis=0) + 0.75 * features[labels == 2].mean(axis=0)
    )
