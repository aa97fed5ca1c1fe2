"""Arrivals: a population that is resampled or walked through, drifting normal clouds, or given batches.

Drift is explicit: nothing moves unless a distance per round is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oar.checks import check_that, choose, with_near_names
from oar.errors import DataError, OptionError
from oar.people.labels import LabelCoding, label_array
from oar.signals.base import check_count
from oar.typing import PeopleLike
from oar.worlds.people.crowds import crowd_of, names_of, recoded, some_of
from oar.worlds.protocol import Array, Crowd, Rows
from oar.worlds.rounds.read_only import sealed

Labelling = Callable[[Array], Any]
WAYS = ("resample", "walk")


@with_near_names
class FromPopulation:
    """People of a given population.

    Args:
        people: an oar.Population, or (features, labels).
        per_round: the number of arrivals in a round.
        way: "resample": each is drawn at random, and may come again; "walk": the first ones arrive in round 0, the
            next ones in round 1, …, and the stream ends when too few are left.
        groups: (n,), each person's group, for reports; None for one group of all.
        drift: (d,), the shift of everyone's features per round (none in round 0); None for no drift.
        label: the true labelling, if known: features (m, d), before drift, to m labels. Only the label policy "oracle"
            uses it.
    """

    def __init__(
        self,
        people: PeopleLike,
        per_round: int,
        *,
        way: str = "resample",
        groups: ArrayLike | None = None,
        drift: ArrayLike | None = None,
        label: Labelling | None = None,
    ) -> None:
        self._everyone = crowd_of(people, groups)
        self.classes, self.dimensions = self._everyone.classes, self._everyone.features.shape[1]
        self.names, self.group_names = self._everyone.names, names_of(self._everyone.groups)
        check_count("per_round", per_round)
        self.per_round = int(per_round)
        self._walks = choose("way", way, WAYS) == "walk"
        self.fresh = self.returning = not self._walks
        self._drift = _vector(drift, self.dimensions, "drift")
        self._label = _labelling(label)
        if self._walks and self.per_round > self._everyone.size:
            raise DataError(
                f"per_round: must be at most the {self._everyone.size} people to walk through, got {per_round}."
            )

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return who arrives."""
        if self._walks:
            rows = np.arange(number * self.per_round, (number + 1) * self.per_round)
            if rows[-1] >= self._everyone.size:
                raise _ended(number, f"{self._everyone.size} people, of whom {self.per_round} arrive in a round")
        else:
            rows = rng.integers(self._everyone.size, size=self.per_round)
        return some_of(self._everyone, rows, self._everyone.features[rows] + number * self._drift)

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return true classes, for features without the known drift."""
        return _labels(self._label, features - number * self._drift, self.classes)


@with_near_names
class Blobs:
    """Normal clouds, one for each class, whose means and shares may drift.

    Args:
        means: (k, d), each class's mean in round 0.
        per_round: the number of arrivals in a round.
        spread: the standard deviation of every feature: one number, or one for each feature.
        classes: k labels; None means 0, 1, ….
        shares: (k,), the probability of each class in round 0; None for equal ones. Everyone's class is drawn.
        drift: the shift of the means per round: (d,) for all, or (k, d).
        balance: (k,), the change of the shares per round; they must stay shares, which each draw of a round checks.
        groups: a function of features (n, d) and codes (n,) to groups (n,); None means that groups are classes.
    """

    returning, fresh = False, True

    def __init__(
        self,
        means: ArrayLike,
        per_round: int,
        *,
        spread: float | ArrayLike = 1.0,
        classes: Iterable[Any] | None = None,
        shares: ArrayLike | None = None,
        drift: ArrayLike | None = None,
        balance: Any = None,
        groups: Callable[[Array, Rows], Any] | None = None,
    ) -> None:
        self._means = np.asarray(means, dtype=np.float64)
        if self._means.ndim != 2 or len(self._means) < 2 or not np.isfinite(self._means).all():
            raise DataError(f"means: must be finite numbers (k, d) with k ≥ 2 classes, got shape {self._means.shape}.")
        known, self.dimensions = self._means.shape
        self.names = None
        given = list(range(known)) if classes is None else list(classes)
        self.classes = LabelCoding(label_array(given)).classes
        if len(given) != known or list(self.classes) != given:
            raise DataError(f"classes: must be {known} different labels in sorted order, got {given}.")
        check_count("per_round", per_round)
        self.per_round = int(per_round)
        self._spread = np.broadcast_to(np.asarray(spread, dtype=np.float64), self.dimensions)
        positive = np.isfinite(self._spread).all() and (self._spread > 0).all()
        check_that(positive, "spread", "finite and above 0", spread)
        self._drift = np.zeros_like(self._means) if drift is None else np.asarray(drift, dtype=np.float64)
        fits = self._drift.shape in ((self.dimensions,), self._means.shape) and np.isfinite(self._drift).all()
        check_that(fits, "drift", f"finite, ({self.dimensions},) or {self._means.shape}", drift)
        self._shares = np.full(known, 1 / known) if shares is None else np.asarray(shares, dtype=np.float64)
        self._balance = _vector(balance, known, "balance")
        self._groups = groups
        self._class_names = label_array(given)
        self.group_names = tuple(given) if groups is None else None
        self.shares(0)

    def means(self, number: int) -> Array:
        """Return the classes' means (k, d) in a round."""
        return self._means + number * self._drift

    def shares(self, number: int) -> Array:
        """Return the classes' shares (k,) in a round."""
        shares = self._shares + number * self._balance
        if shares.shape != (len(self.classes),) or not (shares.min() >= 0 and abs(shares.sum() - 1) < 1e-9):
            raise DataError(
                f"shares: must be {len(self.classes)} numbers ≥ 0 that add up to 1 in every round, got {shares} in "
                f"round {number}; let `balance` add up to 0, and be smaller."
            )
        return shares / shares.sum()

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return who arrives: all of them are new people."""
        codes = rng.choice(len(self.classes), size=self.per_round, p=self.shares(number)).astype(np.intp)
        features = self.means(number)[codes] + self._spread * rng.standard_normal((self.per_round, self.dimensions))
        groups = self._class_names[codes] if self._groups is None else self._groups(features, codes)
        persons = np.arange(self.per_round) + number * self.per_round
        return Crowd(features, codes, self.classes, np.asarray(groups), persons)

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return the most probable class at these features in that round."""
        away = (features[:, None, :] - self.means(number)) / self._spread
        with np.errstate(divide="ignore"):
            return (np.log(self.shares(number)) - 0.5 * (away**2).sum(axis=2)).argmax(axis=1)


