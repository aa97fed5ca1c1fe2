"""Repeated retraining settles where theory says: against fixed points in closed form, solved by scipy."""

import numpy as np
import pytest
from scipy.optimize import brentq

import oar
from oar.worlds.operators.stable import PerformativelyStable

RNG = np.random.default_rng(0)
X, R = RNG.normal(size=30), RNG.uniform(0.0, 1.0, 30)
Y = 1.5 * X + 0.3 * RNG.normal(size=30) + 0.5 * R
L2 = 0.2


def respond_by(strength):
    """Everyone moves by strength · w · r: the steeper the model, the farther those who can."""
    return lambda state: oar.Population((X + strength * state.parameters[0, 0] * R)[:, None], Y)


def slope_after(strength, slope):
    """The ridge slope that is fitted to people who responded to another one, in closed form."""
    moved = X + strength * slope * R
    return np.cov(moved, Y, bias=True)[0, 1] / (moved.var() + L2)


def settled(strength, **settings):
    pytest.importorskip("jax")
    operator = PerformativelyStable(oar.models.Ridge(l2=L2), **settings)
    state = operator.begin(oar.Population(X[:, None], Y))
    respond = respond_by(strength)
    return operator.retrain(state, respond(state), 0, respond, np.random.default_rng(0))


def test_repeated_refits_converge_linearly_to_the_fixed_point():
    state = settled(0.3, tolerance=1e-10)
    fixed = brentq(lambda slope: slope_after(0.3, slope) - slope, 0, 3, xtol=1e-14)
    assert state.memory.converged
    assert state.parameters[0, 0] == pytest.approx(fixed, rel=1e-8)
    assert state.parameters[0, 1] == pytest.approx(Y.mean() - fixed * (X + 0.3 * fixed * R).mean(), rel=1e-8)
    moved = np.array(state.memory.moved)
    rate = abs(slope_after(0.3, fixed + 1e-6) - slope_after(0.3, fixed - 1e-6)) / 2e-6
    assert 0.01 < rate < 0.5
    np.testing.assert_allclose((moved[1:] / moved[:-1])[3:7], rate, rtol=0.02)
    assert state.memory.steps == moved.size


def test_repeated_gradients_reach_the_same_point():
    found = settled(0.3, method="gradient", tolerance=1e-9)
    np.testing.assert_allclose(found.parameters, settled(0.3, tolerance=1e-10).parameters, rtol=1e-7)
    assert found.memory.converged
    slow = settled(0.3, method="gradient", rate=0.05, tolerance=1e-9)
    np.testing.assert_allclose(slow.parameters, found.parameters, rtol=1e-6)
    assert slow.memory.steps > found.memory.steps


def test_where_nobody_responds_one_refit_is_enough():
    state = settled(0.0)
    assert state.memory.steps == 1
    assert state.memory.converged
    assert state.memory.moved[0] < 1e-12


def test_what_does_not_settle_is_said():
    """A strong response makes the slope jump to and fro."""
    state = settled(-8.0, most_steps=30)
    fixed = brentq(lambda slope: slope_after(-8.0, slope) - slope, -3, 3)
    rate = abs(slope_after(-8.0, fixed + 1e-6) - slope_after(-8.0, fixed - 1e-6)) / 2e-6
    assert rate > 1
    assert not state.memory.converged
    assert state.memory.steps == 30
    assert np.isfinite(state.flat).all()


def test_centroids_by_both_methods():
    """Class means of people who go a share of the way towards the other class's mean."""
    rng = np.random.default_rng(1)
    codes = np.repeat([0, 1], 10)
    features = rng.normal(size=(20, 2)) + 3.0 * codes[:, None]
    people = oar.Population(features, codes)

    def respond(state):
        return oar.Population(features + 0.2 * state.parameters.positions[1 - codes], codes)

    means = oar.NearestCentroid().fit(people).positions
    expected = np.linalg.solve(np.array([[1.0, -0.2], [-0.2, 1.0]]), means)  # μ_c = m_c + 0.2 μ_{1−c}
    for method in ("refit", "gradient"):
        operator = PerformativelyStable(oar.NearestCentroid(), method, tolerance=1e-9)
        state = operator.begin(people)
        state = operator.retrain(state, respond(state), 0, respond, rng)
        np.testing.assert_allclose(state.parameters.positions, expected, rtol=1e-7)
        assert state.memory.converged


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "descent"},
        {"rate": 0.1},
        {"method": "gradient", "rate": 0.0},
        {"tolerance": 0.0},
        {"most_steps": 0},
        {"method": "gradient", "model": oar.models.Scaled(oar.SoftmaxRegression())},
    ],
)
def test_bad_settings(settings):
    with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match="method|rate|tolerance|most_steps|model"):
        PerformativelyStable(**{"model": oar.NearestCentroid()} | settings)
