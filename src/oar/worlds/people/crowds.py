"""Crowds made from populations, and the operator's training populations made from contributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oar.errors import DataError
from oar.people import Population
from oar.worlds.protocol import Array, Crowd, Deed, Rows
from oar.worlds.rounds.read_only import sealed

EVERYONE = "everyone"  # the group of all, where no groups are given


def crowd_of(
    people: Any, groups: ArrayLike | None = None, persons: ArrayLike | None = None, argument: str = "people"
) -> Crowd:
    """Return a Population or a pair (features, labels) as a crowd, with groups and persons.

    Args:
        people: an oar.Population, or (features, labels).
        groups: (n,), each person's group, for reports; None puts all in one group, "everyone".
        persons: (n,), the persons' numbers, whole and ≥ 0; None means 0, 1, ….
        argument: the name of `people` in messages.
    """
    match people:
        case Crowd():
            return people
        case (features, labels):
            people = Population(features, labels)
    if not isinstance(people, Population) or people.has_label_rows:
        got = "rows of numbers as labels" if hasattr(people, "has_label_rows") else f"a {type(people).__name__}"
        raise DataError(
            f"{argument}: must be an oar.Population with one label a person, or (features, labels), got {got}."
        )
    return Crowd(
        features=np.ascontiguousarray(people.features, dtype=np.float64),
        codes=np.asarray(people.codes(0, people.size), dtype=np.intp),
        classes=people.classes,
        groups=_of_each(people.size, groups, f"{argument} groups", EVERYONE),
        persons=_persons(people.size, persons, f"{argument} persons"),
        weights=people.weights,
        names=people.names,
    )


def some_of(crowd: Crowd, rows: Rows, features: Array) -> Crowd:
    """Return some of a crowd, by position, with these features."""
    given = ("codes", "groups", "persons", *(() if crowd.weights is None else ("weights",)))
    return replace(crowd, features=features, **{part: getattr(crowd, part)[rows] for part in given})


def recoded(crowd: Crowd, classes: tuple[Any, ...], names: tuple[str, ...] | None) -> Crowd:
    """Return a crowd with codes of other classes, its own among them, and features of these names."""
    places = np.array([classes.index(label) for label in crowd.classes], dtype=np.intp)
    return replace(crowd, codes=places[crowd.codes], classes=classes, names=names)


@dataclass(frozen=True, eq=False)
class Data:
    """An operator's training data: features (n, d), classes by code (n,), and weights (n,)."""

    features: Array
    codes: Rows
    weights: Array

    def joined(self, other: Data) -> Data:
        """Return these people, then the others."""
        return Data(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.weights, other.weights]),
        )


def handed_in(
    crowd: Crowd, deeds: Iterable[tuple[Rows, Deed]], relabel: Callable[[Rows, Array], Rows] | None = None
) -> tuple[Data, Rows]:
    """Return a crowd's contributions under these deeds, and each row's position in the crowd (−1: an added point).

    `relabel(rows, features)` gives the codes of people who moved and whose deed has no labels; None keeps their labels.
    """
    features, codes = crowd.features.copy(), crowd.codes.copy()
    stays, moved = np.ones(crowd.size, dtype=bool), np.zeros(crowd.size, dtype=bool)
    added: list[tuple[Array, Rows]] = []
    for mine, deed in deeds:
        if deed.moves is not None:
            features[mine] += deed.moves
            moved[mine] = deed.moves.any(axis=1)
        if deed.codes is not None:
            codes[mine], moved[mine] = deed.codes, False
        if deed.leaves is not None:
            stays[mine] = ~deed.leaves
        if deed.added is not None:
            added.append(deed.added)
    rows = np.flatnonzero(moved & stays)
    if relabel is not None and rows.size:
        codes[rows] = relabel(rows, features[rows])
    origin = np.flatnonzero(stays)
    now = Data(features[origin], codes[origin], crowd.row_weights[origin])
    for points, labels in added:
        now = now.joined(Data(np.asarray(points, np.float64), np.asarray(labels, np.intp), np.ones(len(points))))
    return now, np.append(origin, np.full(len(now.codes) - origin.size, -1))


