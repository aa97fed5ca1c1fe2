"""Least loss and the goal's region are two aims: what a query could do within its budget is said, and is true."""

import numpy as np
import pytest

import oar
from oar import models
from oar.referee.witnesses.refits import refit


def asked(seed, model, norm=2):
    draw = np.random.default_rng(seed)
    codes = np.arange(30) % 3
    features = draw.normal(size=(30, 2)) + 1.5 * draw.normal(size=(3, 2))[codes]
    query = oar.Query(2 * draw.normal(size=2), goal=int(draw.integers(3)))
    return oar.Problem(oar.Population(features, codes), model, query, oar.Perturb(1.0, norm=norm))


MODELS = [models.SoftmaxRegression(0.05), models.LinearSVM(0.05)]


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_shortest_move_of_a_linear_model_is_the_shortest(model, norm):
    for seed in range(12):
        problem = asked(seed, model, norm)
        move = oar.solvers.shortest_move(problem)
        fitted = refit(model, problem.people, problem.people.features)

        def predicted(moves, fitted=fitted, problem=problem):
            return fitted.outputs(problem.query_features + moves).argmax(axis=1)

        if move is None:
            continue
        length = np.linalg.norm(move, ord=norm)
        if length == 0:
            assert predicted(np.zeros((1, 2)))[0] == problem.goal
            continue
        grid = np.random.default_rng(1).normal(size=(20_000, 2))
        lengths = length * (1 - 1e-6) * np.random.default_rng(2).random(20_000) ** 0.5
        grid *= (lengths / np.linalg.norm(grid, ord=norm, axis=1))[:, None]
        assert not (predicted(grid) == problem.goal).any()  # nothing shorter
        beyond = move + 1e-6 * np.random.default_rng(3).normal(size=(200, 2))
        assert (predicted(beyond) == problem.goal).any()  # and it is on the edge


def test_advice_does_not_ask_for_a_larger_budget_where_this_one_is_enough():
    between = 0
    for seed in range(60):
        problem = asked(seed, MODELS[0])
        move = oar.solvers.shortest_move(problem)
        if move is None or not move.any():
            continue
        within = problem.with_action(budget=1.02 * float(np.linalg.norm(move)))
        result = oar.individual(within)
        if result.status == "improved":
            between += 1
            assert "allow larger budgets" not in result.explanation
            assert "though a move within this budget does reach it" in result.explanation
            plan = oar.plans.MemberPlan(within, 1.01 * move, np.zeros((30, 2)))
            assert oar.audit(plan).success or oar.audit(plan).margin > -1e-2  # two edges may meet there
    assert between > 0


def test_values_too():
    draw = np.random.default_rng(0)
    features = draw.normal(size=(40, 3))
    people, query = oar.Population(features, features @ [1.0, 0.5, 2.0]), oar.Query(np.zeros(3), goal=2.0, within=0.1)
    problem = oar.Problem(people, models.Ridge(0.1), query, oar.Perturb(5.0))
    move = oar.solvers.shortest_move(problem)
    told = refit(problem.model, people, features).outputs((problem.query_features + move)[None])[0]
    assert told[0] == pytest.approx(1.9, rel=1e-6)
