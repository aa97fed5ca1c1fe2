"""The spectral step length: of a quadratic it is an inverse Rayleigh quotient, and it never exceeds the longest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oar.models.fit.quasi_newton import spectral_length

LENGTHS = st.floats(0.0, 1e6)
CURVATURES = st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-200 or value == 0.0)


def test_it_is_the_inverse_curvature_of_a_quadratic_along_an_eigenvector():
    hessian, step = np.diag([4.0, 0.5]), np.array([3.0, 0.0])
    assert spectral_length(step @ step, step @ hessian @ step, 10.0) == 0.25


def test_it_is_between_the_inverse_eigenvalues():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    hessian = root @ root.T + np.eye(5)
    least, largest = np.linalg.eigvalsh(hessian)[[0, -1]]
    for step in rng.normal(size=(20, 5)):
        assert 1 / largest <= spectral_length(step @ step, step @ hessian @ step, np.inf) <= 1 / least


@pytest.mark.parametrize("curvature", [0.0, -1.0, float("nan")])
def test_without_positive_curvature_it_is_the_longest(curvature):
    assert spectral_length(2.0, curvature, 7.0) == 7.0
    assert spectral_length(np.array([2.0]), np.array([curvature]), np.array([7.0])).tolist() == [7.0]


@given(st.lists(st.tuples(LENGTHS, CURVATURES, LENGTHS), min_size=1, max_size=20))
def test_arrays_and_numbers_agree_to_the_last_bit(cases):
    squared, curvature, longest = (np.array(column) for column in zip(*cases, strict=True))
    with np.errstate(over="ignore"):
        together = spectral_length(squared, curvature, longest)
    assert together.tolist() == [spectral_length(*case) for case in cases]


def test_numbers_stay_numbers_and_overflow_is_the_longest():
    assert type(spectral_length(1.0, 2.0, 3.0)) is float
    assert spectral_length(1e300, 1e-300, 3.0) == 3.0
