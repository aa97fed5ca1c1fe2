"""Plans made with twins: every verb, every lever, and an audit that asks nobody but the estimator itself."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.estimators import CASES, IDS, crowd, logistic, machines

import oar
from oar.problem import as_model

CENTROIDS = "words", 3, "centroids", NearestCentroid()
EVERY = [*CASES, CENTROIDS]
NAMED = [*IDS, "centroids, 3"]
SOME = [*CASES[1::4], CENTROIDS]  # of each kind of estimator, with two classes or three


def asked(labels, classes, estimator, action, weighted=False, seed=21, size=24):
    people = crowd(seed, size=size, classes=classes, labels=labels, weighted=weighted)
    if labels == "values":
        query = oar.Query([1.0, 2.0, 0.5], goal=[1.0] * (classes - 1), within=0.5)
    else:
        query = oar.Query(people.features.mean(axis=0) - 0.5, goal="ant")
    return oar.Problem(people, estimator, query, action)


@pytest.mark.parametrize(("labels", "classes", "name", "estimator"), SOME, ids=[case[2] for case in SOME])
def test_every_verb(labels, classes, name, estimator):
    problem = asked(labels, classes, estimator, oar.Perturb(0.2))
    for verb in (oar.collective, oar.individual, oar.joint):
        result = verb(problem)
        assert result.audit.converged
        assert not result.disagreement, result.disagreement
        assert result.loss <= result.loss_before + 1e-6
        assert result.audit.witness == " ".join(repr(estimator).split()) + ".fit"


@pytest.mark.parametrize(("labels", "classes", "name", "estimator"), EVERY, ids=NAMED)
def test_levers_are_claimed_as_they_are_audited(labels, classes, name, estimator):
    levers = [oar.Withhold(2)] if labels == "values" else [oar.Withhold(2), oar.Relabel(2)]
    result = oar.collective(asked(labels, classes, estimator, levers))
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-4, abs=1e-6)
    assert not result.disagreement
    assert result.loss < result.loss_before


def test_levers_with_weights_and_moves():
    for estimator in (logistic(class_weight="balanced"), machines(C=0.2, class_weight="balanced")):
        actions = [oar.Perturb(0.1), oar.Withhold(2), oar.Relabel(1)]
        result = oar.collective(asked("words", 2, estimator, actions, weighted=True))
        assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-4, abs=1e-6)
        assert not result.disagreement


def test_labels_and_strikes_on_iris():
    """Who leaves and comes back in the search weighs what it did, and a penalty follows who is there."""
    features, labels = load_iris(return_X_y=True)
    people = oar.Population(features, labels)
    query = oar.Query(features[70], goal=0)
    problem = oar.Problem(
        people, LogisticRegression(tol=1e-10, max_iter=10_000), query, [oar.Withhold(5), oar.Relabel(3)]
    )
    result = oar.collective(problem)
    assert not result.disagreement
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-4)


def test_the_audit_trains_the_estimator_and_never_the_twin(monkeypatch):
    problem = asked("words", 2, logistic(), oar.Perturb(0.2))
    plan = oar.collective(problem).plan
    moved = problem.people.features + plan.moves()
    fits = []
    own = LogisticRegression.fit

    def spied(self, rows, labels, sample_weight=None):
        fits.append(np.array(rows))
        return own(self, rows, labels, sample_weight)

    def twins_own(*_):
        raise AssertionError("the audit asked the twin")

    monkeypatch.setattr(LogisticRegression, "fit", spied)
    monkeypatch.setattr(type(problem.model.core), "training", twins_own)
    oar.audit(plan)
    assert len(fits) == 2
    np.testing.assert_array_equal(fits[0], problem.people.features)
    np.testing.assert_allclose(fits[1], moved, atol=1e-12)


def test_nearest_centroid_is_solved_exactly_and_audited_by_the_estimator(monkeypatch):
    problem = asked("words", 3, NearestCentroid(), oar.Perturb(0.4))
    people, query = problem.people, problem.query
    same = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.4)))
    found = oar.collective(problem)
    assert found.exact
    assert found.loss == pytest.approx(same.loss, rel=1e-10)
    np.testing.assert_allclose(found.plan.moves(), same.plan.moves(), atol=1e-9)
    owner = NearestCentroid().fit(people.features + found.plan.moves(), people.labels)
    assert found.prediction == owner.predict(problem.query_features[None])[0]
    # Were the estimator to predict something else, nothing would have worked.
    assert oar.collective(asked("words", 3, NearestCentroid(), oar.Perturb(3.0))).success
    monkeypatch.setattr(NearestCentroid, "predict", lambda self, rows: np.array(["mole"] * len(rows)))
    assert not oar.collective(asked("words", 3, NearestCentroid(), oar.Perturb(3.0))).success


def test_an_estimator_that_stops_early_is_told_to_go_on():
    people = crowd(23, size=40)
    loose = LogisticRegression(tol=1.0, C=100.0)
    result = oar.collective(oar.Problem(people, loose, oar.Query([1.0, 2.0, 0.5], goal="ant"), oar.Perturb(0.3)))
    assert not result.disagreement  # the solver reasoned about the right model
    assert "smaller tol" in result.explanation
    assert "tol=1, where" in result.explanation
    tight = oar.collective(
        oar.Problem(people, logistic(C=100.0), oar.Query([1.0, 2.0, 0.5], goal="ant"), oar.Perturb(0.3))
    )
    assert not tight.disagreement
    assert not tight.stopped_early
    # What no tolerance explains is still an alarm: a solver that reasons about another model.
    false = replace(result, proposal=replace(result.proposal, claimed_loss=result.proposal.claimed_loss - 0.01))
    assert "the audit counts, and nothing that was proved" in false.disagreement


def test_the_tolerance_that_scikit_learn_has_by_default_is_no_alarm():
    """README's own pipeline: its audited loss is not quite that of the minimum, which contradicts nobody."""
    iris = oar.datasets.iris()
    means = [iris.features[iris.labels == label].mean(axis=0) for label in (0, 2)]
    query = oar.Query(0.75 * means[0] + 0.25 * means[1], goal=2)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    problem = oar.Problem(oar.Population(iris.features, iris.labels), pipeline, query, oar.Perturb(0.5))
    result = oar.collective(problem, solver=oar.solvers.ProjectedGradient(restarts=0, max_steps=60))
    assert not result.disagreement, result.disagreement
    false = replace(result, proposal=replace(result.proposal, claimed_loss=1.05 * result.proposal.claimed_loss))
    assert false.disagreement


