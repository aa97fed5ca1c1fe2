"""Beyond nearest centroid: which models, which people, which query, and how long each solver may work.

Iris is standardised here (Figure 2's is raw), because models with a penalty or one budget for all features need
comparable scales; the scaler stays as it is when people move. MNIST's embedding is used as it ships. Models that are
slow to retrain see a random sample of MNIST; the query is the same for all, made from the centroids of everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.datasets import Dataset
from oar.models import (
    MLP,
    GaussianNaiveBayes,
    LinearSVM,
    NearestCentroid,
    PrototypeNetwork,
    SoftmaxRegression,
)
from oar.people import Population
from oar.problem import Problem, Query
from oar.solvers import ProjectedGradient
from oar_paper.case import ALPHA, Case, iris_case, mnist_case

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Contender:
    """A model, and how its questions are solved.

    Attributes:
        key, title: its name in `results.json` and in the figure.
        model: what is retrained.
        alone, together, one_shot: the solvers of individual, collective and one-shot collective recourse.
        mnist_people: how many people of MNIST it sees; None for all.
        bisections: how often the interval of the break-even share is halved.
    """

    key: str
    title: str
    model: Any
    alone: Any
    together: Any
    one_shot: Any = "one-shot"
    mnist_people: int | None = None
    bisections: int = 3

    @property
    def guaranteed(self) -> bool:
        """Whether training is translation-equivariant: with everyone taking part the collective cannot do worse."""
        return self.model.equivariant


@dataclass(frozen=True)
class ExtendedSettings:
    """The settings that, with the data, determine the extended figures.

    Attributes:
        budgets: the ε of the first axis, above 0; share_budget: the ε of the second, one of them.
        shares: of people who take part, above 0 and below 1; 0 and 1 are added.
        contenders: the models, from top to bottom.
    """

    quick: bool
    seed: int
    budgets: tuple[float, ...]
    share_budget: float
    shares: tuple[float, ...]
    contenders: tuple[Contender, ...]


def extended_settings(quick: bool = False, seed: int = 0) -> ExtendedSettings:
    """Return the settings of a full or a quick run."""
    if quick:
        return ExtendedSettings(True, seed, (0.25, 0.5, 1.0), 0.5, (0.5,), _contenders(steps=15, bisections=1, slow=5))
    return ExtendedSettings(
        False,
        seed,
        (0.1, 0.25, 0.5, 0.75, 1.0, 1.5),
        0.5,
        (0.1, 0.25, 0.5, 0.75, 0.9),
        _contenders(steps=60, bisections=4, slow=10),
    )


def _contenders(steps: int, bisections: int, slow: int) -> tuple[Contender, ...]:
    # Steps bound the time, not a clock: the same seed then gives the same numbers on a busy machine.
    alone = ProjectedGradient(max_steps=500, tolerance=1e-6, random_starts=4)
    linear = ProjectedGradient(max_steps=500, tolerance=1e-6)  # whose loss is convex: one start is enough
    loop = ProjectedGradient(max_steps=steps, tolerance=1e-4, restarts=0)
    short = ProjectedGradient(max_steps=slow, tolerance=1e-4, restarts=0)
    return (
        Contender(
            "nearest_centroid", "Nearest centroid", NearestCentroid(), "auto", "exact", "paper", None, bisections
        ),
        Contender(
            "prototypes",
            "Prototype network\n(identity, frozen)",
            PrototypeNetwork(),
            alone,
            loop,
            "one-shot",
            6_000,
            bisections,
        ),
        Contender(
            "softmax", "Softmax regression", SoftmaxRegression(l2=1e-2), linear, loop, "one-shot", 6_000, bisections
        ),
        Contender(
            "svm", "Linear SVM\n(squared hinge)", LinearSVM(l2=1e-2), linear, loop, "one-shot", 6_000, bisections
        ),
        Contender(
            "naive_bayes", "Gaussian\nnaive Bayes", GaussianNaiveBayes(), alone, loop, "one-shot", 2_000, bisections
        ),
        Contender(
            "mlp",
            "MLP\n(8 tanh units)",
            MLP(hidden=(8,), l2=1e-2),
            alone,
            short,
            "one-shot",
            1_000,
            min(bisections, 2),
        ),
    )


@dataclass(frozen=True, eq=False)
class Arena:
    """A data set, prepared, with the paper's query: x† = 0.25 μ_goal + 0.75 μ_source.

    Attributes:
        key, title, pair: its name in `results.json`, in the figure, and the pair of classes in words.
        preparation: what was done to the features.
        query, goal: x† and the label that it wants.
    """

    key: str
    title: str
    pair: str
    preparation: str
    features: Array
    labels: NDArray[Any]
    query: Array
    goal: Any
    seed: int
    _samples: dict[int, Population] = field(default_factory=dict, repr=False)

    def people(self, count: int | None = None) -> Population:
        """Return everybody, or a seeded random sample of `count`."""
        size = len(self.features)
        count = size if count is None else min(count, size)
        if count not in self._samples:
            chosen = np.sort(np.random.default_rng(self.seed).permutation(size)[:count])
            self._samples[count] = Population(self.features[chosen], self.labels[chosen])
        return self._samples[count]

    def count(self, contender: Contender) -> int | None:
        """Return how many people a model sees; None for all. Iris is small enough for every model."""
        return contender.mnist_people if self.key == "mnist" else None

    def problem(self, contender: Contender, budget: float, share: float = 1.0) -> Problem:
        """Return what is asked of a model at a budget, with everyone or a random share taking part."""
        action = Perturb(budget) if share == 1.0 else Perturb(budget, participants=share, seed=self.seed)
        people = self.people(self.count(contender))
        return Problem(people, contender.model, Query(self.query, goal=self.goal), action)


def standardised_iris(seed: int = 0) -> Arena:
    """Return Iris with every feature at mean 0 and standard deviation 1: goal setosa, from versicolor."""
    case = iris_case()
    features = case.dataset.features
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return _arena(case, "Iris", "standardised", features, seed)


def embedded_mnist(seed: int = 0) -> Arena:
    """Return MNIST's ten-dimensional embedding as it ships: goal 1, from 2."""
    case = mnist_case()
    return _arena(case, "MNIST", "embedding as it ships", case.dataset.features, seed)


def arenas(settings: ExtendedSettings) -> tuple[Callable[[int], Arena], ...]:
    """Return the makers of the data sets: a quick run leaves out MNIST."""
    return (standardised_iris,) if settings.quick else (standardised_iris, embedded_mnist)


def _arena(case: Case, title: str, preparation: str, features: Array, seed: int) -> Arena:
    data: Dataset = case.dataset
    goal, source = case.pair.goal, case.pair.source
    centroids = NearestCentroid().fit(Population(features, data.labels)).positions
    query = ALPHA * centroids[goal] + (1 - ALPHA) * centroids[source]
    label = case.people.classes[goal]
    return Arena(data.name, title, case.describe(case.pair), preparation, features, data.labels, query, label, seed)
