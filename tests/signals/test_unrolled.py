"""Unrolling differentiates its own path exactly, whatever is kept of it, and tends to the implicit signal."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.centroid_problems import seeds
from support.signal_problems import cosine, softmax_world

from oar.errors import DataError, NumericsError, OptionError
from oar.signals import Alternating, Implicit, Memory, Unrolled
from oar.signals.backpropagation import spacing


def end_of_path(world, moves, start, steps, step, momentum):
    """The optimiser written out plainly: heavy ball from `start`."""
    features = world.training.moved(moves)
    parameters, velocity = start, np.zeros_like(start)
    for _ in range(steps):
        velocity = momentum * velocity - step * world.training.risk_gradient(parameters, features)[1]
        parameters = parameters + velocity
    return world.training.goal(parameters, world.query, world.target)[0]


def path_differences(world, person, start, *optimiser, size=1e-5):
    slopes = []
    for axis in range(world.training.dimensions):
        bump = np.zeros_like(world.moves)
        bump[person, axis] = size
        ahead = end_of_path(world, world.moves + bump, start, *optimiser)
        behind = end_of_path(world, world.moves - bump, start, *optimiser)
        slopes.append((ahead - behind) / (2 * size))
    return np.array(slopes) / world.training.weights[person]


@given(seeds, st.integers(1, 25), st.sampled_from([0.0, 0.5, 0.9]), st.integers(1, 30))
@settings(max_examples=15)
def test_it_is_the_derivative_of_its_own_path(seed, steps, momentum, every):
    world = softmax_world(seed)
    step = world.step(Unrolled(steps, 0.2, momentum, checkpoint_every=every))
    start = world.training.start()
    assert step.own_loss == pytest.approx(end_of_path(world, world.moves, start, steps, 0.2, momentum), rel=1e-12)
    expected = path_differences(world, 5, start, steps, 0.2, momentum)
    np.testing.assert_allclose(step.gradient[5], expected, rtol=1e-6, atol=1e-7 * np.abs(step.gradient).max())


@given(seeds, st.integers(1, 4))
@settings(max_examples=8)
def test_alternating_is_the_derivative_of_its_inner_steps(seed, inner):
    world = softmax_world(seed)
    own = 0.1 * np.random.default_rng(seed).normal(size=world.training.parameter_count)
    memory = Memory(world.training.start(), None, (0.2, own), "alternating")
    step = world.step(Alternating(inner), memory)
    expected = path_differences(world, 5, own, inner, 0.2, 0.0)
    np.testing.assert_allclose(step.gradient[5], expected, rtol=1e-6, atol=1e-7 * np.abs(step.gradient).max())


def test_longer_paths_are_nearer_to_the_implicit_gradient():
    world = softmax_world(1)
    exact = world.step(Implicit())
    refitted = Memory(exact.fit.parameters)
    errors = []
    for steps in (25, 100, 400):
        step = world.step(Unrolled(steps), refitted)
        errors.append(np.linalg.norm(step.gradient - exact.gradient) / np.linalg.norm(exact.gradient))
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < 1e-3
    np.testing.assert_allclose(step.signal, exact.signal, rtol=1e-2, atol=1e-3 * np.abs(exact.signal).max())
    assert step.own_loss == pytest.approx(step.loss, rel=1e-3)


def test_checkpoints_cost_passes_and_change_nothing():
    world = softmax_world(2)
    cost, gradients = {}, {}
    for every in (1, 7, 50):
        before = world.training.passes
        gradients[every] = world.step(
            Unrolled(50, 0.2, checkpoint_every=every), Memory(world.training.start())
        ).gradient
        cost[every] = world.training.passes - before
        world = softmax_world(2)
    np.testing.assert_array_equal(gradients[1], gradients[7])
    np.testing.assert_array_equal(gradients[1], gradients[50])
    assert cost[1] < cost[7] < cost[1] + 50
    assert spacing(10_000, 10**6) == 100


def test_the_estimated_step_is_kept_for_later_rounds():
    world = softmax_world(3)
    first = world.step(Unrolled(20))
    before = world.training.passes
    second = world.step(Unrolled(20), first.memory)
    assert world.training.passes - before <= 60
    np.testing.assert_array_equal(first.gradient, second.gradient)


def test_the_note_tells_both_losses():
    step = softmax_world(4).step(Unrolled(10))
    assert f"a loss of {step.own_loss:.6g} against {step.loss:.6g}" in step.note
    assert step.own_loss != step.loss


def test_alternating_goes_on_from_its_own_parameters():
    world = softmax_world(5)
    maker, memory = (
        Alternating(step=0.1),
        Memory(world.training.start(), None, (0.1, world.training.start()), "alternating"),
    )
    distances = []
    for _ in range(200):
        step = world.step(maker, memory, 1e-9)
        memory = step.memory
        distances.append(float(np.linalg.norm(memory.own[1] - step.fit.parameters)))
    assert distances[-1] < distances[100] < distances[0]


def test_memory_of_another_maker_is_not_mistaken_for_ones_own():
    world = softmax_world(6)
    left = world.step(Implicit())
    for maker in (Unrolled(30), Alternating()):
        other = world.step(Alternating() if maker.name == "unrolled" else Unrolled(30))
        fresh, after = world.step(maker, Memory(left.fit.parameters)), world.step(maker, other.memory)
        assert cosine(fresh.gradient, after.gradient) == pytest.approx(1.0, abs=1e-6)


def test_a_step_that_is_too_long_is_reported():
    with pytest.raises(NumericsError, match="step: must be below 2/‖H‖"):
        softmax_world(1).step(Unrolled(2000, step=100.0))


def test_a_closed_form_is_refused():
    world = softmax_world(1)

    class Closed:
        name = "class means"

        def closed_form(self, *data):
            return data

    world.training.model = Closed()
    with pytest.raises(OptionError, match="'unrolled' does not apply here: class means is fitted in closed form"):
        world.step(Unrolled())


@pytest.mark.parametrize("settings", [{"steps": 0}, {"step": 0.0}, {"momentum": 1.0}, {"checkpoint_every": 0}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(DataError, match="must be"):
        Unrolled(**settings)
