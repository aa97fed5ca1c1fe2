"""The descent and its line searches on a retraining with a closed form: the average of everybody's features."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closed_forms import AverageTraining, limits_of, objective_of, settings_of, wave

from oar.actions.sets.norms import Norm
from oar.progress import silent
from oar.solvers.descent.descent import SEARCHES, DescentSettings, Way, armijo, descend, exact


def improved(training, query, limits, settings=None, start=None, on_step=silent):
    start = np.zeros((training.size + 1, training.dimensions)) if start is None else start
    return descend(objective_of(training, query), limits, start, settings or settings_of(), on_step)


def nearest_average(training, query, norm, radii):
    """Return ½ min ‖θ + s − x†‖² over ‖s‖_p ≤ r̄, the average of the radii: by projecting x† − θ onto that ball."""
    radius = training.weights @ radii
    away = query - training.weights @ training.features
    left = away - Norm(norm).project(away[None], np.array([radius]))[0]
    return 0.5 * float(left @ left)


@given(seed=st.integers(0, 10**6), norm=st.sampled_from([1, 2, np.inf]))
@settings(max_examples=60, deadline=None)
def test_the_descent_ends_in_the_closed_form(seed, norm):
    rng = np.random.default_rng(seed)
    size, dimensions = rng.integers(1, 8), rng.integers(1, 4)
    training = AverageTraining(rng.normal(size=(size, dimensions)), rng.uniform(0.2, 2.0, size))
    radii = rng.uniform(0, 1.5, size) * (rng.random(size) < 0.8)
    query = rng.normal(0, 2, size=dimensions)
    limits = limits_of(norm, radii, training.weights)
    found = improved(training, query, limits)
    best = nearest_average(training, query, norm, radii)
    assert found.loss == pytest.approx(best, rel=1e-6, abs=1e-10)
    assert (limits.norm.length(found.moves) <= limits.radii * (1 + 1e-12)).all()
    assert found.gap >= -1e-12  # Frank–Wolfe's gap bounds what convexity leaves to gain
    assert found.loss - best <= found.gap + 1e-12


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_frank_wolfe_comes_near_and_its_gap_says_how_near(seed):
    rng = np.random.default_rng(seed)
    training = AverageTraining(rng.normal(size=(5, 2)))
    radii, query = rng.uniform(0.1, 1.0, 5), rng.normal(0, 3, size=2)
    found = improved(training, query, limits_of(2, radii, training.weights), settings_of("frank-wolfe", tolerance=1e-6))
    best = nearest_average(training, query, 2, radii)
    assert best - 1e-12 <= found.loss <= best + found.gap + 1e-12
    assert found.gap <= max(1e-6 * found.loss, 1e-3)


def test_a_query_that_moves_takes_its_own_part_of_the_way():
    training = AverageTraining([[0.0, 0.0], [0.0, 2.0]])
    found = improved(training, np.array([4.0, 1.0]), limits_of(2, [1.0, 1.0], training.weights, query=0.5))
    assert found.loss == pytest.approx(0.5 * (4 - 1 - 0.5) ** 2)
    np.testing.assert_allclose(found.moves[-1], [-0.5, 0.0], atol=1e-9)


@pytest.mark.parametrize("response", ["spectral", "frank-wolfe"])
def test_losses_never_rise_and_every_step_is_told(response):
    rng = np.random.default_rng(3)
    wavy = AverageTraining(rng.normal(size=(6, 2)), loss=wave)
    told = []
    found = improved(
        wavy,
        np.array([1.0, 0.5]),
        limits_of(2, np.full(6, 2.0), wavy.weights),
        settings_of(response, steps=25),
        on_step=lambda number, loss, gap: told.append((number, loss, gap)),
    )
    assert (np.diff(found.losses) < 0).all()
    assert [number for number, _, _ in told] == list(range(1, found.steps + 1))
    assert [loss for _, loss, _ in told] == found.losses[1:]
    assert told[-1][2] == found.gap


def test_why_it_ended():
    training = AverageTraining([[0.0], [2.0]])
    query, limits = np.array([5.0]), limits_of(2, [1.0, 1.0], training.weights)
    assert improved(training, query, limits).ended == "closed"
    assert improved(training, query, limits, settings_of(steps=0)).ended == "steps"
    late = DescentSettings("spectral", 10, 1e-12, time.monotonic() - 1.0)
    assert improved(training, query, limits, late).ended == "time"
    nothing = limits_of(2, [0.0, 0.0], training.weights)
    assert improved(training, query, nothing).ended == "closed"


def test_a_known_outcome_is_not_refitted():
    training = AverageTraining([[0.0], [2.0]])
    stay, query = np.zeros((3, 1)), np.array([5.0])
    objective = objective_of(training, query)
    began = objective.refit(stay, None, 1e-8)
    training.fitted.clear()
    limits = limits_of(2, [0.0, 0.0], training.weights)
    descend(objective, limits, stay, settings_of(), None, began)
    assert not training.fitted


# -- line searches ---------------------------------------------------------------------------------------------------


def way_towards(training, query, aim, limits=None):
    stay = np.zeros((training.size + 1, training.dimensions))
    objective = objective_of(training, query)
    point = objective.differentiate(objective.refit(stay, None, 1e-8), None)
    limits = limits or limits_of(2, np.full(training.size, np.inf), training.weights)
    objective.refits = 0
    return Way(objective, limits, point, aim, limits.slope(point.gradient, stay, aim), 1e-8)


def aim_of(training, *way):
    aim = np.zeros((training.size + 1, training.dimensions))
    aim[:-1] = way
    return aim


def test_armijo_takes_the_whole_way_where_that_falls_enough_and_a_part_of_it_where_not():
    training = AverageTraining([[0.0, 0.0], [0.0, 0.0]])
    query = np.array([1.0, 0.0])
    way = way_towards(training, query, aim_of(training, 1.5, 0.0))
    assert armijo(way).loss == pytest.approx(0.5 * 0.5**2)
    assert way.objective.refits == 1
    way = way_towards(training, query, aim_of(training, 10.0, 0.0))
    found = armijo(way)
    assert found.loss <= 0.5 + 1e-4 * (found.moves[0, 0] / 10) * way.slope
    assert way.objective.refits == 2  # the parabola through two values and a slope is the loss itself
    assert found.moves[0, 0] == pytest.approx(1.0)


def test_an_exact_search_finds_the_least_loss_on_the_way():
    training = AverageTraining([[0.0, 0.0]], loss=wave)
    query = np.array([1.2, 0.4])
    way = way_towards(training, query, aim_of(training, 1.0, 0.4))
    if way.slope > 0:
        way = way_towards(training, query, aim_of(training, -1.0, -0.4))
    found = exact(way)
    shares = np.linspace(0, 1, 2001)
    best = min(wave(share * way.aim[0], query)[0] for share in shares)
    assert found.loss <= best + 1e-6


@pytest.mark.parametrize("name", SEARCHES)
def test_a_way_that_does_not_fall_is_not_gone(name):
    training = AverageTraining([[0.0], [0.0]])
    way = way_towards(training, np.array([1.0]), aim_of(training, -1.0))
    assert way.slope > 0
    assert SEARCHES[name](way) is None
    assert way.objective.refits == 0


@pytest.mark.parametrize("name", SEARCHES)
def test_points_at_which_no_refit_comes_to_an_end_are_passed_over(name):
    training = AverageTraining([[0.0], [0.0]], fails=lambda theta: theta[0] > 0.3)
    way = way_towards(training, np.array([1.0]), aim_of(training, 1.0))
    found = SEARCHES[name](way)
    assert found.converged
    assert 0 < found.moves[0, 0] <= 0.3
    assert found.loss < 0.5


def test_between_two_points_of_a_ball_one_stays_in_it():
    rng = np.random.default_rng(0)
    training = AverageTraining(rng.normal(size=(50, 7)))
    limits = limits_of(2, np.full(50, 0.1), training.weights)
    aim = limits.project(rng.normal(size=(51, 7)))
    way = way_towards(training, rng.normal(size=7), aim, limits)
    for share in np.linspace(0, 1, 11):
        assert (limits.norm.length(way.at(share).moves) <= limits.radii * (1 + 1e-15)).all()
