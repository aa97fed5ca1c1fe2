"""What is proved to be needed: no moves, however bad, may do what was ruled out. Refits by scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.svm import LinearSVC
from support.centroid_problems import NORMS, seeds
from support.random_tables import worlds as tables

import oar
from oar.models import LinearSVM, Ridge
from oar.questions.least.bounds import BudgetBound, bound_of, largest

KINDS = ("softmax", "ridge", "svm")


def drawn(seed, kind, size=12):
    """Return a problem of a kind with random weights, budgets, l2 and norm."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([[0, 1], rng.integers(0, 2, size - 2)])
    dimensions = int(rng.integers(1, 4))
    features = rng.normal(size=(size, dimensions)) + rng.uniform(0, 2) * labels[:, None] + rng.normal(0, 3, dimensions)
    l2 = float(rng.choice([0.03, 0.3, 3.0]))
    weights = rng.choice([0.5, 1.0, 2.0], size)
    budgets = rng.choice([0.0, 0.3, 1.0], size)
    query = features.mean(axis=0) + rng.normal(size=dimensions)
    model = {"softmax": oar.SoftmaxRegression(l2), "ridge": Ridge(l2), "svm": LinearSVM(l2, penalise_intercept=True)}
    values = rng.normal(size=size) if kind == "ridge" else labels
    goal = {"goal": 1.0, "within": 0.1} if kind == "ridge" else {"goal": int(rng.integers(0, 2))}
    people = oar.Population(features, values, weights)
    action = oar.Perturb(budgets, norm=float(rng.choice(NORMS)))
    return oar.Problem(people, model[kind], oar.Query(query, **goal), action)


def output(problem, features):
    """Return the query's output, refitted by scikit-learn."""
    people, l2 = problem.people, problem.model.l2
    weights = people.weights / people.weights.sum()
    kind = type(problem.model).__name__
    if kind == "Ridge":
        fitted = SklearnRidge(alpha=l2).fit(features, people.labels, weights)
        return float(fitted.predict(problem.query_features[None])[0])
    if kind == "SoftmaxRegression":
        fitted = LogisticRegression(C=1 / l2, tol=1e-12, max_iter=10_000)
    else:
        fitted = LinearSVC(C=1 / l2, tol=1e-10, max_iter=100_000, dual=False)
    return float(fitted.fit(features, people.labels, weights).decision_function(problem.query_features[None])[0])


def extreme_moves(problem, rng, members):
    """Return full moves of some members at random: all one way, or each its own; or towards a collective's plan."""
    people, allowance = problem.people, problem.allowance
    shape = people.features.shape
    ways = rng.normal(size=shape[1] if rng.random() < 0.5 else shape) * np.ones(shape)
    moves = allowance.norm.maximise(ways, allowance.everyones(people.size))
    moves[rng.permutation(people.size)[members:]] = 0.0
    return moves


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=40)
def test_no_refit_carries_the_query_farther_than_is_proved(kind, seed):
    problem = drawn(seed, kind)
    rng, bound = np.random.default_rng(seed), bound_of(problem)
    budgets = problem.allowance.everyones(problem.people.size)
    features = np.asarray(problem.people.features)
    before = output(problem, features)
    assert before == pytest.approx(float(bound.now[0]), abs=1e-4)
    for members in (1, 3, 12):
        most = bound.change(bound.outputs[0], budgets, members)
        after = output(problem, features + extreme_moves(problem, rng, members))
        assert abs(after - before) <= most + 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_holds_against_every_choice_of_members_and_shrinks_with_them(kind):
    telling, quick = 0, oar.solvers.ProjectedGradient(restarts=0, max_steps=40)
    for seed in range(6):
        problem = drawn(seed, kind, size=6)
        bound = bound_of(problem)
        if oar.collective(problem, solver=quick).audit.success_before:
            continue
        budgets = problem.allowance.everyones(6)
        able = np.flatnonzero(budgets)
        size = sum(bound.ruled_out(budgets, number) for number in range(1, able.size + 1))
        telling += size > 0
        for some in itertools.islice(itertools.combinations(able, size), 4) if size else ():
            few = problem.with_action(participants=np.isin(np.arange(6), some), seed=None)
            assert not oar.collective(few, solver=quick).success
    assert telling  # otherwise nothing was looked at


def test_a_smaller_budget_and_fewer_members_are_ruled_out_too():
    problem = drawn(5, "softmax")
    bound, budgets = bound_of(problem), problem.allowance.everyones(12)
    changes = [[bound.change(bound.outputs[0], scale * budgets, m) for m in (1, 4, 12)] for scale in (0.1, 0.5, 1.0)]
    assert (np.diff(changes, axis=0) > 0).all()
    assert (np.diff(changes, axis=1) >= 0).all()
    # Nobody moves nothing, but for what rounding leaves of the fit's own gradient.
    assert bound.change(bound.outputs[0], 0 * budgets, 12) < 1e-4


@given(tables(most_rows=15, columns=3))
@settings(max_examples=15)
def test_on_tables_moves_are_no_longer_than_is_said(world):
    problem = world.problem(oar.SoftmaxRegression(l2=0.1))
    if len(problem.people.classes) != 2:
        return
    bound, budgets = bound_of(problem), problem.allowance.everyones(problem.people.size)
    moves = oar.collective(problem).plan.moves().to_numpy()
    assert (np.linalg.norm(moves, axis=1) <= bound.longest(budgets) * (1 + 1e-9) + 1e-12).all()
    slope = np.random.default_rng(0).normal(size=moves.shape[1])
    assert (np.abs(moves @ slope) <= bound.reach_along(slope, budgets) * (1 + 1e-9) + 1e-9).all()


def test_where_nothing_is_proved_there_is_no_bound():
    rng = np.random.default_rng(0)
    people = oar.Population(rng.normal(size=(9, 2)), np.arange(9) % 3)
    for model in (
        oar.SoftmaxRegression(),  # three classes
        oar.models.Scaled(oar.SoftmaxRegression()),
        LinearSVM(),
        oar.models.MLP((3,)),
    ):
        assert type(bound_of(oar.Problem(people, model, oar.Query([0.0, 0.0], 1), oar.Perturb(1.0)))) is BudgetBound


@given(seeds)
def test_largest(seed):
    rng = np.random.default_rng(seed)
    values, number = rng.random(7), int(rng.integers(0, 10))
    assert largest(values, number) == pytest.approx(float(np.sort(values)[::-1][:number].sum()))