def test_one_that_did_not_converge_says_so():
    result = oar.collective(asked("words", 2, LogisticRegression(max_iter=1, C=100.0), oar.Perturb(0.1)))
    assert "had not converged" in result.audit.witness


@pytest.mark.parametrize("classes", [2, 3])
def test_more_people_than_one_chunk_know_who_left(classes):
    """Passes are compiled once, whatever the penalty."""
    from oar.models.linear.losses import compiled

    people = crowd(24, size=4_500, classes=classes)
    twin = as_model(logistic(class_weight="balanced"))
    training = twin.training(people)
    features = training.moved(None)
    begun = training.fit(features, training.start(), 1e-9)
    before = compiled.cache_info().misses
    weights = np.ones(people.size)
    weights[:7] = 0.0
    other = training.contributing(training.targets, weights / weights.sum())
    found = other.fit(features, begun.parameters, 1e-9)
    assert compiled.cache_info().misses == before
    left = people.contributing(weights, people.class_rows())
    known = twin.fit(left)
    np.testing.assert_allclose(
        twin.probabilities(twin.own_parameters(other, found.parameters), people.features[:50]),
        twin.probabilities(known, people.features[:50]),
        atol=1e-7,
    )


@pytest.mark.parametrize("estimator", [logistic(class_weight="balanced"), GaussianNB(), NearestCentroid()], ids=str)
def test_what_a_plan_does_to_others(estimator):
    problem = asked("words", 2, estimator, oar.Perturb(0.3, participants=0.5, seed=0))
    result = oar.collective(problem)
    told = oar.questions.collateral(result)
    learned, later = (
        clone(estimator).fit(problem.people.features + moves, problem.people.labels)
        for moves in (0.0, result.plan.moves())
    )
    stay = ~result.plan.moves().any(axis=1)
    rows = problem.people.features[stay]
    assert (told.acts == ~stay).all()
    changed = np.asarray(told.before != told.after)[stay]
    assert (changed == (learned.predict(rows) != later.predict(rows))).all()


def test_without_an_intercept_a_constant_column_is_one_like_others():
    people = crowd(25, labels="values")
    people = oar.Population(np.column_stack([people.features, np.ones(people.size)]), people.labels)
    query = oar.Query([1.0, 2.0, 0.5, 1.0], goal=1.0, within=0.1)
    with pytest.raises(oar.errors.NumericsError, match=r"LinearRegression with l2 = 0 .*use Ridge\(alpha=…\)"):
        oar.collective(oar.Problem(people, LinearRegression(), query, oar.Perturb(0.1)))
    found = oar.collective(oar.Problem(people, LinearRegression(fit_intercept=False), query, oar.Perturb(0.1)))
    assert found.loss == pytest.approx(found.proposal.claimed_loss, rel=1e-6, abs=1e-9)
