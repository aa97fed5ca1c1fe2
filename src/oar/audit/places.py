"""Whether somebody lives there: distances to everybody, counted one by one, in chunks and without a tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NUMBERS = 4_000_000  # distances at once: 32 MB


class Places:
    """Where people are before any move.

    Args:
        features: (n, d).
        columns: the coordinates of each column, and what a difference of 1 (of a category, another level) costs.
        neighbours: k.
        share: of the people, whose k-th nearest is near enough.
    """

    def __init__(self, features: Array, columns: Sequence[tuple[slice, float]], neighbours: int, share: float) -> None:
        self.features, self.columns, self.neighbours, self.share = features, columns, neighbours, share

    @cached_property
    def usual(self) -> float:
        """How far the k-th nearest may be: a quantile over the people themselves."""
        return float(np.quantile(self.kth(self.features, np.arange(len(self.features))), self.share))

    def kth(self, rows: Array, who: NDArray[np.intp]) -> Array:
        """Return how far the k-th nearest of the others is from each row (m, d); `who` is negative for no member."""
        found = np.empty(len(rows))
        size = max(1, NUMBERS // len(self.features))
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            squares = np.zeros((len(rows[some]), len(self.features)))
            for place, cost in self.columns:
                if place.stop - place.start > 1:
                    here, there = rows[some, place].argmax(axis=1), self.features[:, place].argmax(axis=1)
                    squares += np.where(here[:, None] != there, cost**2, 0.0)
                else:
                    squares += (cost * (rows[some, place.start][:, None] - self.features[:, place.start])) ** 2
            members = np.flatnonzero(who[some] >= 0)
            squares[members, who[some][members]] = np.inf  # nobody is its own neighbour
            found[some] = np.sqrt(np.partition(squares, self.neighbours - 1, axis=1)[:, self.neighbours - 1])
        return found
