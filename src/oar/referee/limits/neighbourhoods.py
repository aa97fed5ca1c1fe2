"""Whether somebody lives there: scikit-learn's tree finds the neighbours, and shares no code with the solvers' one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class NeighbourDistances:
    """Where people are before any move.

    Args:
        features: (n, d).
        columns: the coordinates of each column, and what a difference of 1 (of a category, another level) costs.
        neighbours: k.
        share: of the people, whose k-th nearest is near enough.
    """

    def __init__(self, features: Array, columns: Sequence[tuple[slice, float]], neighbours: int, share: float) -> None:
        self.features, self.neighbours, self.share = features, neighbours, share
        self._scales = np.ones(features.shape[1])
        for place, cost in columns:
            # Another level differs in two coordinates.
            self._scales[place] = cost if place.stop - place.start == 1 else cost / 2**0.5

    @cached_property
    def usual(self) -> float:
        """How far the k-th nearest may be: a quantile over the people themselves."""
        return float(np.quantile(self.own, self.share))

    @cached_property
    def own(self) -> Array:
        """How far each member's k-th nearest is (n,)."""
        return self.kth(self.features, np.arange(len(self.features)))

    @cached_property
    def _tree(self) -> Any:
        from sklearn.neighbors import KDTree

        return KDTree(self.features * self._scales)

    def kth(self, rows: Array, who: NDArray[np.intp]) -> Array:
        """Return how far the k-th nearest of the others is from each row (m, d); `who` is negative for no member."""
        if not len(rows):
            return np.zeros(0)
        near, found = self._tree.query(rows * self._scales, k=self.neighbours + 1)
        others = np.where(found == who[:, None], np.inf, near)  # nobody is its own neighbour
        return np.sort(others, axis=1)[:, self.neighbours - 1]
