"""How the query's loss answers to moves, by the twin, beside finite differences of the estimator's own refits."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from support.estimators import CASES, IDS, VALUES, crowd, logistic, machines, original_loss, refitted

import oar
from oar.problem import as_model
from oar.referee.witnesses import refits as witnesses
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining

STEPS = 1e-3, 1e-4, 1e-5


def assert_slope(slope, loss_at):
    """Compare a slope with central differences; at one of the steps even an estimator that stops early is precise."""
    quotients = np.array([(loss_at(step) - loss_at(-step)) / (2 * step) for step in STEPS])
    assert np.abs(quotients - slope).min() <= 1e-4 * abs(slope) + 1e-5, (slope, quotients)


def slopes(twin, people, query, target):
    """dL/dx of everyone (n, d) and of the query (d,), by the twin."""
    training = twin.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-12)
    loss, pull, by_query = training.goal(fit.parameters, query, target)
    signal = training.solve(fit, pull, None, 1e-10)
    assert loss == pytest.approx(original_loss(twin, people, people.features, query, target), abs=1e-6)
    gradients = training.score_gradients(fit.parameters, fit.features, signal)
    some = np.array([2, 0])
    np.testing.assert_allclose(
        training.score_gradients(fit.parameters, fit.features, signal, some), gradients[:, some], atol=1e-12
    )
    return -training.weights[:, None] * gradients, by_query


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("labels", "classes", "name", "estimator"), CASES, ids=IDS)
def test_moves(labels, classes, name, estimator, weighted):
    people, twin = crowd(11, classes=classes, weighted=weighted, labels=labels), as_model(estimator)
    rng = np.random.default_rng(1)
    query = np.array([1.0, 2.0, 0.5])
    target = rng.normal(size=classes - 1) if twin.regresses else twin.goal_target(people, "ant")
    by_move, by_query = slopes(twin, people, query, target)
    for _ in range(2):
        direction = rng.normal(size=people.features.shape)
        assert_slope(
            (by_move * direction).sum(),
            lambda step, along=direction: original_loss(twin, people, people.features + step * along, query, target),
        )
    own, before = rng.normal(size=3), witnesses.refit(twin, people, people.features)
    assert_slope(by_query @ own, lambda step: before.loss(query + step * own, target))


@pytest.mark.parametrize(
    "estimator",
    [
        logistic(class_weight="balanced", fit_intercept=False),
        RidgeClassifier(class_weight={"ant": 3.0, "zebra": 1.0, "mole": 1.0}),
        machines(C=1e-3, class_weight="balanced", intercept_scaling=2.0),
        VALUES["ridge without an intercept"],
    ],
    ids=str,
)
def test_many_people_whose_passes_are_compiled(estimator):
    twin = as_model(estimator)
    people = crowd(12, size=17_000, classes=3, weighted=True, labels="values" if twin.regresses else "words")
    query = np.array([1.0, 2.0, 0.5])
    target = np.array([0.3, -2.0]) if twin.regresses else twin.goal_target(people, "ant")
    by_move, _ = slopes(twin, people, query, target)
    direction = np.random.default_rng(2).normal(size=people.features.shape)
    ahead, behind = (
        original_loss(twin, people, people.features + sign * 1e-3 * direction, query, target) for sign in (1, -1)
    )
    assert (by_move * direction).sum() == pytest.approx((ahead - behind) / 2e-3, rel=1e-2, abs=1e-5)
    judge = twin.predict if twin.regresses else twin.probabilities
    known, own = twin.fit(people), refitted(twin, people)
    np.testing.assert_allclose(judge(own, people.features[:50]), judge(known, people.features[:50]), atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "classes", "name", "estimator"), [case for case in CASES if case[0] == "words"], ids=IDS[:27]
)
def test_scores_say_what_a_label_is_worth(labels, classes, name, estimator):
    """By a person who weighs next to nothing, for whom first order is all: other labels, but for balanced weights."""
    balanced = getattr(estimator, "class_weight", None) == "balanced"
    people, twin = crowd(13, size=400, classes=classes), as_model(estimator)
    query, target = np.array([1.0, 2.0, 0.5]), twin.goal_target(people, "ant")
    training = twin.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-12)
    _, pull, _ = training.goal(fit.parameters, query, target)
    signal = training.solve(fit, pull, None, 1e-10)
    rows = people.class_rows()
    flipped = np.roll(rows, 1, axis=1)
    now, then = (
        training.scores(fit.parameters, fit.features, signal, twin.target_rows(some)) for some in (rows, flipped)
    )
    promised = -training.weights * (then - now)
    told = []
    for person in range(0, 400, 57):
        shares = rows.copy()
        shares[person] = flipped[person]
        other = people.contributing(None, shares)
        before, after = (original_loss(twin, one, people.features, query, target) for one in (people, other))
        told.append((promised[person], after - before))
    promised, true = np.array(told).T
    if balanced:  # where the others' weights change too
        assert np.corrcoef(promised, true)[0, 1] > 0.5
    else:
        assert np.abs(promised - true).max() < 0.2 * np.abs(true).max()


def test_scores_and_their_gradients_are_of_one_function():
    """∇_x s is the slope of s, the part of GaussianNB's smoothing included."""
    for _, classes, _, estimator in (case for case in CASES if case[0] == "words"):
        people, twin = crowd(14, classes=classes, weighted=True), as_model(estimator)
        training = twin.training(people)
        fit = training.fit(training.moved(None), training.start(), 1e-12)
        signal = np.random.default_rng(3).normal(size=training.parameter_count)
        if hasattr(training, "matrix") and not twin.core.intercept:
            signal.reshape(training.shape)[:, -1] = 0.0
        gradients = training.score_gradients(fit.parameters, fit.features, signal)
        assert gradients.shape == people.features.shape
        targets = training.targets
        direction = np.zeros(people.features.shape)
        direction[5] = [0.3, -0.2, 0.4]
        if hasattr(training, "matrix"):  # θ and v stand still while x moves
            ahead, behind = (
                training.scores(fit.parameters, training.moved(sign * 1e-5 * direction), signal, targets)[5]
                for sign in (1, -1)
            )
            assert gradients[5] @ direction[5] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-7)


def test_refits_know_who_comes_back():
    """Somebody leaves and comes back: penalties and balanced classes are as if nothing had been."""
    for _, classes, name, estimator in CASES:
        values = estimator in VALUES.values()
        people = crowd(15, classes=classes, weighted=True, labels="values" if values else "words")
        goal, within = ([0.0] * (classes - 1), 1.0) if values else ("ant", None)
        query = oar.Query([1.0, 2.0, 0.5], goal=goal, within=within)
        problem = oar.Problem(people, estimator, query, oar.Withhold(3))
        retraining = OwnTraining(problem, 1e-9)
        rows = people.value_rows() if values else people.class_rows()
        all_there = np.array(people.weights)
        gone = all_there.copy()
        gone[:3] = 0.0
        first = retraining.aimed(Contribution(None, rows, all_there))
        without = retraining.aimed(Contribution(None, rows, gone), first)
        back = retraining.aimed(Contribution(None, rows, all_there), without)
        assert back.loss == pytest.approx(first.loss, rel=1e-7, abs=1e-9), name
        left = people.contributing(gone, rows, values)
        true = original_loss(problem.model, left, people.features, np.array([1.0, 2.0, 0.5]), problem.goal_target)
        assert without.loss == pytest.approx(true, rel=1e-5, abs=1e-7), name
