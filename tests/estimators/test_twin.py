"""A twin predicts as its estimator does, both with what the estimator has learned and with what it learns itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from support.estimators import CASES, IDS, crowd, logistic, machines, refitted, worlds

import oar
from oar.problem import as_model

AGREES = 1e-6


def labels_of(people, codes):
    return np.array(people.classes)[codes]


def fitted_by_its_owner(twin, people):
    estimator = clone(twin.estimator)
    labels = people.labels if people.weights is None else people.labels
    weights = {} if people.weights is None else {"sample_weight": people.weights}
    return estimator.fit(people.features, labels, **weights)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_a_twin_predicts_with_what_the_estimator_has_learned(world):
    people, twin = world
    owner, learned = fitted_by_its_owner(twin, people), twin.fit(people)
    rows = crowd(99, classes=2).features
    if twin.regresses:
        found = twin.predict(learned, rows)
        np.testing.assert_allclose(found, owner.predict(rows).reshape(found.shape), atol=AGREES)
        return
    order = [list(owner.classes_).index(label) for label in people.classes]
    assert (labels_of(people, twin.predict(learned, rows)) == owner.predict(rows)).all()
    if hasattr(owner, "predict_proba"):
        np.testing.assert_allclose(twin.probabilities(learned, rows), owner.predict_proba(rows)[:, order], atol=AGREES)
    else:
        scores = owner.decision_function(rows)
        scores = np.column_stack([np.zeros(len(rows)), scores]) if scores.ndim == 1 else scores
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = (shares / shares.sum(axis=1, keepdims=True))[:, order]
        np.testing.assert_allclose(twin.probabilities(learned, rows), shares, atol=AGREES)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_a_twin_learns_what_the_estimator_does(world):
    people, twin = world
    rows = crowd(98, classes=2).features
    known, own = twin.fit(people), refitted(twin, people)
    if twin.regresses:
        np.testing.assert_allclose(twin.predict(own, rows), twin.predict(known, rows), atol=AGREES)
    else:
        np.testing.assert_allclose(twin.probabilities(own, rows), twin.probabilities(known, rows), atol=AGREES)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "sag", "saga", "liblinear"])
def test_the_solver_changes_nothing_but_liblinears_intercept(solver):
    people = crowd(3)
    twin = as_model(LogisticRegression(solver=solver, tol=1e-9, max_iter=100_000, random_state=0))
    found = twin.probabilities(twin.fit(people), people.features)
    np.testing.assert_allclose(found, twin.probabilities(refitted(twin, people), people.features), atol=1e-5)
    plain = as_model(logistic())
    apart = np.abs(found - plain.probabilities(refitted(plain, people), people.features)).max()
    assert (apart > 1e-3) == (solver == "liblinear")


@pytest.mark.filterwarnings("ignore:.*penalty.*:FutureWarning")
@pytest.mark.parametrize(
    ("old", "new"),
    [({"penalty": "l2"}, {}), ({"penalty": None}, {"C": np.inf}), ({"penalty": "elasticnet", "l1_ratio": 0.0}, {})],
)
def test_penalties_in_the_words_of_older_versions(old, new):
    people = crowd(4)
    solver = {"solver": "saga"} if old.get("penalty") == "elasticnet" else {}
    found, same = (as_model(logistic(**settings)).core for settings in (old | solver, new))
    assert (found.C, found.scaling, found.intercept) == (same.C, same.scaling, same.intercept)
    twin = as_model(logistic(**old | solver | {"tol": 1e-9}))
    known = twin.probabilities(twin.fit(people), people.features)
    np.testing.assert_allclose(known, twin.probabilities(refitted(twin, people), people.features), atol=1e-5)


@pytest.mark.parametrize(("labels", "classes", "name", "estimator"), CASES, ids=IDS)
def test_labels_that_are_numbers_and_rows_that_are_frames(labels, classes, name, estimator):
    import pandas

    if labels == "words" and isinstance(getattr(estimator, "class_weight", None), dict):
        estimator = clone(estimator).set_params(class_weight={7: 2.0, 5: 1.0, 3: 0.5})
        estimator = estimator if classes == 3 else clone(estimator).set_params(class_weight={7: 2.0, 5: 1.0})
    plain = crowd(5, classes=classes, labels="values" if labels == "values" else "numbers")
    frame = pandas.DataFrame(plain.features, columns=list("abc"))
    told = pandas.DataFrame(plain.labels) if plain.labels.ndim == 2 else plain.labels
    people, twin = oar.Population(frame, told), as_model(estimator)
    known, own = twin.fit(people), refitted(twin, people)
    judge = twin.predict if twin.regresses else twin.probabilities
    np.testing.assert_allclose(judge(own, plain.features), judge(known, plain.features), atol=AGREES)


def test_the_estimator_that_was_given_is_neither_fitted_nor_changed():
    people = crowd(6)
    for estimator in (logistic(), machines(), NearestCentroid()):
        before = repr(estimator), dict(vars(estimator))
        problem = oar.Problem(people, estimator, oar.Query([0.0, 0.0, 0.0], goal="ant"), oar.Perturb(0.1))
        oar.collective(problem)
        assert (repr(estimator), vars(estimator)) == before
        assert problem.model.estimator is not estimator


def test_what_was_fitted_before_makes_no_difference_nor_does_a_warm_start():
    people, other = crowd(7), crowd(8)
    query = oar.Query([1.0, 1.0, 1.0], goal="ant")
    plain = oar.collective(oar.Problem(people, logistic(), query, oar.Perturb(0.2)))
    warm = logistic(warm_start=True).fit(other.features, other.labels)
    learned = warm.coef_.copy()
    found = oar.collective(oar.Problem(people, warm, query, oar.Perturb(0.2)))
    assert found.loss == plain.loss
    assert found.audit.loss_before == plain.audit.loss_before
    assert (warm.coef_ == learned).all()


def test_nearest_centroid_reads_the_estimators_centroids():
    people = crowd(9, classes=3)
    owner = NearestCentroid().fit(people.features, people.labels)
    twin = as_model(NearestCentroid())
    learned = twin.fit(people)
    order = [list(owner.classes_).index(label) for label in people.classes]
    np.testing.assert_array_equal(learned.positions, owner.centroids_[order])
    np.testing.assert_allclose(learned.positions, oar.NearestCentroid().fit(people).positions, atol=1e-12)
    assert (labels_of(people, twin.predict(learned, people.features)) == owner.predict(people.features)).all()
