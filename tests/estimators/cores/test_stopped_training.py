"""SGDClassifier, MLPClassifier and MLPRegressor: their own `fit` is the refit, and what it is headed to is known."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from support.estimators import few_loans, loan_columns

import oar
from oar.errors import DataError, OptionError
from oar.estimators.recognise import recognised
from oar.estimators.twin import output_loss
from oar.solvers import ProjectedGradient

IRIS = oar.datasets.iris()
ROWS = (IRIS.features - IRIS.features.mean(axis=0)) / IRIS.features.std(axis=0)
PEOPLE = oar.Population(ROWS, np.array(["c", "a", "b"])[IRIS.labels])
TWO = oar.Population(ROWS[50:], IRIS.labels[50:] == 1)
QUERY = ROWS[70] + 0.1
BRISK = ProjectedGradient(max_steps=3)

CLASSIFIERS = {
    "log loss": SGDClassifier(loss="log_loss", random_state=0, alpha=0.01, max_iter=20, tol=None),
    "modified Huber": SGDClassifier(loss="modified_huber", random_state=1, average=True, early_stopping=True),
    "hinge": SGDClassifier(random_state=0, class_weight="balanced", penalty="elasticnet", fit_intercept=False),
    "lbfgs": MLPClassifier((4,), solver="lbfgs", activation="tanh", alpha=1.0, random_state=0, max_iter=200),
    "adam": MLPClassifier((5, 3), random_state=0, max_iter=30, n_iter_no_change=40, learning_rate_init=0.01),
    "sgd": MLPClassifier(
        (4,), solver="sgd", activation="logistic", random_state=3, max_iter=20, batch_size=40, n_iter_no_change=40
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_twin_predicts_as_its_estimator_does(name):
    people = TWO if name in ("log loss", "adam") else PEOPLE
    estimator, twin = CLASSIFIERS[name], recognised(CLASSIFIERS[name])
    original = clone(estimator).fit(people.features, people.labels)
    order = [list(original.classes_).index(label) for label in people.classes]
    training = twin.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert fit.converged
    assert fit.residual == pytest.approx(np.linalg.norm(training.risk_gradient(fit.parameters, fit.features)[1]))
    for parameters in (twin.fit(people), twin.own_parameters(training, fit.parameters)):
        codes = twin.predict(parameters, people.features)
        assert np.array_equal(np.array(people.classes)[codes], original.predict(people.features))
        if hasattr(original, "predict_proba"):
            found = twin.probabilities(parameters, people.features)
            assert np.abs(found - original.predict_proba(people.features)[:, order]).max() < 1e-6


def test_where_training_ends_at_the_minimum_slopes_are_those_of_refits():
    settings = {"solver": "lbfgs", "random_state": 0, "max_iter": 5_000, "tol": 1e-10}
    estimator = MLPClassifier((2,), activation="tanh", alpha=5.0, **settings)
    people = oar.Population(ROWS, IRIS.labels, np.linspace(0.5, 2.0, 150))
    twin = recognised(estimator)
    training = twin.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert fit.residual < 1e-4
    target = np.array([0.0, 0.0, 1.0])
    loss, pull, own = training.goal(fit.parameters, QUERY, target)
    signal = training.solve(fit, pull, None, 1e-10)
    slopes = -training.weights[:, None] * training.score_gradients(fit.parameters, fit.features, signal)
    along = np.where(IRIS.labels[:, None] == 1, [0.3, -0.5, 1.0, 0.7], 0.0)

    def after(step):
        outputs = twin.original(people, ROWS + step * along).outputs(QUERY[None])[0]
        return output_loss("cross-entropy", outputs, target)

    assert loss == pytest.approx(after(0.0), rel=1e-6)
    assert (slopes * along).sum() == pytest.approx((after(3e-2) - after(-3e-2)) / 6e-2, rel=0.02)


@pytest.mark.parametrize("loss", ["log_loss", "huber"])
def test_stochastic_descent_is_headed_to_what_we_say(loss):
    """With small steps and averages it comes near the minimum, where our gradient vanishes."""
    balanced = "balanced" if loss == "log_loss" else {False: 1.0, True: 2.5}
    weights = np.linspace(0.5, 2.5, 100)
    people = oar.Population(TWO.features, TWO.labels, weights)
    settings = {"learning_rate": "constant", "eta0": 5e-3, "average": 30_000, "max_iter": 900, "tol": None}
    estimator = SGDClassifier(loss=loss, alpha=0.1, class_weight=balanced, random_state=0, epsilon=0.3, **settings)
    training = recognised(estimator).training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    nothing = np.linalg.norm(training.risk_gradient(training.start(), fit.features)[1])
    assert fit.residual < 1e-2 * nothing


def test_the_same_refit_is_made_once_and_leavers_are_forgotten():
    estimator = CLASSIFIERS["lbfgs"]
    training = recognised(estimator).training(PEOPLE)
    fit = training.fit(training.moved(None), training.start(), 1e-4)
    assert training.fit(training.moved(None), fit.parameters, 1e-11) is fit
    there = np.arange(150) % 7 > 0
    left = training.contributing(training.targets, there / there.sum())
    found = left.fit(left.moved(None), left.start(), 1e-10)
    expected = recognised(estimator).core.estimator.fit(ROWS[there], PEOPLE.labels[there])
    layers = left.parameters(found.parameters)
    assert np.allclose(layers[0]["weights"], expected.coefs_[0], atol=1e-12)


def test_a_sparse_matrix_is_handed_over_as_one():
    people, _ = few_loans(120)
    columns = loan_columns()
    some = [column.name for column in people.schema if column.kind == "category"]
    columns.set_params(transformers=[("levels", OneHotEncoder(), some)], remainder="drop")
    pipeline = make_pipeline(columns, SGDClassifier(loss="log_loss", random_state=0, alpha=0.01))
    twin = recognised(pipeline)
    training = twin.training(people)
    assert training.inner.sparse
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    features = np.asarray(people.features, dtype=np.float64)
    original = twin.original(people, features)
    found = twin.probabilities(twin.own_parameters(training, fit.parameters), features)
    expected = original.estimator.predict_proba(original.handing.rows(features))
    assert np.abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("name", ["hinge", "lbfgs"])
def test_plans_are_audited_by_the_estimators_own_fit(name):
    pipeline = make_pipeline(StandardScaler(), CLASSIFIERS[name])
    problem = oar.Problem(PEOPLE, pipeline, oar.Query(QUERY, goal="b"), oar.Perturb(0.4))
    result = oar.collective(problem, solver=BRISK)
    assert result.audit.violations == ()
    assert type(CLASSIFIERS[name]).__name__ in result.audit.witness
    assert result.loss < 0.9 * result.audit.loss_before
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-5)
    moved = make_pipeline(StandardScaler(), CLASSIFIERS[name])
    moved = recognised(moved).estimator.fit(ROWS + np.asarray(result.plan.each), PEOPLE.labels)
    assert moved.predict(QUERY[None])[0] == result.prediction
    assert not hasattr(pipeline[-1], "coef_")
    assert not hasattr(pipeline[-1], "coefs_")


def test_values_are_regressed_by_networks():
    values = ROWS[:, 2] + 0.3 * ROWS[:, 0] ** 2
    people = oar.Population(ROWS[:, [0, 1, 3]], values)
    network = MLPRegressor(
        hidden_layer_sizes=(4,), activation="tanh", solver="lbfgs", alpha=0.1, random_state=0, max_iter=100, tol=1e-3
    )
    problem = oar.Problem(people, network, oar.Query(ROWS[0, [0, 1, 3]], goal=0.5, within=0.2), oar.Perturb(0.5))
    result = oar.collective(problem, solver=BRISK)
    assert result.audit.violations == ()
    assert result.loss < 0.8 * result.audit.loss_before
    twin = recognised(network)
    expected = twin.original(people, people.features).estimator.predict(people.features)
    assert np.abs(twin.predict(twin.fit(people), people.features)[:, 0] - expected).max() < 1e-10


def test_labels_and_strikes_with_an_estimator_that_stops_early():
    for action in (oar.Relabel(most=1), oar.Withhold(most=1)):
        problem = oar.Problem(TWO, CLASSIFIERS["log loss"], oar.Query(QUERY, goal=False), action)
        result = oar.collective(problem)
        assert result.audit.violations == ()
        assert result.loss < result.audit.loss_before
        assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-6)


def test_what_cannot_be_repeated_or_followed_is_refused():
    query, move = oar.Query(QUERY, goal="b"), oar.Perturb(0.1)
    for estimator in (SGDClassifier(), MLPClassifier(), MLPClassifier(random_state=np.random.RandomState(0))):
        with pytest.raises(OptionError, match="repeatable.*oar.BlackBox"):
            oar.Problem(PEOPLE, estimator, query, move)
    with pytest.raises(OptionError, match="squared_error"):
        recognised(MLPRegressor(random_state=0, loss="poisson"))
    shares = np.column_stack([np.full(150, 0.5), np.full(150, 0.5)])
    with pytest.raises(DataError, match="one label a person"):
        recognised(CLASSIFIERS["lbfgs"]).training(oar.Population(ROWS, shares))
