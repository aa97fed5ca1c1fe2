import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people

import oar
from oar.errors import DataError, OptionError
from oar.models.autodiff.training import AutodiffTraining
from oar.models.centroid.prototypes import PrototypeNetwork

FEATURES, TARGETS, WEIGHTS, CODES = small_people()
QUERY, GOAL = query_of(FEATURES), goal_of(TARGETS)


@pytest.fixture(scope="module")
def training():
    return AutodiffTraining(PrototypeNetwork(), FEATURES, TARGETS, WEIGHTS)


@pytest.fixture(scope="module")
def fit(training):
    return training.fit(training.moved(None), training.start(), 1e-10)


def test_without_an_embedding_it_is_nearest_centroid(training, fit):
    witness = oar.NearestCentroid()
    centroids = witness.fit(oar.Population(FEATURES, CODES, WEIGHTS))
    np.testing.assert_allclose(training.parameters(fit.parameters)["prototypes"], centroids.positions, atol=1e-14)
    assert fit.residual < 1e-14
    for row in (*FEATURES[:5], QUERY):
        np.testing.assert_allclose(
            -training.outputs(fit.parameters, row), witness.distances(centroids, row), rtol=1e-12
        )
        assert training.goal(fit.parameters, row, GOAL)[0] == pytest.approx(float(witness.goal_loss(centroids, row, 0)))


def test_its_collective_gradient_is_nearest_centroids(training, fit):
    positions = training.parameters(fit.parameters)["prototypes"]
    offsets = positions - QUERY
    distances = np.linalg.norm(offsets, axis=1)
    # L = −log p_g with logits −d: ∂L/∂μ_c = (e_g − p)_c (μ_c − x†) / d_c; a member moves its class mean by w_i / W_c.
    slopes = (GOAL - softmax(-distances))[:, None] * offsets / distances[:, None]
    expected = (WEIGHTS / (TARGETS.T @ WEIGHTS)[CODES])[:, None] * slopes[CODES]
    signal = training.solve(fit, training.goal(fit.parameters, QUERY, GOAL)[1], None, 1e-13)
    rates = training.score_gradients(fit.parameters, fit.features, signal)
    np.testing.assert_allclose(-WEIGHTS[:, None] * rates, expected, rtol=1e-10, atol=1e-14)


def test_a_query_on_a_prototype_has_finite_gradients(training, fit):
    on_it = training.parameters(fit.parameters)["prototypes"][0]
    loss, by_parameters, by_features = training.goal(fit.parameters, on_it, GOAL)
    assert 0 < loss < np.log(3)
    assert np.isfinite(by_parameters).all()
    assert np.isfinite(by_features).all()


def given_embedding(x):
    return jnp.concatenate([jnp.tanh(x), x[:1] * x[1:2]])


@pytest.mark.parametrize(
    "model",
    [
        PrototypeNetwork(),
        PrototypeNetwork(given_embedding),
        PrototypeNetwork((5, 2)),
        PrototypeNetwork((4, 2), train_embedding=True, l2=1e-2),
    ],
    ids=["identity", "given", "frozen network", "trained network"],
)
def test_differentiates_through_training(model):
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    fit = assert_differentiates_training(training, QUERY, GOAL, rtol=1e-4 if model.train_embedding else 1e-6)
    assert training.damping == 0
    if not model.train_embedding:
        assert fit.residual < 1e-13
        elsewhere = training.fit(training.moved(None), training.start() + 1, 1e-10)
        np.testing.assert_array_equal(elsewhere.parameters, fit.parameters)


