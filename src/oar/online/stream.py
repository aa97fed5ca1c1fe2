"""The people of many rounds: who arrives when, and who was there before; batches as one population of everyone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.checks import check_that, is_listing, with_near_names
from oar.errors import DataError, OptionError
from oar.people import Population
from oar.people.labels import label_array
from oar.typing import PeopleLike

HISTORY = -1


@with_near_names
@dataclass(frozen=True, eq=False)
class Stream:
    """A stream: everyone, and the round in which each person arrives.

    Make it with `Stream.of_batches`, or from one population and everyone's round. People before the first round (round
    −1) are read by the operator and never act.

    Attributes:
        people: everyone of all rounds, history included.
        when: (n,), the round of each row: −1, 0, …, T − 1.
        who: (n,), which rows are the same person, by any number a person; None where every row is somebody else.
    """

    people: Population
    when: NDArray[np.intp]
    who: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        """Refuse rounds that nobody arrives in, and rows that do not fit."""
        if self.people.streamed:
            raise OptionError(
                "people: must be in memory to come in rounds, got people in parts; give an oar.Population of arrays."
            )
        for name in ("when", "who"):
            given = getattr(self, name)
            if given is None and name == "who":
                continue
            numbers = _whole_numbers(name, given, f"the {self.people.size}", self.people.size)
            object.__setattr__(self, name, numbers.astype(np.intp))
        if self.when.min() < HISTORY or self.when.max() < 0:
            raise DataError(
                "when: must be rounds 0, 1, … (−1 for who was there before), with at least one round, got "
                f"{self.when.min()} to {self.when.max()}."
            )
        empty = np.flatnonzero(np.bincount(self.when[self.when >= 0], minlength=self.rounds) == 0)
        if empty.size:
            raise DataError(f"when: somebody must arrive in every round, got nobody in round {empty[0]}.")

    @classmethod
    @with_near_names
    def of_batches(
        cls, batches: Iterable[Any], history: PeopleLike | None = None, who: bool | ArrayLike | None = None
    ) -> Stream:
        """Return the stream of batches: populations, or pairs (features, labels).

        Args:
            batches: one for each round, in order.
            history: who was there before, as a batch; None where nobody was.
            who: for each batch, which person each row is, as whole numbers; True where all batches are the same
                people in the same order; None where every row is somebody else. Of history it is not asked.

        >>> stream = Stream.of_batches([([[0.0], [1.0]], ["no", "yes"]), ([[0.5], [2.0]], ["no", "yes"])], who=True)
        >>> stream.rounds, stream.when.tolist(), stream.who.tolist()
        (2, [0, 0, 1, 1], [0, 1, 0, 1])
        """
        check_that(np.iterable(batches), "batches", "a list of people, or of pairs (features, labels)", batches)
        each = [as_batch(batch, f"batches[{number}]") for number, batch in enumerate(batches)]
        if not each:
            raise DataError("batches: must be at least one, got none; a stream of no rounds changes nothing.")
        persons = _persons(who, [batch.size for batch in each])
        names = [f"batches[{number}]" for number in range(len(each))]
        rounds = [np.full(batch.size, number) for number, batch in enumerate(each)]
        if history is not None:
            before = as_batch(history, "history")
            each, names = [*each, before], [*names, "history"]
            rounds.append(np.full(before.size, HISTORY))
            if persons is not None:  # others, of whom it does not matter who they are: they never act
                persons = np.append(persons, persons.max() + 1 + np.arange(before.size))
        return cls(joined(each, names), np.concatenate(rounds), persons)

    @property
    def rounds(self) -> int:
        """T, how many rounds there are."""
        return int(self.when.max()) + 1

    def rows(self, number: int) -> NDArray[np.intp]:
        """Return the positions of those who arrive in a round."""
        return np.flatnonzero(self.when == number)

    @property
    def persons(self) -> NDArray[np.intp]:
        """A number (n,) for the person that each row is of: the row's own where every row is somebody else."""
        return np.arange(self.people.size) if self.who is None else self.who

    def read_by(self, reads: int | None, number: int) -> NDArray[np.intp]:
        """Return the positions of those whom a rule reads in a round: of the newest batches, or of all so far.

        History counts as the batch before round 0.
        """
        since = number - reads + 1 if reads else HISTORY
        return np.flatnonzero((self.when >= since) & (self.when <= number))

    @property
    def batches(self) -> int:
        """How many batches there are, history included."""
        return self.rounds + bool((self.when == HISTORY).any())

    def __repr__(self) -> str:
        """Show sizes in one line."""
        history = int((self.when == HISTORY).sum())
        before = f", {history:,} before" if history else ""
        return f"Stream({self.rounds} rounds, {self.people.size - history:,} people × {self.people.dimensions}{before})"


