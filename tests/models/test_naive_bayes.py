import jax
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people

import oar
from oar.errors import DataError
from oar.models import Scaled
from oar.models.naive_bayes import GaussianNaiveBayes

FEW_STEPS = oar.solvers.ProjectedGradient(max_steps=10, restarts=0)
FEATURES, TARGETS, WEIGHTS, CODES = small_people()


def probabilities(training, parameters, features):
    return softmax(np.stack([training.outputs(parameters, row) for row in features]), axis=1)


def fitted(features=FEATURES, targets=TARGETS, weights=WEIGHTS, **settings):
    training = GaussianNaiveBayes(**settings).bound(features, targets, weights)
    return training, training.fit(training.moved(None), training.start(), 1e-10)


@pytest.mark.parametrize("smoothing", [1e-9, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_are_scikit_learns(smoothing, weighted):
    features = FEATURES * [1.0, 100.0, 0.01] + [0.0, 1e4, 5.0]
    weights = WEIGHTS if weighted else np.full(len(FEATURES), 1 / len(FEATURES))
    training, fit = fitted(features, weights=weights, var_smoothing=smoothing)
    witness = GaussianNB(var_smoothing=smoothing).fit(features, CODES, sample_weight=WEIGHTS if weighted else None)
    np.testing.assert_allclose(
        probabilities(training, fit.parameters, features), witness.predict_proba(features), atol=1e-9
    )


def test_the_closed_form_is_the_minimum_whatever_the_start():
    training, fit = fitted(var_smoothing=0.1)
    assert fit.converged
    assert fit.residual < 1e-13
    elsewhere = training.fit(training.moved(None), training.start() + 3.0, 1e-10)
    np.testing.assert_array_equal(elsewhere.parameters, fit.parameters)
    hessian = training.hessian(fit.parameters, fit.features)
    assert np.linalg.eigvalsh(hessian).min() > 1e-3
    shares, own = TARGETS.T @ WEIGHTS, training.parameters(fit.parameters)
    expected = {
        "mean": shares[:, None] / np.exp(own["log_variance"]),
        "log_variance": np.repeat(shares[:, None] / 2, 3, axis=1),
        "log_share": shares - shares**2 + 1,  # the last term is the gauge's
    }
    np.testing.assert_allclose(np.diag(hessian), training.flat(expected), rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"var_smoothing": 0.3}, {"smoothing": 0.3}])
def test_differentiates_through_training(settings):
    training, _ = fitted(**settings)
    assert_differentiates_training(training, query_of(FEATURES), goal_of(TARGETS))


@pytest.mark.parametrize("smoothing", [1e-9, 0.3])
def test_differentiates_through_scikit_learns_training(smoothing):
    training, fit = fitted(var_smoothing=smoothing)
    query, goal = query_of(FEATURES), goal_of(TARGETS)
    signal = training.solve(fit, training.goal(fit.parameters, query, goal)[1], None, 1e-12)
    rates = training.score_gradients(fit.parameters, fit.features, signal)
    moves, step = np.random.default_rng(5).normal(size=FEATURES.shape), 1e-4

    def loss(sign):
        witness = GaussianNB(var_smoothing=smoothing).fit(FEATURES + sign * step * moves, CODES, sample_weight=WEIGHTS)
        return -witness.predict_log_proba(query[None])[0, 0]

    predicted = -(WEIGHTS[:, None] * rates * moves).sum()
    assert predicted == pytest.approx((loss(1) - loss(-1)) / (2 * step), rel=1e-6)


