"""One decision tree: the query's exact best move, against every combination of thresholds, asked of scikit-learn."""

import itertools
import re

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import oar
from oar import referee
from oar.estimators.tree_boxes import last_to_the_left
from oar.retraining.black_box import BlackBoxTraining
from oar.solvers import shortest_move
from oar.solvers.black_box import planning
from oar.solvers.black_box.exact.tree import SEEDS

NORMS = (1, 2, np.inf)


def world(seed, tree, budget, norm=2, classes=3, size=60, dimensions=2, query_budget=None):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % classes
    features = rng.normal(0, 1.0, (classes, dimensions))[codes] + rng.normal(0, 1.5, (size, dimensions))
    query = oar.Query(2 * rng.normal(size=dimensions), int(rng.integers(0, classes)), budget=query_budget)
    return oar.Problem(oar.Population(features, codes), oar.BlackBox(tree), query, oar.Perturb(budget, norm))


def fitted(problem):
    return BlackBoxTraining(problem).unmoved(0)


def places(problem, box):
    """Return points (m, d) with every combination of this side, and that side, of every threshold of a plain tree.

    The thresholds' sides are found by trying numbers one after another, with scikit-learn's comparison itself.
    """
    tree, query = box.fitted.tree_, problem.query_features
    columns = []
    for feature, start in enumerate(query):
        values = {float(start)}
        for threshold in tree.threshold[tree.feature == feature]:
            low = np.nextafter(np.float32(threshold), np.float32(-np.inf))
            sides = [low, *(low := np.nextafter(low, np.float32(np.inf)) for _ in range(3))]
            values |= {float(side) for side in sides}
        columns.append(sorted(values))
    return np.array(list(itertools.product(*columns)))


def judged(problem, box, points):
    """Return losses and whether the goal is strictly the most probable, from probabilities as they are told."""
    logits = box.says(np.asarray(points)).outputs
    rivals = np.delete(logits, problem.goal, axis=1).max(axis=1)
    return np.logaddexp.reduce(logits, axis=1) - logits[:, problem.goal], logits[:, problem.goal] > rivals + 1e-6


def clear_tree(depth):
    """Return a tree whose splits hardly ever tie."""
    return DecisionTreeClassifier(max_depth=depth, min_samples_leaf=7)


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 10_000), budget=st.floats(0.0, 5.0), depth=st.integers(1, 4))
@settings(max_examples=10)
def test_no_combination_of_thresholds_is_better(norm, seed, budget, depth):
    problem = world(seed, clear_tree(depth), budget, norm)
    found = planning.exact_move(problem)
    if found is None:  # two splits are equally good
        return
    box = fitted(problem)
    points = places(problem, box)
    lengths = np.linalg.norm(points - problem.query_features, ord=norm, axis=1)
    losses, reached = judged(problem, box, points)
    near = lengths <= budget
    result = oar.audit(found.plan)
    assert not result.violations
    assert result.loss == pytest.approx(found.claimed_loss)
    best = min(zip(~reached[near], losses[near], strict=True))
    assert (not result.success, result.loss) <= (best[0], best[1] + 1e-9)
    assert not found.exact or result.loss <= losses[near].min() + 1e-9
    told = referee.judged(found, problem, "query")
    assert told.bound <= losses[near].min() + 1e-9
    assert not (told.impossible and reached[near].any())
    move = shortest_move(problem)
    assert (move is None) == (not reached.any())
    if move is not None:
        assert judged(problem, box, [problem.query_features + move])[1].all()
        # Points are floats of 32 bits; halves of their steps are what lies between them and the shortest move.
        least, shortest = np.linalg.norm(move, ord=norm), lengths[reached].min()
        assert shortest - 1e-5 <= least <= shortest


@given(
    threshold=st.floats(-1e6, 1e6),
    start=st.floats(-1e6, 1e6, width=32) | st.floats(-1e6, 1e6),
)
def test_the_last_move_to_the_left_is_the_last(threshold, start):
    query = np.array([start])
    last = last_to_the_left(query, np.array([0]), np.array([threshold]), lambda rows: rows)[0]
    for move, left in ((last, True), (np.nextafter(last, np.inf), False)):
        assert (np.float64(np.float32(start + move)) <= threshold) == left


