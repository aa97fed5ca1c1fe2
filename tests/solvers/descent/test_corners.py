"""Other corners: compared with every combination of them, where that can be counted."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import oar
from oar.models import LinearSVM, SoftmaxRegression
from oar.signals import Implicit
from oar.solvers.descent.corners import across, one_by_one
from oar.solvers.descent.descent import DescentProblem, DescentSettings, SingleRefit
from oar.solvers.descent.multistart import Multistart, Start
from oar.solvers.feasible.sets import FeasibleBalls


def few_people(model, seed, norm, budget=0.8, size=5):
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(size, 2)), np.arange(size) % 2
    query = oar.Query(rng.normal(size=2) - 1.0, 1)
    return oar.Problem(
        oar.Population(features, labels, rng.uniform(0.5, 2.0, size)), model, query, oar.Perturb(budget, norm=norm)
    )


def search_from(problem, moves):
    training = problem.model.training(problem.people)
    radii = np.append(problem.allowance.everyones(problem.people.size), 0.0)
    limits = FeasibleBalls(problem.allowance.norm, radii, np.append(training.weights, 1.0))
    settings = DescentSettings("spectral", 0, 1e-9, np.inf, tight=True)
    objective = SingleRefit(training, Implicit(), problem.query_features, problem.goal_target)
    search = Multistart(DescentProblem(objective, limits, settings))
    search.run(Start(moves))
    return search


def loss_of(problem, moves):
    return next(losses_of(problem, [moves]))


def losses_of(problem, many_moves):
    """Yield the loss after each of many moves; every refit starts where the last one ended, which moves little."""
    training = problem.model.training(problem.people)
    parameters = training.start()
    for moves in many_moves:
        parameters = training.fit(training.moved(np.array(moves)), parameters, 1e-10).parameters
        yield training.goal(parameters, problem.query_features, problem.goal_target)[0]


@pytest.mark.parametrize("model", [LinearSVM(0.05), SoftmaxRegression(0.05)], ids=["svm", "softmax"])
@pytest.mark.parametrize("norm", [1, np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_no_combination_of_corners_is_better_than_the_answer(model, norm, seed):
    problem = few_people(model, seed, norm, size=4)
    ends = [(1, 0), (-1, 0), (0, 1), (0, -1)] if norm == 1 else list(product((1, -1), repeat=2))
    combinations = product(0.8 * np.array(ends, dtype=float), repeat=4)
    best = min(losses_of(problem, combinations))
    found = oar.collective(problem, solver=oar.solvers.ProjectedGradient(restarts=4))  # a sixth of the default
    assert found.loss <= best * (1 + 1e-6)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_one_by_one_ends_where_no_single_member_is_better_off_elsewhere(norm):
    problem = few_people(LinearSVM(0.05), 4, norm)
    start = 0.8 * np.array([[1.0, 0.0]] * 5 + [[0.0, 0.0]])
    search = search_from(problem, start)
    before = search.best.loss
    losses = [before]
    maker = partial(one_by_one, search.problem)
    while starts := list(maker(search.history)):
        (start,) = starts
        search.run(start)
        losses.append(search.best.loss)
        assert search.problem.feasible.norm.length(start.moves).max() <= 0.8 * (1 + 1e-12)
        maker = start.followed
    assert losses[-1] < before
    assert (np.diff(losses) < 0).all()


def test_across_moves_all_who_like_it_better_at_once():
    problem = few_people(LinearSVM(0.05), 4, 1)
    worst = max(
        (0.8 * np.array([*corners, (0, 0)], dtype=float) for corners in product([(1, 0), (-1, 0)], repeat=5)),
        key=lambda moves: loss_of(problem, moves[:-1]),
    )
    search = search_from(problem, worst)
    (start,) = across(search.problem, search.history)
    moves = start.moves
    assert (moves[:-1] != worst[:-1]).any(axis=1).sum() > 1
    np.testing.assert_array_equal(moves[-1], 0.0)
    assert loss_of(problem, moves[:-1]) < loss_of(problem, worst[:-1])


def test_people_without_weight_are_left_alone():
    problem = few_people(LinearSVM(0.05), 4, 1)
    people = oar.Population(problem.people.features, problem.people.class_rows().argmax(1), [1.0, 1.0, 1.0, 1.0, 0.0])
    problem = oar.Problem(people, problem.model, problem.query, problem.action)
    search = search_from(problem, 0.8 * np.array([[1.0, 0.0]] * 5 + [[0.0, 0.0]]))
    (start,) = one_by_one(search.problem, search.history)
    moves = start.moves
    assert (moves[:4] != search.best.moves[:4]).any()
    np.testing.assert_array_equal(moves[4], 0.0)


def test_screened_starts_are_kept_with_few_restarts_too():
    problem = few_people(SoftmaxRegression(0.05), 2, 1)
    one = oar.solvers.propose_collective(problem, oar.solvers.ProjectedGradient(restarts=1))
    none = oar.solvers.propose_collective(problem, oar.solvers.ProjectedGradient(restarts=0))
    assert one.claimed_loss <= none.claimed_loss * (1 + 1e-9)
    assert one.steps > none.steps


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_no_steps_means_no_steps(norm):
    problem = few_people(LinearSVM(0.05), 2, norm)
    found = oar.solvers.propose_collective(problem, oar.solvers.ProjectedGradient(max_steps=0, restarts=3))
    assert found.steps == 0
    moves = np.asarray(found.plan.moves())
    np.testing.assert_allclose(moves, np.tile(moves[0], (5, 1)))  # at most minus the query's own best move


def test_the_order_of_people_with_equal_features_does_not_matter():
    rng = np.random.default_rng(0)
    features, labels, weights = np.round(rng.normal(size=(16, 2))), np.arange(16) % 3, rng.uniform(0.5, 2.0, 16)
    order = np.random.default_rng(9).permutation(16)
    losses = []
    for some in (np.arange(16), order):
        people = oar.Population(features[some], labels[some], weights[some])
        problem = oar.Problem(people, SoftmaxRegression(0.01), oar.Query([1.0, -1.0], 1), oar.Perturb(0.7, norm=1))
        losses.append(oar.solvers.propose_collective(problem, oar.solvers.ProjectedGradient(restarts=1)).claimed_loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
