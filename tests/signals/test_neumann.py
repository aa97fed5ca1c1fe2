"""The truncated series closes in on the implicit signal, term by term."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import seeds
from support.signal_problems import cosine, softmax_world

from oar.errors import DataError, NumericsError
from oar.signals import Implicit, Memory, Neumann
from oar.signals.backpropagation import sharpness


def relative_error(step, exact):
    return float(np.linalg.norm(step.signal - exact.signal) / np.linalg.norm(exact.signal))


def hessian_at(world, fit):
    units = np.eye(world.training.parameter_count)
    return np.array([world.training.product(fit.parameters, fit.features, unit) for unit in units])


@given(seeds)
@settings(max_examples=6)
def test_more_terms_are_nearer_to_the_exact_signal(seed):
    world = softmax_world(seed)
    exact = world.step(Implicit())
    refitted = Memory(exact.fit.parameters)
    eigenvalues = np.linalg.eigvalsh(hessian_at(world, exact.fit))
    counts, step = (1, 10, 100, 500), 1.0 / eigenvalues[-1]
    errors = [relative_error(world.step(Neumann(terms, step), refitted), exact) for terms in counts]
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    # What is left out is (I − ηH)^K v.
    assert all(
        error <= (1 - step * eigenvalues[0]) ** terms + 1e-9 for error, terms in zip(errors, counts, strict=True)
    )


def test_it_is_the_series_that_it_says_it_is():
    world = softmax_world(1)
    exact = world.step(Implicit())
    shrink = np.eye(world.training.parameter_count) - 0.2 * hessian_at(world, exact.fit)
    expected = sum(0.2 * np.linalg.matrix_power(shrink, power) @ exact.outcome.pull for power in range(7))
    step = world.step(Neumann(terms=7, step=0.2), Memory(exact.fit.parameters))
    np.testing.assert_allclose(step.signal, expected, rtol=1e-10)


def test_rounds_go_on_from_the_last_signal_unless_told_not_to():
    world = softmax_world(2)
    exact = world.step(Implicit())
    for warm, better in ((True, True), (False, False)):
        maker = Neumann(terms=10, warm_start=warm)
        first = world.step(maker, Memory(exact.fit.parameters))
        second = world.step(maker, first.memory)
        assert (relative_error(second, exact) < 0.9 * relative_error(first, exact)) is better


def test_a_few_terms_already_point_the_right_way():
    world = softmax_world(6)
    exact = world.step(Implicit())
    step = world.step(Neumann(terms=50), Memory(exact.fit.parameters))
    assert cosine(step.gradient, exact.gradient) > 0.9


def test_a_step_that_is_too_long_is_reported():
    world = softmax_world(2)
    with pytest.raises(NumericsError, match="diverges at step 50"):
        world.step(Neumann(terms=50, step=50.0))


def test_sharpness_is_the_largest_eigenvalue_with_a_margin():
    world = softmax_world(8)
    fit = world.step(Implicit()).fit
    largest = np.linalg.eigvalsh(hessian_at(world, fit))[-1]
    cold, direction = sharpness(world.training, fit.parameters, fit.features)
    warm, _ = sharpness(world.training, fit.parameters, fit.features, direction)
    assert largest <= cold <= 1.1 * largest * (1 + 1e-12)
    assert cold * (1 - 1e-12) <= warm <= 1.1 * largest * (1 + 1e-12)


@pytest.mark.parametrize("settings", [{"terms": 0}, {"terms": 2.5}, {"step": -1.0}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(DataError, match="must be"):
        Neumann(**settings)
