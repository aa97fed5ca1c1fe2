"""Projected gradients that may climb: they stay within limits, never end above their start, and pass by kinks."""

import time

import numpy as np
import pytest

import oar
from oar.models import LinearSVM
from oar.signals import Implicit
from oar.solvers.descent.descent import DescentSettings, SingleRefit, descend
from oar.solvers.descent.nonmonotone import wandering_search
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.query.move_search import BatchedObjective, minimise


def svm_problem(seed, norm):
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(20, 3)), np.arange(20) % 3
    people = oar.Population(features, labels, rng.uniform(0.5, 2.0, 20))
    return oar.Problem(people, LinearSVM(1e-2), oar.Query(2.0 * features[0], 1), oar.Perturb(0.2, norm=norm))


def asked(problem):
    training = problem.model.training(problem.people)
    radii = np.append(problem.allowance.everyones(problem.people.size), 0.0)
    limits = FeasibleBalls(problem.allowance.norm, radii, np.append(training.weights, 1.0))
    return SingleRefit(training, Implicit(), problem.query_features, problem.goal_target), limits


def loss_at(question, moves):
    return question[0].at(moves, None, 1e-10).loss


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_it_stays_within_limits_and_ends_below_its_start(norm):
    problem = svm_problem(3, norm)
    question = asked(problem)
    limits = question[-1]
    start = limits.respond(np.random.default_rng(0).normal(size=(21, 3)))
    found, steps = wandering_search(*question, 100, np.inf, start)
    assert 0 < steps <= 100
    assert (limits.norm.length(found) <= limits.radii * (1 + 1e-12)).all()
    assert loss_at(question, found) < loss_at(question, start)


def test_with_respond_it_begins_from_the_full_response():
    question = asked(svm_problem(3, 2))
    objective, limits = question
    stay = np.zeros((21, 3))
    step = objective.at(stay, None, 1e-10)
    slopes = np.concatenate([step.gradient, step.outcome.query_slope[None]])
    np.testing.assert_allclose(wandering_search(*question, 0, np.inf, stay, respond=True)[0], limits.respond(slopes))
    np.testing.assert_array_equal(wandering_search(*question, 0, np.inf, stay)[0], stay)


def test_it_passes_by_kinks_at_which_steps_that_never_climb_stop():
    lower = 0
    for seed, norm in ((0, np.inf), (4, 2), (4, np.inf), (5, 2), (6, np.inf)):  # on others they end alike, or higher
        question = asked(svm_problem(seed, norm))
        start = question[-1].respond(np.random.default_rng(1).normal(size=(21, 3)))
        downhill = descend(*question, start, DescentSettings("spectral", 250, 1e-9, np.inf, tight=True)).loss
        lower += loss_at(question, wandering_search(*question, 250, np.inf, start)[0]) < downhill * (1 - 1e-4)
    assert lower >= 3


def test_no_step_begins_after_the_deadline():
    calls = []

    def evaluate(points, rows):
        calls.append(1)
        return (points**2).sum(1), 2 * points

    objective = BatchedObjective(
        evaluate=evaluate,
        project=lambda points, rows: points,
        inner=lambda left, right, rows: (left * right).sum(1),
        gap=lambda points, gradients, rows: np.ones(len(points)),
    )
    start = np.ones((1, 2))
    late = minimise(objective, start, np.array([0.1]), 50, 1e-9, deadline=time.monotonic() - 1.0)
    assert late.steps == 0
    assert len(calls) == 1
    assert minimise(objective, start, np.array([0.1]), 50, 1e-9).steps > 0
