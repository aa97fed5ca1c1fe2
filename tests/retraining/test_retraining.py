"""Retraining against models' own fits: the same, whichever way a model is retrained."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import oar
from oar.retraining.black_box import BlackBoxTraining
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining, retraining_of

MODELS = {
    "centroid": oar.NearestCentroid(),
    "softmax": oar.SoftmaxRegression(0.05),
    "scaled": oar.models.Scaled(oar.SoftmaxRegression(0.05)),
    "prototypes": oar.models.PrototypeNetwork(),
}


def problem_of(model, keep=None, query=None):
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(40, 2)), np.tile([0, 1], 20)
    features[labels == 1] += 1.0
    asked = query or oar.Query([0.4, 0.3], goal=1)
    return oar.Problem(oar.Population(features, labels), model, asked, oar.Perturb(0.5), keep)


def contribution_to(problem):
    """Return moves, two other labels, and two leavers."""
    moves, targets, weights = Contribution.of(problem.people, False).parts
    moves += np.random.default_rng(1).normal(size=moves.shape) * 0.3
    targets[[0, 3]] = targets[[0, 3]][:, ::-1]
    weights[[5, 6]] = 0.0
    return Contribution(moves, targets, weights)


@pytest.mark.parametrize("name", MODELS)
def test_a_refit_is_the_models_own_fit_on_what_is_handed_in(name):
    problem = problem_of(MODELS[name])
    given = contribution_to(problem)
    retraining = retraining_of(problem)
    assert isinstance(retraining, OwnTraining)
    refit = retraining.refit(given)
    people = given.handed_in(problem.people, False).with_features(problem.people.features + given.moves)
    parameters = problem.model.fit(people)
    losses, reached = retraining.judged(refit)
    assert losses[0] == pytest.approx(float(problem.model.goal_loss(parameters, [0.4, 0.3], 1)), rel=1e-6)
    assert reached[0] == (problem.model.predict(parameters, np.array([0.4, 0.3])) == 1)
    rows = np.random.default_rng(2).normal(size=(50, 2))
    np.testing.assert_array_equal(refit.predict(rows), problem.model.predict(parameters, rows))
    assert refit.loss == pytest.approx(losses[0])
    assert retraining.refits == 1
    assert retraining.passes > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_refit_near_another_is_the_same(name):
    problem = problem_of(MODELS[name])
    retraining, given = OwnTraining(problem), contribution_to(problem)
    near = retraining.refit(Contribution())
    there, alone = retraining.refit(given, near), OwnTraining(problem).refit(given)
    assert there.loss == pytest.approx(alone.loss, rel=1e-7)
    back = retraining.refit(Contribution(), there)  # with labels and weights as they were
    assert back.loss == pytest.approx(near.loss, rel=1e-7)
    assert back.loss != pytest.approx(there.loss, rel=1e-3)


def test_a_black_box_is_trained_on_what_is_handed_in():
    problem = problem_of(oar.BlackBox(LogisticRegression(), randomised=False))
    given, retraining = contribution_to(problem), retraining_of(problem)
    assert isinstance(retraining, BlackBoxTraining)
    labels = given.targets.argmax(axis=1)
    own = LogisticRegression().fit(problem.people.features + given.moves, labels, sample_weight=given.weights)
    refit = retraining.refit(given)
    probability = own.predict_proba([[0.4, 0.3]])[0, 1]
    assert retraining.judged(refit)[0][0] == pytest.approx(-np.log(probability))
    assert retraining.verdict(given).success == (probability > 0.5)
    np.testing.assert_array_equal(refit.predict(problem.people.features), own.predict(problem.people.features))


def test_random_training_has_another_seed_each_time():
    box = oar.BlackBox(DecisionTreeClassifier(max_features=1, splitter="random"), randomised=True)
    retraining = retraining_of(problem_of(box))
    refits = [retraining.refit(Contribution()) for _ in range(6)]
    assert len({refit.box.fitted.random_state for refit in refits}) == 6


@pytest.mark.parametrize("model", [*MODELS.values(), oar.BlackBox(DecisionTreeClassifier(random_state=0))], ids=repr)
def test_there_is_no_refit_where_nobody_of_a_class_is_left(model):
    problem = problem_of(model)
    gone = Contribution(weights=np.where(problem.people.labels == 1, 0.0, 1.0))
    assert retraining_of(problem).refit(gone) is None
    assert np.isnan(retraining_of(problem).verdict(gone).loss)
    assert not retraining_of(problem).verdict(gone).success


@pytest.mark.parametrize("name", ["centroid", "softmax"])
def test_members_who_ask_are_judged_where_they_have_moved_to(name):
    problem = problem_of(MODELS[name], query=oar.Query(oar.Members([2, 4]), goal=1))
    retraining, given = retraining_of(problem), contribution_to(problem)
    points = retraining.points(given)
    np.testing.assert_array_equal(points, (problem.people.features + given.moves)[[2, 4]])
    np.testing.assert_array_equal(retraining.points(Contribution()), problem.people.features[[2, 4]])


def test_a_verdict_counts_what_is_done_to_others():
    free, kept = (problem_of(MODELS["softmax"], keep) for keep in (None, oar.Keep(changed=0)))
    moves = np.where(free.people.labels[:, None] == 1, -1.0, 0.0) * np.ones((40, 2))
    given = Contribution(moves)
    assert retraining_of(free).verdict(given).success
    retraining = retraining_of(kept)
    assert not retraining.verdict(given).success
    told = retraining.effects(retraining.refit(given))
    changed = (told.before != told.after) & ~given.acts(retraining.before)
    assert told.broken
    assert changed.any()
    assert not retraining.effects(retraining.refit(Contribution())).broken
