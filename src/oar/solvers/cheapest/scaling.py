"""Units in which a programme's numbers are about 1: rows and columns divided by their middle sizes, in turns.

What rows leave counts as a column too, so that what is looked for is about 1, whatever the data's units are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array

ROUNDS = 6
NONE = slice(0)


def column_units(rows: Array, room: Array, fixed: NDArray[np.bool_] | slice = NONE) -> Array:
    """Return units (v,) of the unknowns of rows (m, v) · x ≤ room; those that are `fixed` keep a unit of 1.

    >>> column_units(np.array([[1e-9, 2.0]]), np.array([1.0]))
    array([1.e+09, 5.e-01])
    """
    sizes = np.abs(np.column_stack([rows, room]))
    filled = sizes > 0
    units = np.ones(sizes.shape[1])
    for _ in range(ROUNDS):
        own = _middle(np.log(np.where(filled, sizes * units, 1.0)), filled, axis=1)
        units = np.exp(-_middle(np.log(np.where(filled, sizes, 1.0)) - own[:, None], filled, axis=0))
        units[:-1][fixed] = units[-1]
    for _ in range(ROUNDS):  # what is far smaller than the rest of its column must not make the rest large or small
        own = np.log(np.where(filled, sizes * units, 1e-300).max(axis=1, initial=1e-300))
        largest = np.where(filled, np.log(np.where(filled, sizes, 1.0)) - own[:, None], -np.inf)
        units = np.where(filled.any(axis=0), np.exp(-largest.max(axis=0, initial=-700.0)), units)
        units[:-1][fixed] = units[-1]
    found = units[:-1] / units[-1]
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)


def _middle(logs: Array, filled: NDArray[np.bool_], axis: int) -> Array:
    """Return the middle between the largest and the smallest logarithm; 0 where there is none."""
    high = np.where(filled, logs, -np.inf).max(axis=axis, initial=-np.inf)
    low = np.where(filled, logs, np.inf).min(axis=axis, initial=np.inf)
    some = filled.any(axis=axis)
    return 0.5 * (np.where(some, high, 0.0) + np.where(some, low, 0.0))
