"""Columns of unlike scales: whether one drowns all others in distances, penalties and budgets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

DROWNS = 100.0  # times the median column's standard deviation


class DominantColumn(NamedTuple):
    """A column whose standard deviation is so many times that of the median column."""

    name: Any
    deviation: float
    times: float


def drowning(people: Any) -> DominantColumn | None:
    """Return the column that drowns the others, or None; those that never vary do not count. One pass, in chunks."""
    total = squares = np.zeros(people.dimensions)
    first = np.asarray(people.features[:1], dtype=np.float64)[0]  # so that squares of large numbers lose no digits
    for chunk in people.chunks():
        rows = np.asarray(chunk.features, dtype=np.float64) - first
        total, squares = total + rows.sum(axis=0), squares + (rows**2).sum(axis=0)
    mean = total / people.size
    variances = squares / people.size - mean**2
    deviations = np.sqrt(np.where(variances > 1e-12 * (squares / people.size), variances, 0.0))
    varying = deviations[deviations > 0]
    if varying.size < 2:
        return None
    widest, others = int(deviations.argmax()), np.sort(varying)[:-1]
    times = float(deviations[widest] / np.median(others))
    if not DROWNS < times < np.inf:
        return None
    name = widest if people.names is None else people.names[widest]
    return DominantColumn(name, float(deviations[widest]), times)
