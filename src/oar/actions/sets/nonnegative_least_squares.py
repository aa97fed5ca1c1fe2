"""Least squares with u ≥ 0, as nearest points of polyhedra need them: SciPy's NNLS, not believed.

NNLS ends now and then with a point that is not where it says, on rows that nearly depend on each other (SciPy 1.16 on
processors without AVX-512 told a residual of 0 where it was 9). SciPy's bounded least squares is slower, and does not.
"""

from __future__ import annotations

import warnings

import numpy as np

from oar.actions.sets.norms import Array

AS_SAID = 1e-7  # of the right side's length: by which the residual that NNLS tells may differ from the one that is


def nonnegative_least_squares(matrix: Array, right: Array) -> Array:
    """Return u ≥ 0 with the least ‖matrix u − right‖.

    Raises:
        RuntimeError: where neither of SciPy's two methods ends.

    >>> nonnegative_least_squares(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    array([1., 0.])
    """
    from scipy.optimize import lsq_linear, nnls

    most = 100 * max(matrix.shape)
    try:
        found, told = nnls(matrix, right, maxiter=most)
        if abs(np.linalg.norm(matrix @ found - right) - told) <= AS_SAID * np.linalg.norm(right):
            return np.asarray(found)
    except RuntimeError:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = lsq_linear(matrix, right, (0.0, np.inf), method="bvls", tol=1e-15, max_iter=most)
    if not again.success:
        raise RuntimeError(f"least squares with u ≥ 0: no end after {most} steps ({again.message}).")
    return np.maximum(again.x, 0.0)