@pytest.mark.parametrize("goal", ["left", "right"])
@given(
    near=st.floats(-100, 100, width=32),
    step=st.integers(1, 3),
    start=st.floats(-1000, 1000),
)
@settings(max_examples=40)
def test_a_stump_is_crossed_by_the_smallest_number_that_crosses_it(goal, near, step, start):
    far = np.float32(near)
    for _ in range(step):  # so near that the threshold itself must be rounded
        far = np.nextafter(far, np.float32(np.inf))
    people = oar.Population([[near], [far]], ["left", "right"])
    box = oar.BlackBox(DecisionTreeClassifier(max_depth=1))
    problem = oar.Problem(people, box, oar.Query([start], goal, budget=0.0), oar.Perturb(0.0))
    stump = DecisionTreeClassifier(max_depth=1).fit([[near], [far]], ["left", "right"])
    move = shortest_move(problem)
    if len(stump.tree_.value) == 1:  # scikit-learn does not tell them apart at all
        assert move is None
        return
    assert stump.predict([[start + move[0]]])[0] == goal
    if move[0]:
        assert stump.predict([[start + np.nextafter(move[0], 0.0)]])[0] != goal


def test_a_budget_of_the_shortest_move_is_enough_and_less_is_not():
    seen = 0
    for seed in range(20):
        norm = NORMS[seed % 3]
        problem = world(seed, clear_tree(2), 1.0, norm, query_budget=0.0)
        if planning.exact_move(problem) is None:
            continue
        move = shortest_move(problem)
        least = 0.0 if move is None else float(problem.allowance.norm.length(move))
        if not least:
            continue
        seen += 1
        for budget, status in ((least, "achieved"), (least * (1 - 1e-8), "impossible")):
            query = oar.Query(problem.query.features, problem.query.goal, budget=budget)
            result = oar.individual(oar.Problem(problem.people, problem.model, query, problem.action))
            assert result.status == status
            enough = float(re.search(r"at least ([\d.e+-]+),", result.proposal.suffices).group(1))
            assert least <= enough <= least * (1 + 2e-5)
    assert seen >= 6


@pytest.mark.parametrize(
    ("scaler", "named"),
    [
        (StandardScaler(), False),
        (StandardScaler(), True),
        (MinMaxScaler(clip=True), False),
        (RobustScaler(), False),
        (MaxAbsScaler(), False),
    ],
)
def test_scalers_before_the_tree_are_rounded_as_they_round(scaler, named):
    seen = 0
    for seed in range(8):
        norm = NORMS[seed % 3]
        plain = world(seed, make_pipeline(scaler, "passthrough", clear_tree(2)), 1.0, norm)
        features, labels = plain.people.features, plain.people.labels
        frame = pandas.DataFrame(features, columns=["a", "b"]) if named else features
        problem = oar.Problem(oar.Population(frame, labels), plain.model, plain.query, plain.action)
        found = planning.exact_move(problem)
        move = None if found is None else shortest_move(problem)
        if move is None or not move.any():
            continue
        seen += 1
        box, query = fitted(problem), problem.query_features
        assert judged(problem, box, [query + move])[1].all()
        for place in np.flatnonzero(move):  # any coordinate by one number less is not enough
            less = move.copy()
            less[place] = np.nextafter(move[place], 0.0)
            assert not judged(problem, box, [query + less])[1].any()
        around = query + np.random.default_rng(seed).normal(size=(4_000, 2))
        lengths = np.linalg.norm(around - query, ord=norm, axis=1)
        there = box.says(around).outputs.argmax(axis=1) == problem.goal
        assert lengths[there].min(initial=np.inf) >= np.linalg.norm(move, ord=norm)
    assert seen >= 2


@given(seed=st.integers(0, 10_000), budget=st.floats(0.0, 3.0))
@settings(max_examples=10)
def test_regression_trees_reach_the_nearest_value_that_they_can(seed, budget):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, 2))
    people = oar.Population(features, features @ [1.0, -2.0] + rng.normal(size=60))
    query = oar.Query(rng.normal(size=2), 1.0, within=0.3)
    problem = oar.Problem(
        people, oar.BlackBox(DecisionTreeRegressor(max_depth=4, min_samples_leaf=3)), query, oar.Perturb(budget, np.inf)
    )
    found = planning.exact_move(problem)
    if found is None:
        return
    box = fitted(problem)
    points = places(problem, box)
    points = points[np.abs(points - problem.query_features).max(axis=1) <= budget]
    values = box.says(points).outputs[:, 0]
    result = oar.audit(found.plan)
    assert result.loss == pytest.approx(found.claimed_loss)
    assert result.loss <= 0.5 * ((values - 1.0) ** 2).min()
    assert found.impossible == (not result.success)
    assert found.impossible <= (not (np.abs(values - 1.0) <= 0.3).any())