@with_near_names
class FromBatches:
    """Given batches, one for each round; the stream ends after the last.

    Args:
        batches: populations, or pairs (features, labels).
        groups: for each batch, each person's group; None for one group of all.
        persons: for each batch, the persons' numbers; None if all are different people; True if all batches are the
            same people in the same order.
        label: the true labelling, if known: features (m, d) to m labels.
    """

    fresh = False

    def __init__(
        self,
        batches: Iterable[Any],
        *,
        groups: Sequence[ArrayLike] | None = None,
        persons: bool | Sequence[ArrayLike] | None = None,
        label: Labelling | None = None,
    ) -> None:
        given = list(batches)
        if not given:
            raise DataError("batches: must be one for each round, got none.")
        crowds: list[Crowd] = []
        for number, batch in enumerate(given):
            seen = sum(crowd.size for crowd in crowds)
            crowd = crowd_of(batch, None if groups is None else groups[number], argument=f"batches[{number}]")
            if persons is None or persons is False:
                who = crowd.persons + seen
            else:
                who = crowd.persons if persons is True else np.asarray(persons[number])
            crowds.append(replace(crowd, persons=crowd_of(batch, persons=who).persons))
        labels = [label for crowd in crowds for label in crowd.classes]
        self.classes, first = LabelCoding(label_array(labels)).classes, crowds[0]
        self.dimensions, self.names = first.features.shape[1], first.names
        for number, crowd in enumerate(crowds):
            if crowd.features.shape[1] != self.dimensions:
                raise DataError(
                    f"batches[{number}]: must have {self.dimensions} features as the first one, got "
                    f"{crowd.features.shape[1]}."
                )
        self._crowds = [sealed(recoded(crowd, self.classes, crowd.names)) for crowd in crowds]
        self.group_names = names_of(np.concatenate([crowd.groups.astype(object) for crowd in crowds]))
        self._label = _labelling(label)
        self.returning = persons is not None

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return the round's batch."""
        if number >= len(self._crowds):
            raise _ended(number, f"{len(self._crowds)} batches")
        return self._crowds[number]

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return true classes."""
        return _labels(self._label, features, self.classes)


def _ended(number: int, held: str) -> DataError:
    return DataError(
        f"arrivals: the stream ends before round {number}: it has {held}; ask for at most {number} rounds (they are "
        "counted from 0), or give more."
    )


def _vector(values: Any, size: int, argument: str) -> Array:
    given = np.zeros(size) if values is None else np.asarray(values, dtype=np.float64)
    check_that(given.shape == (size,) and np.isfinite(given).all(), argument, f"{size} finite numbers", values)
    return given


def _labelling(label: Any) -> Labelling | None:
    check_that(label is None or callable(label), "label", "a function of features to labels", label)
    return label


def _labels(label: Labelling | None, features: Array, classes: tuple[Any, ...]) -> Rows:
    """Return codes of the true labels."""
    if label is None:
        raise OptionError(
            "labels: 'oracle' asks the arrivals for true labels, which they do not know; give them label=…, a function "
            "of features to labels, or use another label policy."
        )
    found = label_array(label(features), "label")
    if len(found) != len(features):
        raise DataError(f"label: must return one label for each of {len(features)} people, got {len(found)}.")
    places = {known: code for code, known in enumerate(classes)}
    for each in found.tolist():
        if each not in places:
            raise DataError(f"label: must return labels among {classes}, got {each!r}.")
    return np.array([places[each] for each in found.tolist()], dtype=np.intp)
