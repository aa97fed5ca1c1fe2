"""Numbers that are on the safe side: every sum is widened by what rounding may have taken from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.referee.limits.moves import LIMIT_SLACK

Array = NDArray[np.float64]
UNIT = 2.0**-52  # twice the rounding of one operation
ALLOWED = 1 + 2 * LIMIT_SLACK  # times its limit, a move is as long as an audit lets pass, and a little longer
SURELY = 1 - 1e-9  # times a tie, a lead is surely one


def loss_above(nearest: Array, farthest: Array) -> Array:
    """Return log(1 + Σ_c e^{d_g − d_c}) for the goal's distance (...) and the others' (..., k − 1), rounded down."""
    exponents = nearest[..., None] - farthest
    loss = np.logaddexp.reduce(np.concatenate([np.zeros((*exponents.shape[:-1], 1)), exponents], axis=-1), axis=-1)
    return loss * (1 - (exponents.shape[-1] + 8) * UNIT)


def improbable(bound: float, probability: float) -> bool:
    """Report whether no loss of at least `bound` makes the goal as probable as an audit lets pass."""
    return bool(bound > -np.log(probability) + 2e-9 + 8 * UNIT)
