"""The people of many rounds: who arrives when, and who was there before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.errors import DataError, with_near_names
from oar.online.batches import as_batch, joined
from oar.people import Population
from oar.typing import PeopleLike

HISTORY = -1


@with_near_names
@dataclass(frozen=True, eq=False)
class Stream:
    """Everyone, and the round in which each arrives.

    Make it with `Stream.of_batches`, or from one population and everyone's round. Who was there before the first round
    (round −1) is read by the operator and never acts.

    Attributes:
        people: everyone of all rounds, history included.
        when: (n,), the round of each: −1, 0, …, T − 1.
        who: (n,), which rows are the same person, by any number a person; None where every row is somebody else.
    """

    people: Population
    when: NDArray[np.intp]
    who: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        """Refuse rounds that nobody arrives in, and rows that do not fit."""
        if not isinstance(self.people, Population):
            raise DataError(
                f"people: must be an oar.Population(…), got an object of type {type(self.people).__name__}."
            )
        for name in ("when", "who"):
            given = getattr(self, name)
            if given is None and name == "who":
                continue
            numbers = np.asarray(given)
            if numbers.shape != (self.people.size,) or not np.issubdtype(numbers.dtype, np.integer):
                raise DataError(
                    f"{name}: must be one whole number for each of the {self.people.size} people, got "
                    f"{numbers.dtype} of shape {numbers.shape}."
                )
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

    def read_by(self, reads: int | None, number: int) -> NDArray[np.intp]:
        """Return the positions of those whom a rule reads in a round: of the newest batches, or of all so far.

        History counts as the batch before round 0.
        """
        since = HISTORY if reads is None else number - reads + 1
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
    given = list(who) if isinstance(who, Iterable) and not isinstance(who, str) else []
    if len(given) != len(sizes):
        raise DataError(f"who: must be True, or the persons of each of {len(sizes)} batches, got {who!r}.")
    for number, (some, size) in enumerate(zip(given, sizes, strict=True)):
        numbers = np.asarray(some)
        if numbers.shape != (size,) or not np.issubdtype(numbers.dtype, np.integer):
            raise DataError(
                f"who[{number}]: must be one whole number for each of the batch's {size} people, got {numbers.dtype} "
                f"of shape {numbers.shape}."
            )
        if np.unique(numbers).size != size:
            raise DataError(f"who[{number}]: must name everybody once in a batch, got somebody twice.")
    return np.concatenate([np.asarray(some) for some in given]).astype(np.intp)
