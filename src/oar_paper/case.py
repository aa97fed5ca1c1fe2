"""The paper's two cases: a data set, the ordered pair of classes, and the synthetic query between them.

The paper puts the query at x† = α μ₁ + (1 − α) μ₂ with α = 0.25, near class 2, and asks for class 1. Its classes are
numbered from 1 (θ = {μ₁, μ₂, μ₃}), so on Iris we read 1 as setosa and 2 as versicolor (labels 0 and 1). MNIST's classes
are "digits 0–9", so there we read 1 and 2 as the digits themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.datasets import Dataset, iris, mnist_embedding
from oar.models import Centroids, NearestCentroid
from oar.people import Population
from oar.problem import Problem, Query

Array = NDArray[np.float64]
ALPHA = 0.25


@dataclass(frozen=True)
class Pair:
    """An ordered pair of class codes: the query starts near `source` and wants `goal`."""

    goal: int
    source: int


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, and the ordered pair that the paper reports on."""

    title: str
    dataset: Dataset
    pair: Pair

    @cached_property
    def people(self) -> Population:
        """The data subjects."""
        return Population(self.dataset.features, self.dataset.labels)

    @cached_property
    def centroids(self) -> Centroids:
        """The model before any move."""
        return NearestCentroid().fit(self.people)

    @property
    def pairs(self) -> list[Pair]:
        """Every ordered pair of different classes."""
        codes = range(len(self.people.classes))
        return [Pair(goal, source) for goal in codes for source in codes if goal != source]

    def query(self, pair: Pair) -> Array:
        """Return x† = α μ_goal + (1 − α) μ_source."""
        positions = self.centroids.positions
        return ALPHA * positions[pair.goal] + (1 - ALPHA) * positions[pair.source]

    def problem(self, budget: float, pair: Pair | None = None, share: float | None = None, seed: int = 0) -> Problem:
        """Return the pair's problem (the paper's own pair if none is given) for everyone or a random share."""
        pair = pair or self.pair
        query = Query(self.query(pair), goal=self.people.classes[pair.goal])
        action = Perturb(budget) if share is None else Perturb(budget, participants=share, seed=seed)
        return Problem(self.people, NearestCentroid(), query, action)

    def name(self, code: int) -> str:
        """Return what a class is called."""
        return self.dataset.class_names[code]

    def describe(self, pair: Pair) -> str:
        """Name a pair in words."""
        return f"goal {self.name(pair.goal)}, from {self.name(pair.source)}"


def iris_case() -> Case:
    """Return Iris with its four raw features: goal setosa, from versicolor."""
    return Case("Iris", iris(), Pair(goal=0, source=1))


def mnist_case() -> Case:
    """Return MNIST's ten-dimensional embedding: goal 1, from 2."""
    return Case("MNIST", mnist_embedding(), Pair(goal=1, source=2))
