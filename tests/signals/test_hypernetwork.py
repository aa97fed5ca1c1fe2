"""The hypernetwork learns the exact gradient's average over each group, from refits alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import seeds
from support.signal_problems import softmax_world

import oar
from oar.errors import DataError, NumericsError, OptionError
from oar.models.autodiff.mlp import MLP
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.training import Fit
from oar.signals import Hypernetwork, Implicit, Memory
from oar.signals.hypernetwork import Groups, fit_response_map, target_codes


class OnlyRefits:
    """A training that can be refitted and judged, but not differentiated."""

    def __init__(self, training):
        self._training, self.weights = training, training.weights
        self.size, self.dimensions, self.parameter_count = training.size, training.dimensions, training.parameter_count
        self.start, self.moved, self.fit, self.goal = training.start, training.moved, training.fit, training.goal


def group_average(world, gradient):
    groups = Groups(world.labels, world.training.weights)
    return groups.means(gradient, world.training.dimensions)[world.labels]


@given(seeds)
@settings(max_examples=6)
def test_it_is_the_exact_gradient_averaged_over_groups(seed):
    world = softmax_world(seed)
    expected = group_average(world, world.step(Implicit()).gradient)
    step = world.step(Hypernetwork(groups=world.labels, radius=1e-3, tolerance=1e-12))
    np.testing.assert_allclose(step.gradient, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert step.own_loss == pytest.approx(step.loss, rel=1e-6)
    assert step.signal is None


def test_the_default_radius_is_near_enough():
    world = softmax_world(1)
    expected = group_average(world, world.step(Implicit()).gradient)
    gradient = world.step(Hypernetwork(groups=world.labels)).gradient
    assert np.linalg.norm(gradient - expected) < 0.02 * np.linalg.norm(expected)


def test_it_needs_nothing_but_refits():
    world = softmax_world(2)
    expected = world.step(Hypernetwork(groups=world.labels)).gradient
    world = softmax_world(2)
    world.training = OnlyRefits(world.training)
    np.testing.assert_allclose(world.step(Hypernetwork(groups=world.labels)).gradient, expected, rtol=1e-6)


def test_rounds_nearby_reuse_the_map_and_rounds_far_away_learn_a_new_one():
    world = softmax_world(3)
    maker = Hypernetwork(groups=world.labels, radius=0.1)
    first = world.step(maker)
    world.moves = world.moves + 0.02
    near = world.step(maker, first.memory)
    assert len(near.memory.own.summaries) == len(first.memory.own.summaries) + 1
    assert "foretold this refit" in near.note
    world.moves = world.moves + np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])[world.labels]
    far = world.step(maker, near.memory)
    assert len(far.memory.own.summaries) == len(first.memory.own.summaries)
    assert not np.array_equal(far.memory.own.centre, first.memory.own.centre)


def test_hidden_units_follow_a_wide_bend_better_than_a_plane():
    random = np.random.default_rng(0)
    places, probes = random.uniform(-1, 1, (200, 2)), random.uniform(-1, 1, (50, 2))

    def bent(points):
        return np.stack([np.sin(2 * points[:, 0]), points[:, 0] * points[:, 1]], axis=1)

    errors = []
    for hidden in (0, 40):
        learned = fit_response_map(places, bent(places), np.zeros(2), 1.0, hidden, seed=0)
        errors.append(float(np.abs(learned(probes) - bent(probes)).max()))
        one, slope = probes[0], np.array([0.3, -1.2])
        numeric = [(learned(one + bump) - learned(one - bump)) @ slope / 2e-6 for bump in 1e-6 * np.eye(2)]
        np.testing.assert_allclose(learned.pull_back(one, slope), numeric, rtol=1e-5, atol=1e-7)
    assert errors[1] < 0.1 * errors[0]


def test_fewer_pairs_than_numbers_see_part_of_the_gradient():
    world = softmax_world(4)
    expected = group_average(world, world.step(Implicit()).gradient)
    partly = world.step(Hypernetwork(groups=world.labels, pairs=4)).gradient
    wholly = world.step(Hypernetwork(groups=world.labels)).gradient
    assert np.linalg.norm(wholly - expected) < np.linalg.norm(partly - expected) < 1.2 * np.linalg.norm(expected)


def test_groups_come_from_the_targets_or_are_asked_for():
    world = softmax_world(5)
    given_groups = world.step(Hypernetwork(groups=world.labels.astype(str), radius=1e-3))
    world.training.targets = np.eye(3)[world.labels]
    from_targets = world.step(Hypernetwork(radius=1e-3), Memory(given_groups.fit.parameters))
    np.testing.assert_allclose(from_targets.gradient, given_groups.gradient, rtol=1e-3, atol=1e-4)
    training = OnlyRefits(world.training)
    with pytest.raises(OptionError, match="does not say its people's targets, so Hypernetwork needs `groups`"):
        Hypernetwork().at(training, None, world.query, world.target)
    with pytest.raises(DataError, match="groups: must be one label for each of the 40 people"):
        world.step(Hypernetwork(groups=[0, 1]))


def test_many_different_targets_are_split_at_the_median():
    assert target_codes(np.arange(100.0)[:, None]).sum() == 50


def test_a_refit_that_jumps_to_another_minimum_is_tried_again_closer_by():
    world = softmax_world(6)
    smooth = world.step(Hypernetwork(groups=world.labels, radius=0.1))
    plain = world.training.fit

    def jumping(reach):
        def fit(features, start, tolerance):
            honest = plain(features, start, tolerance)
            far = abs(np.asarray(features) - smooth.fit.features).max() > reach
            return Fit(honest.parameters + 5.0 * far, features, honest.residual, honest.converged)

        return fit

    world.training.fit = jumping(0.05)
    rough = world.step(Hypernetwork(groups=world.labels, radius=0.1), Memory(smooth.fit.parameters))
    np.testing.assert_allclose(rough.gradient, smooth.gradient, atol=0.02 * np.abs(smooth.gradient).max())
    world.training.fit = jumping(0.0)
    with pytest.raises(NumericsError, match="radius: must be small enough for refits to follow the moves smoothly"):
        world.step(Hypernetwork(groups=world.labels, radius=0.1), Memory(smooth.fit.parameters))


def test_a_group_of_no_weight_is_left_alone():
    groups = Groups(np.array([0, 0, 1]), np.array([0.5, 0.5, 0.0]))
    moves = np.ones((3, 2))
    np.testing.assert_array_equal(groups.means(moves, 2), [[1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(groups.pull_back(np.ones((2, 2)))[2], [0.0, 0.0])


@pytest.mark.parametrize("settings", [{"pairs": 0}, {"radius": 0.0}, {"hidden": -1}, {"tolerance": 0.0}, {"seed": -1}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(DataError, match="must be"):
        Hypernetwork(**settings)


@pytest.mark.parametrize("model", [MLP((2,), l2=0.1), PrototypeNetwork(), PrototypeNetwork((2,), train_embedding=True)])
def test_groups_are_the_classes_for_every_model(model):
    rng = np.random.default_rng(0)
    codes = np.arange(12) % 3
    people = oar.Population(2 * np.eye(3)[codes][:, :2] + rng.normal(size=(12, 2)), codes)
    problem = oar.Problem(people, model, oar.Query([0.5, 0.5], 1), oar.Perturb(0.2))
    result = oar.collective(problem, signal="hypernetwork", solver="one-shot")
    assert result.loss < result.loss_before
