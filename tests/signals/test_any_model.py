"""Signals on models that are differentiated automatically: exact for a custom network and for a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.signal_problems import TIGHT, World, cosine, finite_differences, random_data

from oar.models.autodiff.custom import Custom
from oar.models.autodiff.training import AutodiffTraining
from oar.models.naive_bayes import GaussianNaiveBayes
from oar.signals import SIGNALS, Alternating, GradientMatching, Hypernetwork, Implicit, Memory, Neumann, Unrolled

HIDDEN = 3


def _outputs(parameters, x):
    return parameters["outer"] @ jnp.append(jnp.tanh(parameters["inner"] @ jnp.append(x, 1.0)), 1.0)


def random_part(rows, columns):
    return np.random.default_rng(rows * columns).normal(size=(rows, columns))


# A tanh layer with penalised weights: no convexity, no closed form. One instance, so that it is compiled once.
NETWORK = Custom(
    loss=lambda parameters, x, y: jax.nn.logsumexp(_outputs(parameters, x)) - y @ _outputs(parameters, x),
    init=lambda d, o: {"inner": random_part(HIDDEN, d + 1), "outer": random_part(o, HIDDEN + 1)},
    outputs=_outputs,
    penalty=lambda parameters: 0.02 * sum((part**2).sum() for part in jax.tree.leaves(parameters)),
    name="small network",
)


def world_of(model, seed=0):
    features, labels, weights, query, moves = random_data(seed)
    training = AutodiffTraining(model, features, np.eye(3)[labels], weights)
    return World(training, labels, query, np.eye(3)[0], moves)


@pytest.mark.parametrize("model", [NETWORK, GaussianNaiveBayes()], ids=["network", "gaussian"])
def test_the_implicit_gradient_matches_finite_differences_through_refits(model):
    world = world_of(model)
    step = world.step(Implicit(1e-10))
    people = [3]
    expected = finite_differences(world, people)
    np.testing.assert_allclose(step.gradient[people], expected, rtol=1e-4, atol=1e-5 * np.abs(step.gradient).max())


def test_every_maker_works_on_a_network_and_points_roughly_the_same_way():
    world = world_of(NETWORK)
    exact = world.step(Implicit(1e-10))
    refitted = Memory(exact.fit.parameters)
    least = {
        Neumann(terms=400): 0.99,
        Neumann(terms=20): 0.5,
        Alternating(): 0.2,
        Alternating(inner_steps=50): 0.5,
        GradientMatching(): 0.2,
    }
    for maker, wanted in least.items():
        assert cosine(world.step(maker, refitted).gradient, exact.gradient) > wanted, maker
    learned = world.step(Hypernetwork(groups=world.labels), refitted)
    assert cosine(learned.gradient, exact.gradient) > 0.5
    assert set(SIGNALS) == {"implicit", "hypernetwork", "unrolled", *(maker.name for maker in least)}


def test_a_long_unrolled_path_ends_in_the_refit_and_has_its_gradient():
    world = world_of(NETWORK)
    exact = world.step(Implicit(1e-10))
    step = world.step(Unrolled(500), Memory(exact.fit.parameters), TIGHT)
    assert step.own_loss == pytest.approx(exact.loss, rel=1e-4)
    assert cosine(step.gradient, exact.gradient) > 0.999
