"""The implicit signal is the derivative of the query's loss through true refits."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import seeds
from support.signal_problems import TIGHT, finite_differences, softmax_world

from oar.errors import DataError
from oar.models.training import Fit
from oar.signals import Implicit, Memory, refit


@given(seeds)
@settings(max_examples=12)
def test_it_matches_finite_differences_through_refits(seed):
    world = softmax_world(seed)
    step = world.step(Implicit())
    people = [0, 7, 23]
    expected = finite_differences(world, people)
    np.testing.assert_allclose(step.gradient[people], expected, rtol=1e-5, atol=1e-6 * np.abs(step.gradient).max())


def test_a_warm_start_changes_the_cost_and_not_the_gradient():
    world = softmax_world(3)
    cold = world.step(Implicit())
    before = world.training.passes
    warm = world.step(Implicit(), cold.memory)
    assert world.training.passes - before <= 4  # one look at the refit, one at H, one at v, one for the gradients
    np.testing.assert_allclose(warm.gradient, cold.gradient, rtol=1e-8, atol=1e-12)


def test_the_loss_is_that_of_the_true_refit():
    world = softmax_world(4)
    step = world.step(Implicit())
    assert step.loss == pytest.approx(refit(world.training, world.moves, world.query, world.target).loss, abs=1e-7)
    assert step.fit.converged
    assert step.own_loss is None


def test_the_note_owns_up_to_a_refit_that_stopped_short():
    world = softmax_world(5)
    outcome = refit(world.training, world.moves, world.query, world.target, None, TIGHT)
    stopped = Fit(outcome.fit.parameters, outcome.fit.features, 1e-3, False)
    object.__setattr__(outcome, "fit", stopped)
    step = Implicit().differentiate(world.training, outcome, Memory(stopped.parameters))
    assert "stopped short, with a gradient of norm 1.0e-03" in step.note


def test_the_note_owns_up_to_damping():
    world = softmax_world(5)
    world.training.damping = 1e-3
    assert "H was damped by 1.0e-03 to be positive, so the gradient is not exact." in world.step(Implicit()).note


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(DataError, match="tolerance: must be a finite number > 0, got 0"):
        Implicit(tolerance=0)
