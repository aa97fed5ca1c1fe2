"""Units of a linear model's own, so that refits do not depend on those of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oar.models.linear.dependence import DEPENDENT
from oar.models.training import Array

if TYPE_CHECKING:
    from oar.models.linear.losses import Linear

ROUNDED = 1e-6  # of a feature's mean: rounding makes no spread larger than that of one that is the same for everyone


def units_of(features: Array, weights: Array, model: Linear) -> tuple[Array, Array]:
    """Return where to measure features from and in what steps, so that refits do not depend on the caller's units.

    Scales are powers of two, so that they lose nothing. An intercept that is penalised, or not there, must keep its
    place: then nothing is shifted. A feature that is the same for everyone has no spread of its own (but rounding in
    its mean looks like one); if it ever moves it is by a budget, which is in the units of the others.
    """
    centre = weights @ features
    if not model.free_intercept:
        centre, spread = np.zeros_like(centre), np.sqrt(weights @ features**2)
    else:
        away = features - centre
        spread = np.sqrt(weights @ np.square(away, out=away))
        doubtful = np.flatnonzero(spread <= ROUNDED * np.abs(centre))
        if doubtful.size:
            some = features[:, doubtful][weights > 0]
            spread[doubtful[some.max(axis=0) == some.min(axis=0)]] = 0.0
    return centre, power_of_two(np.where(spread > 0, spread, spread.max()))


def spread_of_values(values: Array, weights: Array) -> float:
    """Return a typical distance of values from their mean; of equal ones, from 0."""
    spread = float(np.sqrt((weights @ (values - weights @ values) ** 2).max()))
    size = float(np.abs(values[weights > 0]).max())
    return float(power_of_two(np.array(spread if spread > DEPENDENT * size else size)))


def power_of_two(size: Array) -> Array:
    """Return the nearest; 1 for 0."""
    return np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0))))
