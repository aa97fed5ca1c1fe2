"""The people of many rounds: who arrives when, and who was there before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Population

HISTORY = -1


@dataclass(frozen=True, eq=False)
class Stream:
    """Everyone, and the round in which each arrives.

    Make it with `Stream.of_batches` or, from one population, `Stream.of_people`. Who was there before the first round
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
    def of_batches(cls, batches: Iterable[Any], history: Any = None, who: Any = None) -> Stream:
        """Return the stream of batches: populations, or pairs (features, labels).

        Args:
            batches: one for each round, in order.
            history: who was there before, as a batch; None where nobody was.
            who: for each batch, which person each row is, as whole numbers; True where all batches are the same
                people in the same order; None where every row is somebody else.
        """
        raise NotImplementedError

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
