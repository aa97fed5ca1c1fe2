"""An ensemble is its models' trainings put together: by finite differences of refits, and beside each model alone."""

import numpy as np
import pytest

import oar
from oar.errors import DataError
from oar.models import Ensemble, GaussianNaiveBayes, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.signals.base import refit
from oar.signals.implicit import Implicit

TWO = (Scaled(SoftmaxRegression(0.05)), SoftmaxRegression(0.2))


def crowd(classes=2, size=30, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % classes
    return oar.Population(rng.normal(size=(size, 3)) + 1.2 * labels[:, None] * [1, 0.5, -1], labels)


def loss_after(problem, moves):
    training = problem.training()
    return refit(training, moves, problem.first_query, problem.goal_target, None, 1e-11).loss


@pytest.mark.parametrize("draws", [(), (None, 5)])
@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_are_those_of_refits(classes, draws):
    people = crowd(classes)
    problem = oar.Problem(people, Ensemble(TWO, draws), oar.Query([0.2, 0.1, 0.3], goal=1), oar.Perturb(0.3))
    training = problem.training()
    step = Implicit(tolerance=1e-10).at(training, None, problem.first_query, problem.goal_target, None, 1e-11)
    rng = np.random.default_rng(1)
    for _ in range(3):
        way, small = rng.normal(size=(30, 3)), 1e-4
        slope = (loss_after(problem, small * way) - loss_after(problem, -small * way)) / (2 * small)
        said = float((training.weights[:, None] * step.gradient * way).sum())
        assert said == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_it_says_the_mean_of_what_its_models_say_alone():
    people = crowd(2)
    query = oar.Query([0.2, 0.1, 0.3], goal=1)
    models = (*TWO, Scaled(LinearSVM(0.1)), GaussianNaiveBayes())

    def alone(model):
        return oar.Problem(people, model, query, oar.Perturb(0.3))

    together = loss_after(alone(Ensemble(models)), None)
    assert together == pytest.approx(np.mean([loss_after(alone(model), None) for model in models]), rel=1e-8)


def test_scores_promise_what_other_labels_do():
    """s(y') − s(y) is the first-order effect of a small share of another label."""
    people = crowd(3)
    problem = oar.Problem(people, Ensemble(TWO, (None, 3)), oar.Query([0.2, 0.1, 0.3], goal=1), oar.Perturb(0.3))
    training, rows, small = problem.training(), people.class_rows(), 1e-5
    outcome = refit(training, None, problem.first_query, problem.goal_target, None, 1e-11)
    signal = training.solve(outcome.fit, outcome.pull, None, 1e-10)
    other = np.roll(rows, 1, axis=1)
    targets, mixed = (
        np.ascontiguousarray(problem.model.target_rows(r)) for r in (rows, (1 - small) * rows + small * other)
    )
    scores = [
        training.scores(outcome.fit.parameters, outcome.fit.features, signal, t)
        for t in (targets, np.ascontiguousarray(problem.model.target_rows(other)))
    ]
    for person in (0, 4, 17):
        changed = targets.copy()
        changed[person] = mixed[person]
        after = training.contributing(changed, training.weights)
        fit = after.fit(after.moved(None), outcome.fit.parameters, 1e-12)
        moved = after.goal(fit.parameters, problem.first_query, problem.goal_target)[0] - outcome.loss
        promised = -training.weights[person] * small * (scores[1] - scores[0])[person]
        assert moved == pytest.approx(promised, rel=1e-3, abs=1e-12)


def test_one_plan_lowers_the_losses_of_all():
    people = crowd(2)
    problem = oar.Problem(people, Ensemble(TWO), oar.Query([-0.3, 0.1, 0.3], goal=1), oar.Perturb(0.5))
    found = oar.solvers.propose_collective(problem)
    for model in TWO:
        alone = oar.Problem(people, model, problem.query, problem.action)
        assert loss_after(alone, np.asarray(found.plan.moves())) < loss_after(alone, None)


def test_draws_are_those_of_their_seed():
    people = crowd(2)
    weights = [Ensemble(TWO, (7, seed)).training(people).parts[0].weights for seed in (1, 2)]
    np.testing.assert_array_equal(*weights)
    assert np.unique(weights[0]).size > 1


def test_values_are_averaged():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2))
    people = oar.Population(features, features @ [1.0, 2.0] + rng.normal(size=40))
    models = (Ridge(0.1), Scaled(Ridge(1.0)))
    ensemble = Ensemble(models)
    parameters = ensemble.fit(people)
    alone = [model.predict(model.fit(people), features[:4]) for model in models]
    np.testing.assert_allclose(ensemble.predict(parameters, features[:4]), np.mean(alone, axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("models", "draws", "words"),
    [
        ((), (), "models: must be one or more"),
        ((oar.NearestCentroid(),), (), "models: must be one or more"),
        ((Ridge(), SoftmaxRegression()), (), "got both"),
        (TWO, (1,), "draws: must be one for each of 2"),
    ],
)
def test_what_cannot_be_trained_side_by_side_is_refused(models, draws, words):
    with pytest.raises(DataError, match=words):
        Ensemble(models, draws)
