"""The score's promises against what true refits do when a label or a weight changes a little."""

import numpy as np
import pytest
from support.lever_problems import (
    CLASSIFIERS,
    NETWORK,
    REGRESSORS,
    before_of,
    people_of,
    problem_of,
    refitted_ground,
)

import oar
from oar.models import GaussianNaiveBayes, Scaled
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining
from oar.solvers.discrete.ground import EMPTY, LEAVE

STEP = 1e-4
# Naive Bayes' own ε counts heads and not weights: it follows no weight, and jumps where somebody leaves.
GIVEN = {"bayes": GaussianNaiveBayes(smoothing=1e-2), "scaled bayes": Scaled(GaussianNaiveBayes(smoothing=1e-2))}


def refitted(name, seed=3):
    model = (CLASSIFIERS | REGRESSORS | GIVEN | {"network": NETWORK})[name]
    problem = problem_of(seed, model, oar.Withhold(most=1), classes=3, size=18)
    retraining, (_, rows, weights) = OwnTraining(problem, 1e-9, EMPTY), before_of(problem).parts
    refit = retraining.aimed(Contribution(None, rows, weights))
    return retraining, rows, weights, refit, retraining.signal(refit)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS, "network"])
def test_weights_by_finite_differences(name):
    """dL/dw_i = −(s_i − Σ w̄ s) / Σ w: what leaving is to first order."""
    retraining, rows, weights, refit, signal = refitted(name)
    scores, shares = retraining.scores(refit, signal, rows), weights / weights.sum()
    expected = -(scores - shares @ scores) / weights.sum()
    for person in (0, 4, 11):
        change = STEP * np.eye(len(weights))[person]
        up, down = (retraining.aimed(Contribution(None, rows, weights + sign * change), refit) for sign in (1, -1))
        measured = (up.loss - down.loss) / (2 * STEP)
        assert measured == pytest.approx(expected[person], rel=1e-3, abs=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS, "network"])
def test_soft_labels_by_finite_differences(name):
    """DL/dy_i = −w̄_i ∂s_i/∂y, along labels that stay on the simplex."""
    retraining, rows, weights, refit, signal = refitted(name)
    slopes = retraining.label_slopes(refit, signal, rows)
    shares = weights / weights.sum()
    rng = np.random.default_rng(0)
    if name in REGRESSORS:
        direction = rng.normal(size=rows.shape)
    else:
        direction = rng.dirichlet(np.ones(rows.shape[1]), len(rows)) - rows
    expected = -(shares @ (slopes * direction).sum(axis=1))
    near, far = (
        retraining.aimed(Contribution(None, rows + step * direction, weights), refit) for step in (STEP, 2 * STEP)
    )
    measured = (4 * near.loss - far.loss - 3 * refit.loss) / (2 * STEP)  # one-sided, second order
    assert measured == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", ["softmax", "svm", "bayes", "scaled"])
def test_promises_rank_true_changes(name):
    """First-order promises are not exact, but the change that promises most of all helps."""
    problem = problem_of(5, CLASSIFIERS[name], oar.Withhold(most=1), classes=2, size=40)
    ground = refitted_ground(problem)
    promised = ground.promised({})[:, -1]
    true = np.array([ground.loss({person: LEAVE}) for person in range(40)])
    assert true[promised.argmin()] < ground.loss({})
    assert np.corrcoef(promised, true)[0, 1] > 0.9


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_promises_are_exact_for_somebody_of_little_weight(name):
    """Its label and its leaving are small changes, so the promise is what a refit does."""
    for column, what, promised, true in _little_weight((CLASSIFIERS | REGRESSORS | GIVEN)[name]):
        assert promised == pytest.approx(true, rel=2e-2, abs=1e-8), (column, what)


@pytest.mark.parametrize("name", GIVEN)
def test_that_somebody_who_leaves_is_missing_in_the_smoothing_is_promised(name):
    *_, (_, what, promised, true) = _little_weight(CLASSIFIERS[name])
    assert what is LEAVE
    assert promised == pytest.approx(true, rel=0.1)


def _little_weight(model):
    """Return what is promised of the changes of somebody of little weight, and what refits say."""
    features, labels, weights, query, goal = people_of(9, 3, 18, model.regresses)
    weights[4] = 1e-3
    asked = oar.Query(query, 3.0, within=0.1) if model.regresses else oar.Query(query, goal)
    problem = oar.Problem(oar.Population(features, labels, weights), model, asked, oar.Withhold(most=1))
    ground = refitted_ground(problem)
    before, promised = ground.loss({}), ground.promised({})[4]
    changes = {} if model.regresses else {code: code for code in range(3) if code != labels[4]}
    for column, what in (changes | {-1: LEAVE}).items():
        yield column, what, promised[column] - before, ground.loss({4: what}) - before


def test_a_refit_that_cannot_be_made_is_infinitely_bad():
    problem = problem_of(0, oar.models.SoftmaxRegression(0.0), oar.Withhold(most=28), classes=2, size=30)
    ground = refitted_ground(problem)
    assert ground.loss({}) < np.inf
    left = {person: LEAVE for person in range(28)}  # one of each class is left: they can be separated
    assert ground.loss(left) == np.inf


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_a_training_with_other_contributions_is_a_fresh_one(name):
    """Refits of the changed training agree with those of one bound to changed people."""
    model = (CLASSIFIERS | REGRESSORS)[name]
    problem = problem_of(7, model, oar.Withhold(most=1), classes=3, size=18)
    rows, weights = (part.copy() for part in before_of(problem).parts[1:])
    weights[[2, 5]] = 0.0
    if problem.regresses:
        rows[4] += 1.0
        changed = problem.people.contributing(weights, rows, regresses=True)
    else:
        rows[4] = np.roll(rows[4], 1)
        changed = problem.people.contributing(weights, rows)
    ours = OwnTraining(problem, 1e-9, EMPTY).aimed(Contribution(None, rows, weights))
    fresh = model.training(changed)
    fit = fresh.fit(fresh.moved(None), fresh.start(), 1e-10)
    loss = fresh.goal(fit.parameters, problem.query_features, problem.goal_target)[0]
    assert ours.loss == pytest.approx(loss, rel=1e-7)
