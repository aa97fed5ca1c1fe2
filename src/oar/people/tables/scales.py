"""Columns of unlike scales: whether one drowns all others in distances, penalties and budgets."""

from __future__ import annotations

from typing import Any

import numpy as np

DROWNS = 100.0  # times the median column's standard deviation


def caution(people: Any) -> str:
    """Return a warning of the column that drowns the others, or ""; those that never vary do not count. One pass."""
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
        return ""
    widest, others = int(deviations.argmax()), np.sort(varying)[:-1]
    times = float(deviations[widest] / np.median(others))
    if not DROWNS < times < np.inf:
        return ""
    return (
        f"Caution: feature {widest if people.names is None else people.names[widest]!r} has a standard deviation of "
        f"{deviations[widest]:.3g}, {times:.3g} times that of the median feature, so that distances, penalties and "
        "budgets are nearly its alone, and a loss says little. Standardise the features, or use a table "
        "(oar.Population.from_frame), where changes are counted in standard deviations, and oar.models.Scaled."
    )
