"""The query alone against a trained model: what is proved of it, and how other verbs lean on it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.models import Custom, LinearSVM, Ridge, SoftmaxRegression
from oar.solvers import ProjectedGradient


def cloud(seed, classes, model, budget, norm=2, far=4.0):
    rng = np.random.default_rng(seed)
    codes = np.arange(30) % classes
    features = rng.normal(0, 1.0, (classes, 2))[codes] + rng.normal(size=(30, 2))
    query = oar.Query(far * rng.normal(size=2), int(rng.integers(0, classes)))
    return oar.Problem(oar.Population(features, codes), model, query, oar.Perturb(budget, norm))


def grid_of_moves(norm, budget, steps=121):
    """Return moves that fill the ball and its edge."""
    side = np.linspace(-budget, budget, steps)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    lengths = np.linalg.norm(square, ord=norm, axis=1)
    edge = square[lengths > 0] / lengths[lengths > 0, None] * budget
    return np.concatenate([square[lengths <= budget], edge])


def someone_gets_the_goal(problem, budget):
    training = problem.model.training(problem.people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    matrix = training.in_given_units(fit.parameters).reshape(problem.goal_target.size, -1)
    places = problem.query_features + grid_of_moves(problem.allowance.norm.p, budget)
    outputs = places @ matrix[:, :-1].T + matrix[:, -1]
    logits = np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.shape[1] == 1 else outputs
    return bool((logits.argmax(axis=1) == problem.goal).any())


@pytest.mark.parametrize("model", [SoftmaxRegression(0.05), LinearSVM(0.05)])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@given(seed=st.integers(0, 10_000), budget=st.floats(0.05, 6.0))
@settings(max_examples=12)
def test_impossible_is_said_only_where_no_move_on_a_fine_grid_gets_the_goal(model, classes, norm, seed, budget):
    problem = cloud(seed, classes, model, budget, norm)
    alone = oar.individual(problem)
    if alone.status == "impossible":
        assert not someone_gets_the_goal(problem, budget)
    elif classes == 2 and not alone.success:  # a single logit: the optimum decides
        raise AssertionError("one logit leaves nothing unproved")


def test_impossible_is_said_where_it_is_true():
    said = [oar.individual(cloud(seed, 4, SoftmaxRegression(0.05), 0.3)).status for seed in range(12)]
    assert said.count("impossible") >= 6


@given(seed=st.integers(0, 10_000), budget=st.floats(0.0, 3.0))
@settings(max_examples=20)
def test_a_prediction_of_one_value_is_in_reach_or_proved_not_to_be(seed, budget):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(20, 2))
    people = oar.Population(features, features @ [1.0, -2.0] + rng.normal(0, 0.1, 20))
    query = oar.Query(rng.normal(size=2), float(rng.normal(0, 5)), within=0.1)
    alone = oar.individual(oar.Problem(people, Ridge(0.01), query, oar.Perturb(budget)))
    assert alone.status in {"achieved", "already", "impossible"}


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_the_bound_is_below_what_the_audit_finds(seed):
    alone = oar.individual(cloud(seed, 3, SoftmaxRegression(1e-3), 0.4, far=1.0))
    assert alone.exact
    assert alone.bound <= alone.loss
    assert alone.bound >= alone.loss * (1 - 1e-3) - 1e-6


@pytest.mark.parametrize(
    "spelling",
    [
        {"participants": 1.0},
        {"participants": np.ones(30, bool)},
        {"budget": np.full(30, 0.5)},
        {"budget": np.append(0.5, np.full(29, 0.7))},
    ],
)
def test_full_participation_however_it_is_spelt_starts_from_the_individuals_answer(spelling):
    """One step at the most, so that the loop itself cannot get there."""
    problem = cloud(3, 3, SoftmaxRegression(0.05), 0.5, norm=1)
    spelt = oar.Problem(
        problem.people,
        problem.model,
        oar.Query(problem.query_features, problem.query.goal, budget=0.5),
        oar.Perturb(**{"budget": 0.5, "norm": 1} | spelling),
    )
    for steps in (0, 1):
        assert (
            oar.collective(spelt, solver=ProjectedGradient(max_steps=steps)).loss <= oar.individual(spelt).loss + 1e-8
        )


def test_people_without_weight_may_stay():
    problem = cloud(3, 3, SoftmaxRegression(0.05), 0.5)
    weights, budgets = np.ones(30), np.full(30, 0.5)
    weights[4] = budgets[4] = 0.0
    people = oar.Population(problem.people.features, problem.people.labels, weights)
    query = oar.Query(problem.query_features, problem.query.goal, budget=0.5)
    spelt = oar.Problem(people, problem.model, query, oar.Perturb(budgets))
    assert oar.collective(spelt, solver=ProjectedGradient(max_steps=0)).loss <= oar.individual(spelt).loss + 1e-8


@pytest.mark.parametrize("model", [SoftmaxRegression(0.05), LinearSVM(0.05, penalise_intercept=True)])
def test_joint_starts_from_the_individuals_answer_too(model):
    problem = cloud(5, 3, model, 0.4)
    both = oar.joint(problem, solver=ProjectedGradient(max_steps=0))
    assert both.loss <= oar.individual(problem).loss + 1e-8


def test_losses_below_zero_have_certificates_too():
    def loss(parameters, x, y):
        return 0.5 * ((parameters["w"] @ x + parameters["b"] - y) ** 2).sum() - 100.0

    def init(dimensions, outputs):
        return {"w": np.zeros((outputs, dimensions)), "b": np.zeros(outputs)}

    rng = np.random.default_rng(0)
    features = rng.normal(size=(20, 2))
    people = oar.Population(features, features @ [1.0, -2.0] + rng.normal(size=20))
    model = Custom(
        loss=loss,
        init=init,
        outputs=lambda parameters, x: parameters["w"] @ x + parameters["b"],
        penalty=lambda parameters: 0.01 * (parameters["w"] ** 2).sum(),
        regresses=True,
        convex=True,
    )
    problem = oar.Problem(people, model, oar.Query(np.zeros(2), 3.0, within=0.1), oar.Perturb(0.2))
    together = oar.collective(problem)
    assert together.loss < -90
    assert together.bound == -np.inf
    assert together.proposal.finished


def test_why_a_solver_ended_is_said():
    problem = cloud(5, 3, SoftmaxRegression(0.05), 0.2)
    few = oar.collective(problem, solver=ProjectedGradient(max_steps=1))
    late = oar.collective(problem, solver=ProjectedGradient(time_limit=0.0))
    rough = oar.collective(problem, solver=ProjectedGradient(tolerance=1e-3), signal=oar.signals.Neumann(1))
    assert {few.status, late.status, rough.status} == {"stopped early"}
    assert "max_steps" in few.explanation
    assert "time limit" in late.explanation
    assert "signal" in rough.explanation


def test_options_that_would_do_nothing_are_refused():
    problem = cloud(5, 3, SoftmaxRegression(0.05), 0.2)
    for settings_ in (ProjectedGradient(restarts=2), ProjectedGradient(time_limit=1.0)):
        with pytest.raises(oar.errors.OptionError, match="restarts and time_limit"):
            oar.individual(problem, solver=settings_)
