"""A squared hinge along a line: a piecewise parabola, whose least point is found exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def least_along(short: Array, gain: Array, slope: float, bend: float, weights: Array) -> float:
    """Return t ≥ 0 where Σ w̄ max(0, short − t gain)² + slope t + bend t²/2 is least; 1 where rounding hides it.

    Its derivative rises, and is a straight line between neighbours among the t at which somebody meets the margin:
    bisect for the two between which it changes sign.
    """

    def line(length: float) -> tuple[float, float]:
        """Return the derivative's value at 0 and its rise, extended from `length`."""
        counted = short > length * gain
        pull = weights[counted] * gain[counted]
        return slope - 2 * float(pull @ short[counted]), bend + 2 * float(pull @ gain[counted])

    meets = np.divide(short, gain, out=np.zeros_like(short), where=(gain != 0) & (weights > 0))
    stops = np.append(0.0, np.unique(meets[(meets > 0) & np.isfinite(meets)]))
    low, high = 0, len(stops)  # the derivative is negative at `low` and not at `high`
    while high - low > 1:
        middle = (low + high) // 2
        value, rise = line(stops[middle])
        low, high = (middle, high) if value + rise * stops[middle] < 0 else (low, middle)
    end = stops[high] if high < len(stops) else 2 * stops[low] + 2
    value, rise = line(0.5 * (stops[low] + end))
    if not rise > 0:
        return 1.0
    return float(np.clip(-value / rise, stops[low], end if high < len(stops) else np.inf))
