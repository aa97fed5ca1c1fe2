"""The three questions against brute force: all subsets, bisection through the front door, real refits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import (
    NORMS,
    brute_coalition,
    oracle_distances,
    oracle_loss,
    oracle_margin,
    oracle_radii,
    random_world,
    seeds,
)

import oar


def line(budget=1.0, query=1.0, **action):
    """Two people on a line: "no" at 0, "yes" at 4."""
    people = oar.Population([[0.0], [4.0]], ["no", "yes"])
    return oar.Problem(people, oar.NearestCentroid(), oar.Query([query], "yes"), oar.Perturb(budget, **action))


@given(seeds)
def test_minimal_budget_is_where_the_oracle_flips(seed):
    world = random_world(seed)
    answer = oar.minimal_budget(world.problem())
    radii = oracle_radii(world)

    def margin(scale):
        return oracle_margin(oracle_distances(world, scale * radii), world.goal)

    if answer.status is oar.results.Status.IMPOSSIBLE:
        assert answer.value == math.inf
        assert margin(1e9) <= 1e-6
        return
    if answer.value == 0:
        assert margin(0.0) >= -1e-12
        return
    assert margin(answer.value) == pytest.approx(0.0, abs=1e-9)
    assert margin(answer.value * (1 - 1e-5)) < 0 < margin(answer.value * (1 + 1e-5))


@given(seeds)
def test_minimal_budget_is_where_the_audit_flips(seed):
    world = random_world(seed)
    problem = world.problem(budget=1.0)
    answer = oar.minimal_budget(problem)
    if answer.status is oar.results.Status.IMPOSSIBLE:
        assert not oar.collective(world.problem(budget=1e6)).success
        return
    assert answer.result.success
    assert oar.collective(world.problem(budget=answer.value + 1e-6)).success
    if answer.value > 1e-6:
        assert not oar.collective(world.problem(budget=answer.value)).success
        assert not oar.collective(world.problem(budget=answer.value - 1e-6)).success


@given(seeds)
def test_minimal_budget_has_the_closed_form_for_p2_and_everyone(seed):
    world = random_world(seed, norm=2)
    world.weights = np.maximum(world.weights, 0.5)
    problem = world.problem(budget=0.0, participants=None)
    distances = problem.model.distances(problem.model.fit(problem.people), world.query)
    expected = max(0.0, (distances[world.goal] - np.delete(distances, world.goal).min()) / 2)
    assert oar.minimal_budget(problem).value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_minimal_budget_by_hand():
    answer = oar.minimal_budget(line())
    assert float(answer) == 1.0  # d_g = 3, d_c = 1
    assert answer.binding == "no"
    assert answer.status is oar.results.Status.ACHIEVED
    assert answer.exact
    assert answer.value * (1 - 1e-6) <= answer.at_least < answer.value  # audits let a billionth more pass
    assert oar.minimal_budget(line(participants=np.array([False, True]))).value == 2.0
    assert oar.minimal_budget(line(budget=np.array([1.0, 3.0]))).value == 0.5


def test_minimal_budget_when_the_goal_is_there_already():
    answer = oar.minimal_budget(line(query=3.5))
    assert answer.value == 0
    assert answer.status is oar.results.Status.ALREADY


def test_minimal_budget_impossible_with_the_reason():
    nobody = oar.minimal_budget(line(participants=np.array([False, False])))
    assert nobody.value == math.inf
    assert nobody.status is oar.results.Status.IMPOSSIBLE
    assert "nobody of the goal class 'yes'" in nobody.explanation
    on_centroid = oar.minimal_budget(line(query=0.0, participants=np.array([False, True])))
    assert on_centroid.value == math.inf
    assert "the query lies on the centroid of class 'no'" in on_centroid.explanation
    zero = oar.minimal_budget(line(budget=np.array([0.0, 0.0])))
    assert zero.status is oar.results.Status.IMPOSSIBLE


@given(seeds)
@settings(max_examples=80)
def test_minimal_coalition_is_the_smallest_of_all_subsets(seed):
    world = random_world(seed, people=8)
    answer = oar.minimal_coalition(world.problem())
    expected = brute_coalition(world)
    assert answer.size == expected
    assert answer.exact
    if expected is None:
        assert answer.status is oar.results.Status.IMPOSSIBLE
        assert answer.result is None
    else:
        assert answer.result.success
        assert answer.members.sum() == sum(answer.by_class.values()) == expected
        assert (world.mask | ~answer.members).all()


@given(seeds)
def test_minimal_coalition_has_the_closed_form_for_p2(seed):
    """For t goal members every other class needs ⌊(d_g − tε/N_g − d_c) N_c/ε⌋ + 1, or none if farther already."""
    world = random_world(seed, people=60, norm=2)
    people, budget = oar.Population(world.features, world.labels), 1.3
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(world.query, world.goal), oar.Perturb(budget))
    distances = problem.model.distances(problem.model.fit(people), world.query)
    counts = np.bincount(world.labels)
    best = math.inf
    for goal_members in range(counts[world.goal] + 1):
        goal = max(0.0, distances[world.goal] - goal_members * budget / counts[world.goal])
        total = goal_members
        for code in set(range(len(counts))) - {world.goal}:
            lack = goal - distances[code]
            needed = 0 if lack < 0 else math.floor(lack * counts[code] / budget) + 1
            total += needed if needed <= counts[code] else math.inf
        best = min(best, total)
    size = oar.minimal_coalition(problem).size
    assert (math.inf if size is None else size) == best


def test_minimal_coalition_counts_a_tie_as_not_enough():
    """Ten on each side, each worth a tenth of a step; the query is ten tenths short: eleven are needed."""
    people = oar.Population([[0.0]] * 10 + [[4.0]] * 10, ["no"] * 10 + ["yes"] * 10)
    query = oar.Query([1.5], "yes")  # d_g = 2.5, d_c = 1.5
    problem = oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(1.0))
    assert int(oar.minimal_coalition(problem)) == 11


def test_minimal_coalition_impossible_says_what_would_be_enough():
    answer = oar.minimal_coalition(line(budget=0.5))
    assert answer.status is oar.results.Status.IMPOSSIBLE
    assert "2 times the budget" in answer.explanation
    with pytest.raises(ValueError, match="no coalition suffices"):
        int(answer)


def test_minimal_coalition_of_nobody():
    answer = oar.minimal_coalition(line(query=3.5))
    assert answer.size == 0
    assert answer.status is oar.results.Status.ALREADY


@pytest.mark.parametrize("norm", NORMS)
@given(seed=seeds)
@settings(max_examples=25)
def test_break_even_is_where_the_losses_meet(norm, seed):
    world = random_world(seed, norm=norm)
    problem = world.problem()
    answer = oar.break_even(problem)
    alone = oar.individual(problem).loss
    radii = oracle_radii(world)

    def loss(share):
        return oracle_loss(oracle_distances(world, share * radii), world.goal)

    if answer.share is None:
        assert answer.status is oar.results.Status.IMPOSSIBLE
        assert loss(1.0) > alone
    elif answer.share > 0:
        assert loss(answer.share) == pytest.approx(alone, rel=1e-7, abs=1e-9)
        assert answer.result.loss <= alone * (1 + 1e-9)
        assert answer.at_most is None or answer.at_most >= answer.share
    else:
        assert loss(0.0) <= alone * (1 + 1e-12)


def test_break_even_with_everyone_is_at_most_one():
    from sklearn.datasets import load_iris

    features, labels = load_iris(return_X_y=True)
    people = oar.Population(features, labels)
    means = [features[labels == code].mean(axis=0) for code in range(3)]
    problem = oar.Problem(
        people, oar.NearestCentroid(), oar.Query(0.25 * means[2] + 0.75 * means[0], 2), oar.Perturb(1.5)
    )
    answer = oar.break_even(problem)
    assert 0.4 < float(answer) < 0.6
    assert answer.at_most == 1.0


def test_break_even_impossible():
    answer = oar.break_even(line(participants=np.array([True, False])))
    assert answer.status is oar.results.Status.IMPOSSIBLE
    assert "Let more members take part" in answer.explanation
    with pytest.raises(ValueError, match="no break-even"):
        float(answer)


def test_break_even_on_a_line_needs_everyone():
    """Between two centroids both have the same effect, so the collective only draws level when all take part."""
    answer = oar.break_even(line())
    assert answer.share == pytest.approx(1.0, abs=1e-9)
    assert answer.individual.exact


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0, 30.0])
def test_break_even_does_not_depend_on_what_losses_float64_holds(size):
    """Losses of e^−3000 are 0.0, and odds are not: the share is the same where the individual's lead is the same."""
    people = oar.Population(size * np.array([[-5000, 0], [-5000, 200], [5000, 0], [5000, -200]]), [0, 0, 1, 1])
    query = oar.Query(size * np.array([-1000.0, 4000.0]), goal=1)
    answer = oar.break_even(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(3000 * size)))
    assert answer.share == pytest.approx(0.78585172, abs=1e-6)
    assert answer.exact is False
    assert answer.at_most is None
    assert "falls below" in answer.explanation
    assert ("compared are the logarithms of the odds" in answer.explanation) == (answer.individual.loss == 0)
