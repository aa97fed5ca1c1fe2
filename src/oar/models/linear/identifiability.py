"""Fits without a regulariser that are none, or not the only one: dependent features, and perfect separation of classes.

Where some combination of the columns is the same for everyone, many parameters have the same outputs. Where linear
functions separate classes perfectly, the risk falls for ever in their direction. Both are certified up to rounding: by
a factorisation, and by linear programming.
"""

from __future__ import annotations

import numpy as np

from oar.models.fit.one_thread import one_thread
from oar.models.training import Array

DEPENDENT = 1e-12  # sine of an angle that is 0 but for rounding
ROWS = 2_000  # inequalities that are taken up at a time
ROUNDS = 50
FEASIBLE = 1e-9  # how far rounding may break an inequality
STRICT = 1e-6  # how far one must be from equality to be strict


def dependent(rows: Array, intercept: bool = True) -> bool:
    """Report whether some combination of the columns is the same in all rows; without an `intercept`, whether it is 0.

    By a factorisation of the rows themselves: their Gram matrix has only half the digits.
    """
    if len(rows) < rows.shape[1] + intercept:
        return True
    away = rows - rows.mean(axis=0) if intercept else rows
    sizes = np.linalg.norm(away, axis=0)
    if (sizes <= DEPENDENT * np.linalg.norm(rows, axis=0)).any():
        return True
    with one_thread():
        angles = np.linalg.svd(np.linalg.qr(away / sizes, mode="r"), compute_uv=False)
    return bool(angles[-1] <= DEPENDENT * angles[0])


def separates(matrix: Array, rows: Array, shares: Array, intercept: bool = True) -> bool:
    """Report whether some V has (V_y − V_c)·(x, 1) ≥ 0 for every class y that a person has a share in, and > somewhere.

    Without an `intercept` it is (x, 0).

    By linear programming on the inequalities that the logits of `matrix` (k, d + 1) meet least well, and whatever
    others its answer breaks. If even these allow no such V then all do not.
    """
    from scipy.optimize import linprog

    sizes = np.abs(rows).max(axis=0)
    points = np.column_stack([rows / np.where(sizes > 0, sizes, 1.0), np.full(len(rows), float(intercept))])
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    points /= np.where(lengths > 0, lengths, 1.0)
    person, own, other = _comparisons(shares)

    def margins(direction: Array) -> Array:
        logits = points @ direction.T
        return logits[person, own] - logits[person, other]

    def promising(direction: Array) -> bool:
        met = margins(direction)
        return bool(met.min() >= -FEASIBLE and met.max() > STRICT)

    rescaled = matrix * np.append(sizes, 1.0)
    direction = rescaled / max(float(np.abs(rescaled).max()), 1e-300)
    taken = np.zeros(len(person), dtype=bool)
    for _ in range(ROUNDS):
        if promising(direction):
            return True
        met = np.where(taken, np.inf, margins(direction))
        taken[np.argsort(met)[:ROWS]] = True
        some = np.flatnonzero(taken)
        gains = np.zeros((some.size, *matrix.shape))
        gains[np.arange(some.size), own[some]] = points[person[some]]
        gains[np.arange(some.size), other[some]] = -points[person[some]]
        gains = gains.reshape(some.size, -1)
        found = linprog(
            -gains.sum(axis=0),
            A_ub=-gains,
            b_ub=np.zeros(some.size),
            bounds=(-1, 1),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.x is None or (gains @ found.x).max() <= STRICT:
            return False
        direction = found.x.reshape(matrix.shape)
        if taken.all():
            return promising(direction)
    return False


def _comparisons(shares: Array) -> tuple[Array, Array, Array]:
    """Return all (person, class it has a share in, other class), as three arrays."""
    person, own = np.nonzero(shares > 0)
    classes = shares.shape[1]
    other = (own[:, None] + np.arange(1, classes)) % classes
    return np.repeat(person, classes - 1), np.repeat(own, classes - 1), other.ravel()