def _persons(who: Any, sizes: Sequence[int]) -> NDArray[np.intp] | None:
    """Return who everybody is, batch after batch."""
    if who is None:
        return None
    if who is True:
        if len(set(sizes)) > 1:
            raise DataError(
                f"who: True means that all batches are the same people, got batches of {sorted(set(sizes))} people; "
                "give a list with each batch's numbers of persons."
            )
        return np.tile(np.arange(sizes[0]), len(sizes))
    given = list(who) if is_listing(who) else []
    if len(given) != len(sizes):
        raise DataError(f"who: must be True, or the persons of each of {len(sizes)} batches, got {who!r}.")
    for number, (some, size) in enumerate(zip(given, sizes, strict=True)):
        if np.unique(_whole_numbers(f"who[{number}]", some, f"the batch's {size}", size)).size != size:
            raise DataError(f"who[{number}]: must name everybody once in a batch, got somebody twice.")
    return np.concatenate([np.asarray(some) for some in given]).astype(np.intp)


def _whole_numbers(argument: str, given: Any, whose: str, size: int) -> NDArray[np.integer]:
    """Return whole numbers (n,); raise where they are others."""
    numbers = np.asarray(given)
    if numbers.shape != (size,) or not np.issubdtype(numbers.dtype, np.integer):
        raise DataError(
            f"{argument}: must be one whole number for each of {whose} people, got {numbers.dtype} of shape "
            f"{numbers.shape}."
        )
    return numbers


def as_batch(given: Any, argument: str) -> Population:
    """Return a batch as people; `argument` is what messages call it."""
    if isinstance(given, Population):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        try:
            return Population(*given)
        except DataError as reason:
            raise DataError(f"{argument}: {reason}") from None
    raise DataError(
        f"{argument}: must be an oar.Population or a pair (features, labels), got an object of type "
        f"{type(given).__name__}."
    )


def joined(batches: Sequence[Population], names: Sequence[str]) -> Population:
    """Return everyone, batch after batch; classes are those that occur anywhere. `names` are the batches' own."""
    first = batches[0]
    for batch, name in zip(batches, names, strict=True):
        if batch.schema != first.schema:
            raise OptionError(
                f"{name}: must have the schema of {names[0]}, got another (a batch of few people may lack levels); "
                "read all batches with one, as in oar.Population.from_frame(frame, target, schema=…)."
            )
        if batch.dimensions != first.dimensions:
            raise DataError(
                f"{name}: must have as many features as the others, {first.dimensions} (as {names[0]}), got "
                f"{batch.dimensions}."
            )
        if batch.names != first.names:
            raise DataError(
                f"{name}: must have the same columns in the same order as {names[0]}, {first.names}, got {batch.names}."
            )
    features: Any = np.concatenate([np.asarray(batch.features, dtype=np.float64) for batch in batches])
    if first.names is not None:
        import pandas

        index = None
        if first.schema is not None:  # limits of single people name them by it
            index = first.row_names.append([batch.row_names for batch in batches[1:]])
        unique = index is not None and index.is_unique
        features = pandas.DataFrame(features, index if unique else None, list(first.names))
    weights = None
    if any(batch.weights is not None for batch in batches):
        weights = np.concatenate([batch.row_weights for batch in batches])
    labels = _labels(batches, names)
    if first.schema is None:
        return Population(features, labels, weights)
    gaps = [batch.imputed for batch in batches]
    imputed = None
    if any(one is not None for one in gaps):
        empty = [np.zeros((batch.size, len(first.schema)), dtype=bool) for batch in batches]
        imputed = np.concatenate([none if one is None else one for one, none in zip(gaps, empty, strict=True)])
    return Population(features, labels if unique else list(labels), weights).like_table(first, imputed)


def _labels(batches: Sequence[Population], names: Sequence[str]) -> NDArray[Any]:
    """Return everyone's labels as they were given."""
    first = batches[0]
    for batch, name in zip(batches, names, strict=True):
        columns = batch.has_label_rows and batch.classes != first.classes
        if columns or batch.has_label_rows != first.has_label_rows:
            raise DataError(f"{name}: must have labels as {names[0]} has them: all single, or all the same columns.")
    if first.has_label_rows:
        if first.classes != tuple(range(len(first.classes))):
            raise DataError(
                f"{names[0]}: must have label columns without names, as an array, got {first.classes}; or join the "
                "tables yourself and use oar.online.Stream(people, when)."
            )
        return np.concatenate([batch.labels for batch in batches])
    if len({batch.labels.dtype.kind for batch in batches}) == 1:
        return np.concatenate([batch.labels for batch in batches])
    return label_array([label for batch in batches for label in batch.labels.tolist()])  # 1 and "1" stay apart
