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
GRIDS, EXACT = (2, 4, 5, 10, 20, 100, 1_000, 10_000), 1e14  # parts of 1, and how many of them numbers can tell apart
CHANGE = 0.01  # of the usual difference
ENOUGH = 50  # people, of whom fewer show no grid


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


def grid(values: Array) -> float | None:
    """Return the largest usual fraction of which all values are multiples; None of few people, or where there is none.

    >>> grid(np.tile([1.0, 1.5, 3.0], 20)), grid(np.tile([0.03, 12.5], 30)), grid(np.linspace(0, 1 / 3, 60))
    (0.5, 0.01, None)
    """
    if len(values) < ENOUGH or not (values != np.rint(values)).any():
        return None
    # k / 20 is the same number as that which is written so, and k * 0.05 is not; enormous numbers are multiples anyway
    largest = np.abs(values).max()
    fits = (each for each in GRIDS if largest * each < EXACT and (np.rint(values * each) / each == values).all())
    return next((1 / each for each in fits), None)


def change_step(values: Array) -> float | None:
    """Return the step of changes that keeps values on the grid on which they all are; None where there is no grid.

    Of a grid that is finer than anybody would go it is a round multiple: 5 for amounts of hundreds, in cents.

    >>> change_step(np.tile([1.0, 1.5, 3.0], 20)), change_step(np.tile([120.03, 512.5, 333.37], 20))
    (0.5, 5.0)
    """
    least = grid(values)
    if not least:
        return None
    step = one_two_five(usual_difference(np.sort(values)) * CHANGE)
    while step > least and not is_multiple(step, least):
        step = one_two_five(1.1 * step)
    return max(step, least)


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
