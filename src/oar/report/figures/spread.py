"""The spread of a quantity over many cases, shown as a band in a figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spread:
    """Least value, lower quartile, median, upper quartile and greatest value; one entry a place on the axis."""

    low: Array
    lower: Array
    median: Array
    upper: Array
    high: Array


def spread(values: Array) -> Spread:
    """Return the spread of values (cases, places) over the cases.

    >>> spread(np.array([[0.0], [1.0], [5.0]])).median
    array([1.])
    """
    return Spread(*np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0], axis=0))
