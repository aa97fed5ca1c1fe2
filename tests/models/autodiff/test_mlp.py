import warnings

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people

from oar.errors import DataError, OptionError
from oar.models.autodiff.mlp import ACTIVATIONS, MLP
from oar.models.autodiff.training import AutodiffTraining
from oar.models.linear.losses import SoftmaxRegression
from oar.models.linear.training import LinearTraining

FEATURES, TARGETS, WEIGHTS, CODES = small_people()
QUERY, GOAL = query_of(FEATURES), goal_of(TARGETS)
EVEN = np.full(len(FEATURES), 1 / len(FEATURES))
VALUES = np.sin(FEATURES[:, :1]) + 0.3 * FEATURES[:, 1:2]
CLASSIFIER = MLP(hidden=(4,), l2=1e-2)
REGRESSOR = MLP(hidden=(4,), l2=1e-2, loss="squared")


@pytest.mark.parametrize(("model", "targets"), [(CLASSIFIER, TARGETS), (REGRESSOR, VALUES)], ids=["classes", "values"])
def test_differentiates_through_training(model, targets):
    training = AutodiffTraining(model, FEATURES, targets, WEIGHTS)
    goal = GOAL if model is CLASSIFIER else np.array([0.7])
    assert_differentiates_training(training, QUERY, goal, rtol=1e-5)
    assert training.damping == 0


def test_refits_are_reproducible_bit_for_bit_and_seeds_matter():
    fits = []
    for model in (CLASSIFIER, CLASSIFIER, MLP(hidden=(4,), l2=1e-2, seed=1)):
        training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
        fits.append(training.fit(training.moved(None), training.start(), 1e-10))
        assert fits[-1].converged
    np.testing.assert_array_equal(fits[0].parameters, fits[1].parameters)
    assert np.abs(fits[0].parameters - fits[2].parameters).max() > 1e-3


def test_nearly_the_same_data_end_in_the_same_minimum():
    training = AutodiffTraining(CLASSIFIER, FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    for size in (1e-6, 1e-3, 1e-1):
        features = training.moved(size * np.random.default_rng(0).normal(size=FEATURES.shape))
        warm, scratch = (training.fit(features, start, 1e-10) for start in (fit.parameters, training.start()))
        np.testing.assert_allclose(warm.parameters, scratch.parameters, atol=1e-7)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_scikit_learns_minimum_is_a_minimum_here(kind):
    witness = (MLPClassifier if kind == "classes" else MLPRegressor)(
        hidden_layer_sizes=(4,), activation="tanh", solver="lbfgs", alpha=len(FEATURES) * 1e-2, tol=1e-14
    ).set_params(random_state=0, max_iter=20_000, max_fun=50_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        witness.fit(FEATURES, CODES if kind == "classes" else VALUES[:, 0])
    model, targets = (CLASSIFIER, TARGETS) if kind == "classes" else (REGRESSOR, VALUES)
    training = AutodiffTraining(model, FEATURES, targets, EVEN)
    layers = [
        {"weights": weights.T, "biases": biases}
        for weights, biases in zip(witness.coefs_, witness.intercepts_, strict=True)
    ]
    if kind == "classes":
        layers[-1]["biases"] = layers[-1]["biases"] - layers[-1]["biases"].mean()  # our gauge
    theta = training.flat(layers)
    risk, gradient = training.risk_gradient(theta, training.moved(None))
    assert risk == pytest.approx(witness.loss_, rel=1e-6)
    assert np.linalg.norm(gradient) < 1e-4
    near = training.fit(training.moved(None), theta, 1e-10)
    assert near.converged
    assert training.risk_gradient(near.parameters, near.features)[0] <= risk


def test_without_hidden_layers_it_is_softmax_regression():
    training = AutodiffTraining(MLP(hidden=(), l2=1e-2), FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start(), 1e-11)
    linear = LinearTraining(SoftmaxRegression(l2=1e-2), FEATURES, TARGETS, WEIGHTS)
    witness = linear.fit(linear.moved(None), linear.start(), 1e-11)
    ours, theirs = training.outputs(fit.parameters, QUERY), linear.outputs(witness.parameters, QUERY)
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-8)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_against_differences(activation):
    model = MLP(hidden=(3, 2), activation=activation, seed=4)
    rng, step = np.random.default_rng(0), 1e-6
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(model.initial(3, 2))
        direction = rng.normal(size=flat.size)

        @jax.jit
        def loss(theta):
            return model.example_loss(unravel(theta), FEATURES[3], np.array([1.0, 0.0]))

        slope = jax.grad(loss)(flat) @ direction
        differences = (loss(flat + step * direction) - loss(flat - step * direction)) / (2 * step)
        assert float(slope) == pytest.approx(float(differences), rel=1e-6, abs=1e-9)


def test_relu_that_ends_on_a_kink_says_so(monkeypatch):
    monkeypatch.setattr("oar.models.fit.minimise.MOST_WALKS", 100)
    training = AutodiffTraining(MLP(hidden=(4,), activation="relu", l2=1e-2), FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert fit.residual > 1e-4
    assert not fit.converged


def test_what_it_claims_to_be():
    assert REGRESSOR.regresses
    assert not CLASSIFIER.regresses
    assert MLP([3, 2]) == MLP((3, 2))
    assert MLP().hidden == (32,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (0,)}, r"hidden: must be a tuple of whole numbers of at least 1, such as \(32, 16\), got \(0,\)"),
        ({"hidden": 32}, "hidden: must be a tuple"),
        ({"hidden": (2.5,)}, "hidden: must be a tuple"),
        ({"hidden": ("a",)}, "hidden: must be a tuple"),
        ({"hidden": (True,)}, "hidden: must be a tuple"),
        ({"hidden": (float("inf"),)}, "hidden: must be a tuple"),
        ({"hidden": (), "activation": "relu"}, "activation: stands between layers, and does nothing without hidden"),
        ({"activation": "rellu"}, "Did you mean 'relu'"),
        ({"loss": "cross_entropy"}, "Did you mean 'cross-entropy'"),
        ({"l2": -1e-3}, "l2: must be a number of at least 0"),
        ({"l2": None}, "l2: must be a number of at least 0, got None"),
        ({"seed": -1}, "seed: must be a whole number of at least 0, got -1"),
        ({"seed": 0.5}, "seed: must be a whole number"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((DataError, OptionError), match=message):
        MLP(**settings)