def test_a_trained_embedding_separates_better_and_its_gauge_moves_no_prediction():
    model = PrototypeNetwork((4, 2), train_embedding=True, l2=1e-2)
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    own = training.parameters(fit.parameters)
    assert np.abs(np.triu(own["prototypes"], 1)).max() < 1e-6
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    own["prototypes"] = own["prototypes"] @ turn.T
    own["network"][-1]["weights"] = turn @ own["network"][-1]["weights"]
    for row in FEATURES[:4]:
        outputs = training.outputs(fit.parameters, row)
        np.testing.assert_allclose(training.outputs(training.flat(own), row), outputs, atol=1e-10)
    predicted = [training.outputs(fit.parameters, row).argmax() for row in FEATURES]
    frozen = AutodiffTraining(PrototypeNetwork((4, 2)), FEATURES, TARGETS, WEIGHTS)
    means = frozen.fit(frozen.moved(None), frozen.start(), 1e-10).parameters
    assert (predicted == CODES).sum() >= sum(
        frozen.outputs(means, row).argmax() == code for row, code in zip(FEATURES, CODES, strict=True)
    )


def test_what_it_claims_to_be():
    assert PrototypeNetwork().equivariant
    assert not PrototypeNetwork((5, 2)).equivariant
    assert PrototypeNetwork((5, 2)).convex
    assert not PrototypeNetwork((5, 2), train_embedding=True).convex


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_embedding": True}, "needs an embedding with weights, got no embedding"),
        ({"embedding": given_embedding, "train_embedding": True}, "got a function"),
        ({"embedding": ()}, "at least one layer"),
        ({"embedding": (3, 0)}, "whole numbers of at least 1"),
        ({"embedding": 3}, "must be a tuple of whole numbers"),
        ({"activation": "tan"}, "Did you mean 'tanh'"),
        ({"train_embedding": "no"}, "train_embedding: must be True or False, got 'no'"),
        ({"pull": 0.5}, "pull: does nothing without a trained embedding .* got 0.5; leave it out"),
        ({"embedding": (4, 2), "softening": 0.5}, "softening: does nothing without a trained embedding"),
        ({"embedding": (4, 2), "l2": 0.5}, "l2: does nothing without a trained embedding"),
        ({"seed": 3}, "seed: does nothing without a network"),
        ({"embedding": given_embedding, "activation": "relu"}, "activation: does nothing without a network"),
        ({"embedding": (2,), "activation": "relu"}, "activation: does nothing without more than one layer"),
        ({"pull": -1.0}, "pull: must be a number of at least 0, got -1.0"),
        ({"l2": float("nan")}, "l2: must be"),
        ({"softening": "0.1"}, "softening: must be a number of at least 0, got '0.1'"),
        ({"seed": -1}, "seed: must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((DataError, OptionError), match=message):
        PrototypeNetwork(**settings)


def test_options_that_do_something_are_taken():
    assert PrototypeNetwork((4, 2), activation="relu", seed=3).seed == 3
    assert PrototypeNetwork((2,), train_embedding=True, pull=0.5, softening=0.2, l2=0.3, seed=1).pull == 0.5


def test_bad_embeddings_and_empty_classes():
    with pytest.raises(OptionError, match=r"embedding: must return a vector \(m,\)"):
        AutodiffTraining(PrototypeNetwork(lambda x: x.sum()), FEATURES, TARGETS, WEIGHTS)
    empty = AutodiffTraining(PrototypeNetwork(), FEATURES, np.eye(4)[CODES], WEIGHTS)
    with pytest.raises(DataError, match="got a total of 0 for class 3"):
        empty.fit(empty.moved(None), empty.start(), 1e-8)


def test_an_embedding_that_jax_cannot_trace_is_named():
    people = oar.Population(np.eye(4), [0, 0, 1, 1])
    for embedding in (np.tanh, lambda x: np.tanh(x), lambda x: x[:2] if x[0] > 0 else x[2:], lambda x: float(x[0])):
        with pytest.raises(
            oar.errors.DataError, match=r"embedding: must be a pure JAX function .* Use jax.numpy throughout"
        ):
            oar.collective(oar.Problem(people, PrototypeNetwork(embedding), oar.Query(np.ones(4), 1), oar.Perturb(0.1)))