@pytest.mark.parametrize(
    "action", [oar.Perturb(2.0), [oar.Perturb(2.0), oar.Withhold(most=3)]], ids=["moves", "leavers"]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_audit_is_what_the_estimator_says_when_it_is_fitted_to_the_moved_people(action, wrapped):
    """ε follows the moves: that of the unmoved people promised goals that the real estimator does not give."""
    for seed in range(4):
        draw = np.random.default_rng(seed)
        codes = np.arange(24) % 2
        features = draw.normal(size=(24, 2)) * [1.0, 3.0] + codes[:, None]
        weights = draw.integers(1, 4, 24).astype(float) if seed % 2 else None
        model = GaussianNaiveBayes(var_smoothing=0.3)
        model = Scaled(model) if wrapped else model
        query = oar.Query(draw.normal(size=2), goal=seed % 2)
        problem = oar.Problem(oar.Population(features, codes, weights=weights), model, query, action)
        result = oar.collective(problem, solver=FEW_STEPS)
        stay = ~result.plan.away if isinstance(action, list) else np.full(24, True)
        rows = features + result.plan.each
        scaler = StandardScaler(with_mean=wrapped, with_std=wrapped)
        rows = scaler.fit_transform(rows[stay], sample_weight=None if weights is None else weights[stay])
        witness = GaussianNB(var_smoothing=0.3)
        witness.fit(rows, codes[stay], sample_weight=None if weights is None else weights[stay])
        asked = scaler.transform(query.features[None])
        assert result.loss == pytest.approx(-witness.predict_log_proba(asked)[0, seed % 2], rel=1e-7, abs=1e-9)
        assert result.audit.prediction == witness.predict(asked)[0]
        assert not result.disagreement
        assert result.proposal.claimed_loss == pytest.approx(result.loss, rel=1e-4)


def test_soft_labels_count_a_person_in_several_classes():
    soft = 0.8 * TARGETS + 0.2 / 3
    training, fit = fitted(targets=soft)
    copies = np.repeat(FEATURES, 3, axis=0)
    witness = GaussianNB().fit(
        copies, np.tile(np.arange(3), len(FEATURES)), sample_weight=(WEIGHTS[:, None] * soft).ravel()
    )
    np.testing.assert_allclose(
        probabilities(training, fit.parameters, FEATURES), witness.predict_proba(FEATURES), atol=1e-8
    )
    assert fit.residual < 1e-13


def test_query_loss_is_the_goals_log_probability():
    training, fit = fitted()
    query, goal = query_of(FEATURES), goal_of(TARGETS)
    loss = training.goal(fit.parameters, query, goal)[0]
    assert loss == pytest.approx(-np.log(probabilities(training, fit.parameters, query[None])[0, 0]), rel=1e-10)
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_short_floats_are_reckoned_with_in_float64(kind):
    features = (10 * FEATURES).astype(kind)
    losses = []
    for given in (features, features.astype(np.float64)):
        query = oar.Query(given[0].astype(np.float64), int((CODES[0] + 1) % 3))
        problem = oar.Problem(oar.Population(given, CODES), GaussianNaiveBayes(), query, oar.Perturb(0.5))
        result = oar.collective(problem, solver="one-shot")
        losses.append((result.loss_before, result.loss))
    assert losses[0] == losses[1]


def test_bad_inputs():
    with pytest.raises(DataError, match="var_smoothing: must be a number of at least 0, got -1"):
        GaussianNaiveBayes(var_smoothing=-1)
    for smoothing in (-1, float("nan"), "x"):
        with pytest.raises(DataError, match="smoothing: must be a number of at least 0, got"):
            GaussianNaiveBayes(smoothing=smoothing)
    with pytest.raises(DataError, match="each class with some weight, got a total of 0 for class 1"):
        fitted(targets=np.eye(3)[np.zeros(len(FEATURES), int)])
    with pytest.raises(DataError, match="none in feature 0 of class 0"):
        fitted(features=FEATURES * [0.0, 1.0, 1.0], var_smoothing=0.0)


def test_what_would_help_people_who_are_all_alike_is_named():
    with pytest.raises(DataError, match="give smoothing a positive value"):
        fitted(features=np.ones_like(FEATURES), var_smoothing=0.1)
    fitted(features=np.ones_like(FEATURES), smoothing=0.1)
