"""Least squares with u ≥ 0, beside a search over all sets of entries that are above 0."""

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from oar.actions.sets.nonnegative_least_squares import nonnegative_least_squares


def least(matrix, right):
    """The least residual of all supports whose least squares are not below 0."""
    best = np.linalg.norm(right)
    for size in range(1, matrix.shape[1] + 1):
        for chosen in combinations(range(matrix.shape[1]), size):
            part = np.linalg.lstsq(matrix[:, chosen], right)[0]
            if (part >= 0).all():
                best = min(best, np.linalg.norm(matrix[:, chosen] @ part - right))
    return best


@given(st.integers(0, 10_000))
def test_no_support_does_better(seed):
    rng = np.random.default_rng(seed)
    matrix, right = rng.normal(size=(4, 5)), rng.normal(size=4)
    matrix[:, 4] = -matrix[:, 3] * rng.choice([0.0, 1.0])  # as of an entry between equal bounds
    found = nonnegative_least_squares(matrix, right)
    assert (found >= 0).all()
    assert np.linalg.norm(matrix @ found - right) <= least(matrix, right) + 1e-9


@pytest.mark.parametrize("answer", ["elsewhere", "no end"])
def test_nnls_is_not_believed(monkeypatch, answer):
    rng = np.random.default_rng(3)
    matrix, right = rng.normal(size=(4, 5)), rng.normal(size=4)
    told = nonnegative_least_squares(matrix, right)

    def nnls(matrix, right, maxiter=None):
        if answer == "no end":
            raise RuntimeError("too many iterations")
        return np.full(matrix.shape[1], 7.0), 0.0

    monkeypatch.setattr(scipy.optimize, "nnls", nnls)
    np.testing.assert_allclose(nonnegative_least_squares(matrix, right), told, atol=1e-9)