def names_of(groups: Any) -> tuple[Any, ...]:
    """Return the groups that occur, each once, in order of first occurrence."""
    return tuple(dict.fromkeys(groups.tolist()))


def _of_each(size: int, values: Any, argument: str, usual: Any) -> Any:
    if values is None:
        return np.full(size, usual)
    given = np.asarray(values)
    if given.shape != (size,):
        raise DataError(f"{argument}: must be one for each of the {size} people, got shape {given.shape}.")
    return given


def _persons(size: int, values: Any, argument: str) -> Rows:
    given = _of_each(size, np.arange(size) if values is None else values, argument, 0)
    if not np.issubdtype(given.dtype, np.integer) or (given.size and given.min() < 0):
        raise DataError(f"{argument}: must be whole numbers ≥ 0, got {given.dtype} from {given.min()}.")
    return given.astype(np.intp)


class Register:
    """A register makes populations of one world's classes and features from codes; it looks labels up once."""

    def __init__(self, classes: tuple[Any, ...], dimensions: int, names: tuple[str, ...] | None) -> None:
        """Keep one person of each class as a template."""
        features: Any = np.zeros((len(classes), dimensions))
        if names is not None:
            import pandas

            features = pandas.DataFrame(features, columns=list(names))
        self.every_class = Population.of_codes(features, np.arange(len(classes)), classes)
        if self.every_class.classes != tuple(classes):
            raise DataError(
                f"arrivals: classes must be in the order in which an oar.Population has them, "
                f"{self.every_class.classes}, got {tuple(classes)}."
            )
        self.classes, self.dimensions, self.names = tuple(classes), dimensions, names

    def people(self, features: Array, codes: Rows, weights: Array | None = None) -> Population:
        """Return people by codes."""
        found = self.every_class.some(codes).with_features(features)
        found.weights = weights
        return found

    def of_crowd(self, crowd: Crowd) -> Population:
        """Return a crowd as it is."""
        return self.people(crowd.features, crowd.codes, crowd.weights)

    def read(self, people: Any, argument: str) -> Crowd:
        """Return people as a crowd of this world; raise for other features or classes."""
        crowd = crowd_of(people, argument=argument)
        unknown = [label for label in crowd.classes if label not in self.classes]
        if unknown or crowd.features.shape[1] != self.dimensions:
            raise DataError(
                f"{argument}: must have the arrivals' {self.dimensions} features and classes {self.classes}, got "
                f"{crowd.features.shape[1]} features and classes {crowd.classes}."
            )
        return recoded(crowd, self.classes, self.names)

    def check(self, crowd: Crowd, number: int) -> Crowd:
        """Return the world's own copy of the arrivals; raise where they do not fit this world."""
        where = f"arrivals, round {number}"
        if tuple(crowd.classes) != self.classes or crowd.features.shape[1:] != (self.dimensions,):
            raise DataError(
                f"{where}: must have {self.dimensions} features and classes {self.classes}, got features of shape "
                f"{crowd.features.shape} and classes {crowd.classes}."
            )
        if not crowd.size:
            raise DataError(f"{where}: somebody must arrive, got nobody.")
        if not np.isfinite(crowd.features).all():
            raise DataError(f"{where}: features must be finite, got some that are not.")
        return sealed(crowd)


def register_of(crowd: Crowd) -> Register:
    """Return the cached register of a crowd's classes and features."""
    return _register(crowd.features.shape[1], crowd.names, *crowd.classes)


@lru_cache(maxsize=16, typed=True)  # by types, too, because 1 and True are equal
def _register(dimensions: int, names: tuple[str, ...] | None, *classes: Any) -> Register:
    """Return the cached register of these classes and features: operators pool batches in every refit."""
    return Register(classes, dimensions, names)


def pooled(batches: tuple[Population, ...]) -> Population:
    """Return the people of several batches, which have the same features and classes, as one population."""
    if len(batches) == 1:
        return batches[0]
    first, weights = batches[0], None
    if any(batch.weights is not None for batch in batches):
        weights = np.concatenate([batch.row_weights for batch in batches])
    features = np.concatenate([np.asarray(batch.features) for batch in batches])
    codes = np.concatenate([batch.codes(0, batch.size) for batch in batches])
    return _register(first.dimensions, first.names, *first.classes).people(features, codes, weights)
