import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

import oar
from oar.actions.sets.norms import Norm, euclidean

NORMS = [Norm(1.0), Norm(2.0), Norm(np.inf)]
finite = st.floats(-1e3, 1e3)
vectors = arrays(np.float64, st.integers(1, 6), elements=finite)
radii = st.floats(0, 1e3)
norms = st.sampled_from(NORMS)


@given(vectors, norms)
def test_length_is_numpys(vector, norm):
    assert norm.length(vector) == pytest.approx(np.linalg.norm(vector, ord=norm.p), rel=1e-12)


@given(vectors, radii, norms)
def test_projection_is_in_the_ball_and_leaves_what_is_inside(vector, radius, norm):
    projected = norm.project(vector, radius)
    assert norm.length(projected) <= radius * (1 + 1e-12) + 1e-12
    if norm.length(vector) <= radius:
        np.testing.assert_allclose(projected, vector, atol=1e-12)


@given(vectors, vectors, radii, norms)
def test_projection_is_nearest(vector, other, radius, norm):
    """The projection P satisfies ⟨v − P, q − P⟩ ≤ 0 for every q in the ball, and only it does."""
    if vector.shape != other.shape:
        return
    inside = norm.project(other, radius)
    projected = norm.project(vector, radius)
    scale = 1 + np.linalg.norm(vector) * (np.linalg.norm(inside) + np.linalg.norm(projected) + 1)
    assert (vector - projected) @ (inside - projected) <= 1e-10 * scale


@given(vectors, vectors, radii, norms)
def test_linear_maximiser_beats_every_point_of_the_ball(gradient, other, radius, norm):
    if gradient.shape != other.shape:
        return
    best = norm.maximise(gradient, radius)
    assert norm.length(best) <= radius * (1 + 1e-12)
    assert gradient @ best >= gradient @ norm.project(other, radius) - 1e-7
    # Hölder: the maximum is r‖g‖ in the dual norm.
    assert gradient @ best == pytest.approx(radius * norm.dual.length(gradient), rel=1e-9, abs=1e-9)


def test_linear_maximiser_stays_at_a_zero_gradient():
    for norm in NORMS:
        assert not norm.maximise(np.zeros(3), 2.0).any()


@given(vectors, vectors, radii, norms)
def test_farthest_point_beats_every_point_of_the_ball(offset, other, radius, norm):
    if offset.shape != other.shape:
        return
    shift = norm.farthest(offset, radius)
    assert norm.length(shift) == pytest.approx(radius, rel=1e-12)
    reached = np.linalg.norm(offset + shift)
    assert reached >= np.linalg.norm(offset + norm.project(other, radius)) - 1e-9 * (1 + reached)
    assert norm.farthest_distance(offset, radius) == pytest.approx(reached, rel=1e-12)


@given(vectors, radii, norms)
def test_nearest_distance_is_the_distance_to_the_projection(offset, radius, norm):
    projected = norm.project(-offset, radius)
    expected = np.linalg.norm(offset + projected)
    assert norm.nearest_distance(offset, radius) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_nearest_distance_over_many_radii_is_each_of_them():
    offset, many = np.array([1.0, -2.0, 0.5]), np.linspace(0, 4, 9)
    for norm in NORMS:
        each = [norm.nearest_distance(offset, radius) for radius in many]
        np.testing.assert_allclose(norm.nearest_distance(offset, many), each, rtol=1e-15)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_projection_agrees_with_slsqp(p):
    rng = np.random.default_rng(3)
    for _ in range(5):
        vector, radius = rng.normal(size=3), 0.7
        if p == 1:  # split into positive and negative parts, so that the limit is smooth
            limits = [{"type": "ineq", "fun": lambda z, r=radius: r - z.sum()}]
            found = minimize(
                lambda z, v=vector: np.sum((z[:3] - z[3:] - v) ** 2),
                np.zeros(6),
                bounds=[(0, None)] * 6,
                constraints=limits,
                options={"ftol": 1e-14},
            ).x
            found = found[:3] - found[3:]
        elif p == 2:
            limits = [{"type": "ineq", "fun": lambda z, r=radius: r**2 - z @ z}]
            found = minimize(
                lambda z, v=vector: np.sum((z - v) ** 2), np.zeros(3), constraints=limits, options={"ftol": 1e-14}
            ).x
        else:
            found = minimize(lambda z, v=vector: np.sum((z - v) ** 2), np.zeros(3), bounds=[(-radius, radius)] * 3).x
        np.testing.assert_allclose(Norm(float(p)).project(vector, radius), found, atol=2e-5)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_lengths_neither_overflow_nor_vanish(size):
    assert euclidean(size * np.array([3.0, 4.0])) == pytest.approx(5 * size, rel=1e-14)
    for norm in NORMS:
        far = norm.farthest_distance(size * np.array([3.0, 4.0]), size)
        assert far == pytest.approx(size * norm.farthest_distance(np.array([3.0, 4.0]), 1.0), rel=1e-14)


@pytest.mark.parametrize("value", [0, 3, 1.5, -1, "two", None, float("nan"), True])
def test_other_norms_are_refused(value):
    with pytest.raises(oar.errors.OptionError, match="norm: must be 1, 2 or numpy.inf"):
        Norm.of(value)
