"""Round steps that one person hardly moves: those of bounds, of costs, and of whatever else is told of everybody."""

from __future__ import annotations

import math

import numpy as np

from oar.people.tables.encoding import Array

PEOPLE = 10  # whose worth a step is at least
COARSEST = 0.5
NORMAL = 1.349  # standard deviations between the quarters of normal values
BOUNDS = 0.1  # of the usual difference, however many people there are
ALMOST = 1e-9  # of a step: rounding


def share_of(people: float, finest: float) -> float:
    """Return which share of a number a step is, or more: as much as `PEOPLE` of so many people are worth."""
    return min(max(PEOPLE / max(people, 1), finest), COARSEST)


def one_two_five(size: float) -> float:
    """Return the least of 1, 2 or 5 times a power of ten that is not below a size; 0 for 0.

    >>> one_two_five(0.021), one_two_five(0.5), one_two_five(70.0)
    (0.05, 0.5, 100.0)
    """
    if not size or not math.isfinite(size):
        return 0.0
    tens = math.floor(math.log10(size))
    return min(step for step in (float(f"{digit}e{tens}") for digit in (1, 2, 5, 10)) if step >= size * (1 - 1e-12))


def below(value: float, step: float) -> float:
    """Return the largest multiple of a step up to a value, as it is printed: 0.3, and not 0.30000000000000004.

    >>> below(0.31, 0.1), below(-7.0, 5.0), below(0.3, 0.1)
    (0.3, -10.0, 0.3)
    """
    return float(f"{math.floor(value / step + ALMOST) * step:.12g}") + 0.0


def above(value: float, step: float) -> float:
    """Return the least multiple of a step from a value on, as it is printed."""
    return -below(-value, step) + 0.0


def is_multiple(value: float, step: float) -> bool:
    """Report whether a value is a multiple of a step, but for rounding."""
    return abs(value / step - round(value / step)) <= 1e-6


def usual_difference(ordered: Array) -> float:
    """Return how far apart people usually are: by the middle half, or that of those who differ from most."""
    some = ordered
    while len(some):
        low, middle, high = np.quantile(some, (0.25, 0.5, 0.75), method="nearest")
        if low < high:
            return float(high - low) / NORMAL
        some = some[some != middle]
    return float(ordered.std())


def bound_step(ordered: Array, whole: bool) -> float:
    """Return the step of bounds that are read off values (n,); 0 where all are the same.

    It goes by the middle half, so nobody far from the others moves it. A bound that at least so many people are at or
    beyond tells of each of them that it is one of these; on a step that is much finer, it tells one's value.
    """
    usual = max(usual_difference(ordered), float(whole))
    step = one_two_five(usual * share_of(len(ordered), BOUNDS))
    return max(step, 1.0) if whole else step
