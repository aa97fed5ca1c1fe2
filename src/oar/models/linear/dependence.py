"""Linear dependence of columns: with it, no fit without a regulariser is the only one."""

from __future__ import annotations

import numpy as np

from oar.models.fit.one_thread import one_thread
from oar.models.training import Array

DEPENDENT = 1e-12  # sine of an angle that is 0 but for rounding


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