def test_the_goal_comes_before_a_lower_loss():
    features = np.repeat([[0.0], [1.0]], [20, 10], axis=0)
    labels = ["yes"] * 9 + ["no"] * 11 + ["yes"] * 4 + ["no"] * 3 + ["perhaps"] * 3
    people = oar.Population(features, labels)
    box = oar.BlackBox(DecisionTreeClassifier(max_depth=1))
    problem = oar.Problem(people, box, oar.Query([0.0], "yes"), oar.Perturb(0.6))
    result = oar.individual(problem)
    assert result.success
    assert not result.exact
    assert result.loss == pytest.approx(-np.log(0.4), abs=1e-5)
    assert result.bound == pytest.approx(-np.log(0.45), abs=1e-5)
    assert "The goal came first" in result.explanation
    stay = oar.individual(oar.Problem(people, box, oar.Query([0.0], "yes"), oar.Perturb(0.4)))
    assert stay.status == "impossible"
    assert stay.exact


def test_goals_that_no_leaf_gives_are_impossible_whatever_the_budget():
    people = oar.Population([[0.0], [0.0], [0.0], [1.0]], ["a", "a", "b", "a"])
    problem = oar.Problem(people, oar.BlackBox(DecisionTreeClassifier()), oar.Query([0.2], "b"), oar.Perturb(1e6))
    result = oar.individual(problem)
    assert result.status == "impossible"
    assert result.exact
    assert "no leaf of the tree gives 'b'" in result.explanation
    assert shortest_move(problem) is None
    sets = oar.Query([0.2], {"b"}, probability=0.3)
    assert oar.individual(oar.Problem(people, problem.model, sets, problem.action)).status == "already"


def test_a_leaf_of_two_halves_is_called_a_tie():
    people = oar.Population([[0.0], [0.2], [5.0], [6.0]], [0, 1, 1, 1])
    tree = oar.BlackBox(DecisionTreeClassifier(min_samples_leaf=2))
    result = oar.individual(oar.Problem(people, tree, oar.Query([0.1], goal=0), oar.Perturb(0.6)))
    assert not result.success
    assert "no leaf of the tree gives 0 more than a tie" in result.explanation


def test_what_is_not_one_tree_of_plain_features_is_left_to_others():
    twins = np.repeat(np.random.default_rng(0).normal(size=(20, 1)), 9, axis=1)  # any column splits as well
    codes = (twins[:, 0] > 0).astype(int)
    table = oar.Population.from_frame(pandas.DataFrame({"age": 20.5 + np.arange(20.0), "y": codes}), target="y")
    tree = DecisionTreeClassifier()
    people = oar.Population(twins[:, :1], codes)
    for population, model in (
        (oar.Population(twins, codes), tree),
        (people, ExtraTreeClassifier()),
        (people, make_pipeline(QuantileTransformer(n_quantiles=5), tree)),
        (table, tree),
    ):
        query = oar.Query({"age": 3.0} if population is table else population.features[0] * 1.01, 1)
        problem = oar.Problem(population, oar.BlackBox(model), query, oar.Perturb(1.0))
        assert planning.exact_move(problem) is None
    random = oar.BlackBox(tree, randomised=True)
    assert planning.exact_move(oar.Problem(people, random, oar.Query([0.1], 1), oar.Perturb(1.0))) is None
    forest = oar.Problem(people, oar.BlackBox(ExtraTreeClassifier()), oar.Query([0.1], 1), oar.Perturb(1.0))
    with pytest.raises(oar.errors.OptionError, match="one decision tree"):
        shortest_move(forest)


def test_trainings_and_questions_are_counted():
    problem = world(3, clear_tree(2), 1.0)
    told = oar.BlackBox(clear_tree(2), randomised=False)
    planning.exact_move(oar.Problem(problem.people, told, problem.query, problem.action))
    assert (told.calls.fits, told.calls.predictions) == (1, 1)
    planning.exact_move(problem)
    assert (problem.model.calls.fits, problem.model.calls.predictions) == (SEEDS, 1)
