"""Gradient matching: along g, as long as the best multiple of g can be."""

import numpy as np
from support.signal_problems import cosine, softmax_world

from oar.signals import GradientMatching, Implicit, Memory


def test_its_signal_points_along_g_and_has_the_best_length():
    world = softmax_world(1)
    exact = world.step(Implicit())
    step = world.step(GradientMatching(), Memory(exact.fit.parameters))
    pull = step.outcome.pull
    assert cosine(step.signal, pull) > 1 - 1e-12

    def energy(signal):
        """½ vᵀHv − gᵀv, which H⁻¹g minimises."""
        bend = world.training.product(step.fit.parameters, step.fit.features, signal)
        return 0.5 * signal @ bend - pull @ signal

    assert energy(exact.signal) <= energy(step.signal)
    assert energy(step.signal) <= min(energy(0.9 * step.signal), energy(1.1 * step.signal))


def test_it_costs_two_passes_and_points_downhill():
    for seed in range(5):
        world = softmax_world(seed)
        exact = world.step(Implicit())
        before = world.training.passes
        step = GradientMatching().differentiate(world.training, exact.outcome, None)
        assert world.training.passes - before == 2
        assert cosine(step.gradient, exact.gradient) > 0.3


def test_a_query_without_a_pull_asks_for_nothing():
    world = softmax_world(2)
    outcome = world.step(Implicit()).outcome
    object.__setattr__(outcome, "pull", np.zeros_like(outcome.pull))
    assert not GradientMatching().differentiate(world.training, outcome, None).gradient.any()
