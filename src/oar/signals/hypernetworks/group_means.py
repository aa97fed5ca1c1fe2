"""The mean move of each group: a few numbers that sum up everyone's moves.

With u_c = Σ_{i∈c} w̄_i δ_i / W_c and W_c = Σ_{i∈c} w̄_i, a change of u is spread back by moving all of a group alike,
and a derivative with respect to u becomes (dL/dδ_i) / w̄_i = (1/W_c) dL/du_c for each i in c.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.models.training import Array

MOST_DISTINCT = 20  # more different targets than this are numbers, not classes


class Groups:
    """A partition of people into groups. `codes` (n,) are whole numbers from 0 on."""

    def __init__(self, codes: NDArray[np.intp], weights: Array) -> None:
        """Add up each group's weight."""
        self.codes, self.weights = codes, weights
        self.totals = np.bincount(codes, weights)
        self._inverse = np.divide(1.0, self.totals, out=np.zeros_like(self.totals), where=self.totals > 0)

    def means(self, moves: Array | None, dimensions: int) -> Array:
        """Return u (k, d)."""
        sums = np.zeros((self.totals.size, dimensions))
        if moves is not None:
            np.add.at(sums, self.codes, self.weights[:, None] * moves)
        return sums * self._inverse[:, None]

    def spread(self, means: Array) -> Array:
        """Return moves (n, d) in which everyone moves by their group's mean."""
        return means[self.codes]

    def pull_back(self, slopes: Array) -> Array:
        """Return (dL/dδ_i) / w̄_i (n, d) for dL/du (k, d)."""
        return (slopes * self._inverse[:, None])[self.codes]


def group_codes(groups: Any, size: int) -> NDArray[np.intp]:
    """Read n labels of any sortable kind as codes."""
    labels = np.asarray(groups)
    if labels.shape != (size,):
        raise DataError(
            f"groups: must be one label for each of the {size} people, got an array of shape {labels.shape}."
        )
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def target_codes(targets: Array) -> NDArray[np.intp]:
    """Return the classes as groups; where targets are numbers, those above and those not above the median of the first.

    >>> target_codes(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([1, 0, 1])
    """
    distinct, codes = np.unique(targets, axis=0, return_inverse=True)
    if len(distinct) > MOST_DISTINCT:
        return (targets[:, 0] > np.median(targets[:, 0])).astype(np.intp)
    return codes.reshape(-1).astype(np.intp)
