"""What pairs tell of H⁻¹: exact where they have been seen, symmetric and positive everywhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oar.models.fit.quasi_newton import PAIRS, InverseCurvature


def curvature(seed, size=6):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T + 0.1 * np.eye(size)


@given(seed=st.integers(0, 10_000))
def test_symmetric_positive_and_right_about_the_last_pair(seed):
    rng, hessian = np.random.default_rng(seed), curvature(seed)
    inverse = InverseCurvature(lambda vector: 0.5 * vector)
    steps = rng.normal(size=(4, 6))
    for step in steps:
        inverse.learn(step, hessian @ step)
    matrix = np.stack([inverse(unit) for unit in np.eye(6)], axis=1)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-8 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_allclose(inverse(hessian @ steps[-1]), steps[-1], atol=1e-8)


@given(seed=st.integers(0, 10_000))
def test_conjugate_pairs_give_the_whole_inverse(seed):
    hessian = curvature(seed)
    inverse = InverseCurvature(lambda vector: vector)
    for axis in np.linalg.eigh(hessian)[1].T:  # eigenvectors are conjugate
        inverse.learn(axis, hessian @ axis)
    np.testing.assert_allclose(
        np.stack([inverse(unit) for unit in np.eye(6)]), np.linalg.inv(hessian), rtol=1e-6, atol=1e-8
    )


def test_pairs_without_curvature_are_ignored_and_old_ones_forgotten():
    inverse = InverseCurvature(lambda vector: vector)
    inverse.learn(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    np.testing.assert_array_equal(inverse(np.array([2.0, 3.0])), [2.0, 3.0])
    for scale in range(1, PAIRS + 2):
        inverse.learn(np.array([1.0, 0.0]), np.array([float(scale), 0.0]))
    np.testing.assert_allclose(inverse(np.array([1.0, 0.0])), [1 / (PAIRS + 1), 0.0])
    assert len(inverse._pairs) == PAIRS
