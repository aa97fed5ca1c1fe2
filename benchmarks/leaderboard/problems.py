"""The problems of the leaderboard, each written to one file that all contenders read.

Softmax regression, mean cross-entropy + l2/2 ‖W‖² with l2 = 1e-2 and a free intercept. The query lies three quarters of
the way from the mean of the goal's class to that of another, and on tables it is a person who is refused. Everyone may
move by `budget` in the Euclidean norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oar.datasets
from benchmarks.table_rules import in_ranks
from benchmarks.worlds import blobs, flowers, mnist

L2 = 1e-2
BLOB_CLASSES = BLOB_WIDTH = 10
IN_ONE_FILE = 1_000_000  # people; more of them are a folder of Parquet files, which few can read


class NotHere(Exception):
    """A problem cannot be stated here; the message says why."""


@dataclass(frozen=True, eq=False)
class Stated:
    """A problem as contenders and the referee see it."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    query: NDArray[np.float64]
    goal: int
    budget: float
    l2: float = L2

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1

    def save(self, path: Path) -> None:
        """Write all of it as one .npz."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        np.savez(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> Stated:
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            values = {name: arrays[name] for name in cls.__dataclass_fields__}
        return cls(**{name: value if value.ndim else value.item() for name, value in values.items()})


@dataclass(frozen=True)
class Entry:
    """A problem on the list: its name, its title, how many people it has, and how it is made."""

    name: str
    title: str
    size: int
    make: Callable[[], Stated]
    width: int = BLOB_WIDTH
    classes: int = BLOB_CLASSES


def entries(largest: bool, adult: Path | None) -> list[Entry]:
    """Return all problems, the small ones first.

    Args:
        largest: whether to go on to 10⁷ and 10⁸ people.
        adult: the folder of UCI's Adult files, if there is one.
    """
    listed = [
        Entry("iris", "Iris, ε = 0.3", 150, lambda: iris(0.3), 4, 3),
        Entry("iris-far", "Iris, ε = 1", 150, lambda: iris(1.0), 4, 3),
        Entry("german", "German credit, ε = 0.3", 1_000, german, 10, 2),
        Entry("mnist", "MNIST embedding, ε = 0.3", 60_000, digits),
        Entry("adult", "Adult, ε = 0.3", 45_222, lambda: census(adult), 5, 2),
    ]
    powers = range(4, 9 if largest else 7)
    listed += [
        Entry(f"blobs-1e{power}", f"blobs, N = 1e{power}, ε = 0.3", 10**power, lambda power=power: clouds(10**power))
        for power in powers
    ]
    return listed


def iris(budget: float) -> Stated:
    """Return the 150 flowers, standardised; class 1 is asked for from near class 2."""
    world = flowers()
    return Stated(world.features, world.labels, world.query, world.goal, budget)


def clouds(size: int) -> Stated:
    """Return ten overlapping clouds in ten dimensions, from one `default_rng(0)`."""
    world = blobs(size)
    return Stated(world.features, world.labels, world.query, world.goal, 0.3)


def digits() -> Stated:
    """Return the shipped embedding of MNIST as it is; a 1 is asked for from near the 2s."""
    features, labels = mnist()
    return asking(np.asarray(features, float), np.asarray(labels, np.int64), 1, 2)


def german() -> Stated:
    """Return the numbers and ordinals of German credit, standardised: nobody else can keep to a table's limits."""
    return _numbers(oar.datasets.german_credit(), "good")


def census(folder: Path | None) -> Stated:
    """Return the numbers and ordinals of Adult, standardised."""
    if folder is None or not folder.is_dir():
        raise NotHere("Adult's files are not here: name their folder with --adult, or set OAR_DATA")
    return _numbers(oar.datasets.adult(folder), ">50K")


def _numbers(data: Any, goal: str) -> Stated:
    """Ask for the goal on behalf of a real person: of all who are refused, the one whose score is the median."""
    from sklearn.linear_model import LogisticRegression

    table = in_ranks(data.frame, data.schema)
    kept = [column.name for column in data.schema if column.kind not in ("category", "boolean")]
    values = table[kept].to_numpy(float)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    labels = (data.frame[data.target] == goal).to_numpy(np.int64)
    scores = LogisticRegression(C=1.0 / (len(values) * L2)).fit(values, labels).decision_function(values)
    refused = np.flatnonzero(scores < 0)
    chosen = refused[np.argsort(scores[refused], kind="stable")[len(refused) // 2]]
    return Stated(values, labels, values[chosen].copy(), 1, 0.3)


def asking(features: NDArray[np.float64], labels: NDArray[np.int64], goal: int, other: int) -> Stated:
    """Ask for the goal from three quarters of the way to another class's mean."""
    means = [features[labels == label].mean(axis=0) for label in (goal, other)]
    return Stated(features, labels, 0.25 * means[0] + 0.75 * means[1], goal, 0.3)
