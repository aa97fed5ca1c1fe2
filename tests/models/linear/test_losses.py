"""Linear models against scikit-learn, their derivatives against finite differences."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as OutsideRidge
from sklearn.svm import LinearSVC

import oar
from oar.models import LinearSVM, Ridge, SoftmaxRegression

MODELS = [SoftmaxRegression(0.02), LinearSVM(0.02), LinearSVM(0.05, penalise_intercept=True), Ridge(0.1)]


def crowd(classes=3, size=120, seed=0, soft=False):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, size - classes)])
    features = rng.normal(0, 1.5, (classes, 4))[codes] + rng.normal(size=(size, 4))
    weights = rng.random(size) + 0.1
    if soft:
        shares = rng.dirichlet(np.ones(classes), size)
        return oar.Population(features, shares, weights)
    return oar.Population(features, codes, weights)


def bound(model, people):
    training = model.training(people)
    return training, training.fit(training.moved(None), training.start(), 1e-11)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_softmax_regression_is_scikit_learns(classes):
    people = crowd(classes, 300)
    training, fit = bound(SoftmaxRegression(0.01), people)
    shares = people.weights / people.weights.sum()
    outside = LogisticRegression(C=100.0, solver="newton-cholesky", tol=1e-12, max_iter=500)
    outside.fit(people.features, people.labels, sample_weight=shares)
    query = np.array([0.3, -1.0, 0.2, 2.0])
    assert fit.converged
    outputs = training.outputs(fit.parameters, query)
    logits = outputs if classes > 2 else np.array([0.0, outputs[0]])
    ours = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(ours, outside.predict_proba(query[None])[0], atol=1e-6)


def test_ridge_is_scikit_learns():
    rng = np.random.default_rng(1)
    features, values, weights = rng.normal(size=(80, 3)), rng.normal(size=(80, 2)), rng.random(80) + 0.1
    training, fit = bound(Ridge(0.3), oar.Population(features, values, weights))
    outside = OutsideRidge(alpha=0.3, solver="svd").fit(features, values, sample_weight=weights / weights.sum())
    query = rng.normal(size=3)
    np.testing.assert_allclose(training.outputs(fit.parameters, query), outside.predict(query[None])[0], atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_linear_svm_is_scikit_learns_where_the_intercept_is_penalised(classes):
    people = crowd(classes, 200)
    training, fit = bound(LinearSVM(0.01, penalise_intercept=True), people)
    shares = people.weights / people.weights.sum()
    outside = LinearSVC(C=100.0, dual=False, tol=1e-11, max_iter=100_000)
    outside.fit(people.features, people.labels, sample_weight=shares)
    query = np.array([0.3, -1.0, 0.2, 2.0])
    expected = np.atleast_1d(outside.decision_function(query[None])[0])
    np.testing.assert_allclose(training.outputs(fit.parameters, query), expected, atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.name}-{model.l2}")
def test_derivatives_are_finite_differences(model):
    people = crowd()
    training = model.training(people)
    rng = np.random.default_rng(2)
    point, direction = rng.normal(size=(2, training.parameter_count))
    features, step = training.moved(None), 1e-6
    up, slope_up = training.risk_gradient(point + step * direction, features)
    down, slope_down = training.risk_gradient(point - step * direction, features)
    _, slope = training.risk_gradient(point, features)
    assert slope @ direction == pytest.approx((up - down) / (2 * step), rel=1e-6)
    product = training.product(point, features, direction)
    np.testing.assert_allclose(product, (slope_up - slope_down) / (2 * step), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(training.hessian(point, features) @ direction, product, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.name}-{model.l2}")
@pytest.mark.parametrize("classes", [2, 3])
def test_a_members_move_changes_the_querys_loss_as_the_signal_says(model, classes):
    """The whole pipeline: move one person a little, refit tightly, compare with −w̄ ∇_x s."""
    people = crowd(classes)
    training, fit = bound(model, people)
    query = np.array([0.3, -1.0, 0.2, 2.0])
    target = model.goal_target(people, 1 if not model.regresses else 0.5)
    _, pull, query_slope = training.goal(fit.parameters, query, target)
    signal = training.solve(fit, pull, None, 1e-12)
    predicted = -training.weights[:, None] * training.score_gradients(fit.parameters, fit.features, signal)
    step = 1e-4
    for person in (0, 7):
        for axis in range(4):
            moves = np.zeros(people.features.shape)
            moves[person, axis] = step
            losses = [
                training.goal(
                    training.fit(training.moved(sign * moves), fit.parameters, 1e-12).parameters, query, target
                )[0]
                for sign in (1, -1)
            ]
            slope = (losses[0] - losses[1]) / (2 * step)
            assert predicted[person, axis] == pytest.approx(slope, rel=1e-4, abs=1e-8)
    for axis in range(4):
        ahead = np.eye(4)[axis] * 1e-6
        losses = [training.goal(fit.parameters, query + sign * ahead, target)[0] for sign in (1, -1)]
        assert query_slope[axis] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5, abs=1e-8)


def test_soft_labels_are_weighted_copies():
    people = crowd(soft=True)
    training, fit = bound(SoftmaxRegression(0.02), people)
    shares = people.class_rows()
    rows = np.repeat(people.features, 3, axis=0)
    outside = LogisticRegression(C=50.0, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(
        rows,
        np.tile(np.arange(3), people.size),
        sample_weight=(people.weights[:, None] / people.weights.sum() * shares).ravel(),
    )
    query = np.array([0.3, -1.0, 0.2, 2.0])
    ours, theirs = training.outputs(fit.parameters, query), outside.decision_function(query[None])[0]
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-6)


def test_many_chunks_are_one():
    """A population of several chunks, the last one ragged, gives what plain NumPy gives."""
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(2_345, 3)), rng.integers(0, 3, 2_345)
    training = SoftmaxRegression(0.1).training(oar.Population(features, labels))
    point = rng.normal(size=training.parameter_count)
    matrix = training.in_given_units(point).reshape(3, 4)
    logits = features @ matrix[:, :-1].T + matrix[:, -1]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    risk = -np.log(shares[np.arange(2_345), labels]).mean()
    risk += 0.05 * (matrix[:, :-1] ** 2).sum() + 0.5 * point.reshape(3, 4)[:, -1].mean() ** 2
    assert training.risk_gradient(point, training.moved(None))[0] == pytest.approx(risk, rel=1e-12)


def test_bad_models_and_labels():
    with pytest.raises(oar.errors.DataError, match="l2: must be a number of at least 0, got -1.0"):
        SoftmaxRegression(-1.0)
    rng = np.random.default_rng(0)
    soft = oar.Population(rng.normal(size=(4, 2)), rng.random((4, 3)))
    with pytest.raises(oar.errors.DataError, match="soft labels must be shares"):
        oar.Problem(soft, SoftmaxRegression(), oar.Query([0, 0], 1), oar.Perturb(1.0))
    words = oar.Population(rng.normal(size=(4, 2)), ["a", "b", "a", "b"])
    with pytest.raises(oar.errors.DataError, match="must be numbers to be regressed"):
        oar.Problem(words, Ridge(), oar.Query([0, 0], 1.0, within=0.1), oar.Perturb(1.0))
    with pytest.raises(oar.errors.OptionError, match="Query within: is for models that predict values"):
        oar.Problem(words, SoftmaxRegression(), oar.Query([0, 0], "a", within=0.1), oar.Perturb(1.0))
    numbers = oar.Population(rng.normal(size=(4, 2)), [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(oar.errors.DataError, match="Query within: must say how near is enough"):
        oar.Problem(numbers, Ridge(), oar.Query([0, 0], 1.0), oar.Perturb(1.0))
    with pytest.raises(oar.errors.DataError, match="goal: must be 1 finite"):
        oar.Problem(numbers, Ridge(), oar.Query([0, 0], [1.0, 2.0], within=0.1), oar.Perturb(1.0))
    with pytest.raises(oar.errors.DataError, match="nearest centroid needs one label a person"):
        oar.Problem(soft, oar.NearestCentroid(), oar.Query([0, 0], 1), oar.Perturb(1.0))


@pytest.mark.parametrize("model", [SoftmaxRegression(0.02), Ridge(0.1), LinearSVM(0.05, penalise_intercept=True)])
def test_a_bound_in_place_of_the_hessian_gives_the_same_fit_and_signal(model, monkeypatch):
    people = crowd(4, 150) if not model.regresses else oar.Population(*np.random.default_rng(0).normal(size=(2, 90, 3)))
    factored, fit = bound(model, people)
    pull = np.random.default_rng(2).normal(size=fit.parameters.size)
    signal = factored.solve(fit, pull, None, 1e-9)
    monkeypatch.setattr("oar.models.linear.training.SMALL", 1)
    bounded, again = bound(model, people)
    monkeypatch.setattr(bounded, "hessian", None)  # it must not be asked for
    assert again.converged
    np.testing.assert_allclose(again.parameters, fit.parameters, atol=1e-7)
    np.testing.assert_allclose(bounded.solve(again, pull, None, 1e-9), signal, rtol=1e-5, atol=1e-6)


def test_many_people_begin_with_some_of_them_and_end_with_all(monkeypatch):
    people = crowd(5, 4_000)
    plain, fit = bound(SoftmaxRegression(0.02), people)
    monkeypatch.setattr("oar.models.linear.training.CHUNK", 100)
    training, coarse = bound(SoftmaxRegression(0.02), people)
    assert training._chunks == 40
    assert coarse.converged
    np.testing.assert_allclose(coarse.parameters, fit.parameters, atol=1e-9)
    # A tenth of them separable, all of them not: the tenth is left alone.
    few = np.sort(np.random.default_rng(0).choice(4_000, 400, replace=False))
    labels = people.codes(0, 4_000) % 2
    labels[few] = people.features[few, 0] > 0
    odd = oar.Population(people.features, labels)
    _, free = bound(SoftmaxRegression(0.0), odd)
    assert free.converged
