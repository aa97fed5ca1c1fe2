"""Models used by themselves: fit, predict, probabilities and loss, against scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import oar
from oar.models import MLP, Custom, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression

IRIS = oar.datasets.iris()
UNITS = np.array([1.0, 1e3, 1e-2, 1.0])
X, Y = IRIS.features * UNITS + [0.0, 50.0, 0.0, -3.0], IRIS.labels


@pytest.mark.parametrize("classes", [2, 3])
def test_softmax_regression_is_scikit_learns(classes):
    some = 3 - classes <= Y
    rows, labels = IRIS.features[some] + [0, 50, 0, -3], np.array(["a", "b", "c"])[Y[some]]
    people = oar.Population(rows, labels)
    model = SoftmaxRegression(l2=0.01)
    fitted = model.fit(people)
    witness = LogisticRegression(C=1 / (0.01 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows - rows.mean(0), labels)
    centred = rows - rows.mean(axis=0)
    assert fitted.shape == (1 if classes == 2 else 3, 5)
    np.testing.assert_allclose(model.probabilities(fitted, rows), witness.predict_proba(centred), atol=1e-5)
    np.testing.assert_array_equal(np.array(people.classes)[model.predict(fitted, rows)], witness.predict(centred))
    losses = -np.log(witness.predict_proba(centred)[:, 1])
    np.testing.assert_allclose(model.goal_loss(fitted, rows, 1), losses, rtol=1e-3, atol=1e-5)
    assert model.predict(fitted, rows[0]).shape == model.goal_loss(fitted, rows[0], 1).shape == ()
    assert model.probabilities(fitted, rows[0]).shape == (classes,)


def test_ridge_is_scikit_learns():
    model, values = Ridge(l2=0.1), IRIS.features[:, 3]
    fitted = model.fit(oar.Population(X[:, :3], values))
    witness = SklearnRidge(alpha=0.1 * len(X)).fit(X[:, :3], values)
    np.testing.assert_allclose(model.predict(fitted, X[:, :3])[:, 0], witness.predict(X[:, :3]), rtol=1e-6, atol=1e-8)
    halves = 0.5 * (witness.predict(X[:, :3]) - 2.0) ** 2
    np.testing.assert_allclose(model.goal_loss(fitted, X[:, :3], 2.0), halves, rtol=1e-5, atol=1e-8)
    with pytest.raises(oar.errors.OptionError, match="model: ridge predicts values here, which have no probabilities"):
        model.probabilities(fitted, X[:, :3])


def test_other_models_are_scikit_learns_too():
    people = oar.Population(X, Y)
    bayes, witness = GaussianNaiveBayes(), GaussianNB().fit(X, Y)
    np.testing.assert_allclose(bayes.probabilities(bayes.fit(people), X), witness.predict_proba(X), atol=1e-6)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    machine = LinearSVM(l2=0.05, penalise_intercept=True)
    fitted = machine.fit(oar.Population(standard, Y))
    margins = LinearSVC(C=1 / (0.05 * len(X)), dual=False, tol=1e-10).fit(standard, Y)
    np.testing.assert_array_equal(machine.predict(fitted, standard), margins.predict(standard))


@pytest.mark.parametrize("model", [PrototypeNetwork(), PrototypeNetwork((4, 2)), MLP((3,), l2=0.01)])
def test_networks_agree_with_themselves(model):
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = model.fit(oar.Population(standard, Y))
    shares = model.probabilities(fitted, standard.reshape(3, 50, 4))
    assert shares.shape == (3, 50, 3)
    np.testing.assert_array_equal(shares.argmax(axis=-1), model.predict(fitted, standard.reshape(3, 50, 4)))
    np.testing.assert_allclose(model.goal_loss(fitted, standard, 2), -np.log(shares[..., 2].ravel()), atol=1e-9)
    assert (model.predict(fitted, standard) == Y).mean() > 0.6
    if model == PrototypeNetwork():
        centroids = oar.NearestCentroid()
        same = centroids.probabilities(centroids.fit(oar.Population(standard, Y)), standard)
        np.testing.assert_allclose(shares.reshape(-1, 3), same, atol=1e-9)


def test_a_fit_that_does_not_end_is_refused():
    kinked = Custom(
        loss=lambda w, x, y: jnp.abs(w @ x - y).sum(),
        init=lambda d, o: np.ones((o, d)),
        outputs=lambda w, x: w @ x,
    )
    with pytest.raises(oar.errors.NumericsError, match="model: custom must be refitted to a gradient norm of 1e-08"):
        kinked.fit(oar.Population(IRIS.features, Y))
    with pytest.raises(oar.errors.DataError, match="at least two classes"):
        kinked.fit(oar.Population(IRIS.features, np.zeros(150)))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_scaled_model_is_scikit_learns_pipeline(frozen):
    people = oar.Population(X, Y)
    for model, estimator in (
        (SoftmaxRegression(l2=0.01), LogisticRegression(C=1 / (0.01 * len(X)), tol=1e-10, max_iter=10_000)),
        (GaussianNaiveBayes(), GaussianNB()),
    ):
        scaled, pipeline = Scaled(model, frozen), make_pipeline(StandardScaler(), estimator).fit(X, Y)
        fitted = scaled.fit(people)
        np.testing.assert_allclose(scaled.probabilities(fitted, X), pipeline.predict_proba(X), atol=1e-5)
        np.testing.assert_array_equal(scaled.predict(fitted, X), pipeline.predict(X))
        losses = -pipeline.predict_log_proba(X)[:, 1]
        np.testing.assert_allclose(scaled.goal_loss(fitted, X, 1), losses, rtol=1e-3, atol=1e-5)


def test_a_scaled_regression_is_scikit_learns_pipeline():
    model, values = Scaled(Ridge(l2=0.1)), IRIS.features[:, 3]
    fitted = model.fit(oar.Population(X[:, :3], values))
    pipeline = make_pipeline(StandardScaler(), SklearnRidge(alpha=0.1 * len(X))).fit(X[:, :3], values)
    assert fitted.shape == (1, 4)
    np.testing.assert_allclose(model.predict(fitted, X[:, :3])[:, 0], pipeline.predict(X[:, :3]), rtol=1e-6)


def test_a_scaled_network_is_the_network_on_scaled_features():
    network, standard = MLP((3,), l2=0.01), (X - X.mean(axis=0)) / X.std(axis=0)
    behind = network.fit(oar.Population(standard, Y))
    fitted = Scaled(network).fit(oar.Population(X, Y))
    found = Scaled(network).probabilities(fitted, X)
    np.testing.assert_allclose(found, network.probabilities(behind, standard), atol=1e-6)
