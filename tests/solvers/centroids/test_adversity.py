"""Cases that once made the package lie, hang or crash, and their kin."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy.optimize import differential_evolution
from support.centroid_problems import (
    NORMS,
    World,
    brute_coalition,
    oracle_distances,
    oracle_loss,
    oracle_margin,
    oracle_radii,
    seeds,
)

import oar
from oar.solvers.query.shortest_move import shortest_move_into


def ask(features, labels, query, goal, weights=None, own=None, **action):
    people = oar.Population(features, labels, weights)
    return oar.Problem(people, oar.NearestCentroid(), oar.Query(query, goal, budget=own), oar.Perturb(**action))


def lattice(seed):
    """Small whole numbers: ties, duplicates, queries on centroids and on bisectors are common here."""
    rng = np.random.default_rng(seed)
    classes, dimensions, size = int(rng.integers(2, 4)), int(rng.integers(1, 3)), 7
    return World(
        features=rng.integers(-2, 3, (size, dimensions)).astype(float),
        labels=np.concatenate([np.arange(classes), rng.integers(0, classes, size - classes)]),
        weights=np.ones(size),
        budgets=rng.choice([0.0, 0.1, 0.5, 1.0], size, p=[0.1, 0.3, 0.3, 0.3]),
        mask=rng.random(size) < 0.8,
        query=rng.integers(-2, 3, dimensions).astype(float),
        goal=int(rng.integers(0, classes)),
        norm=float(rng.choice(NORMS)),
    )


@given(seeds)
@settings(max_examples=150)
def test_lattices_agree_with_the_oracle(seed):
    world = lattice(seed)
    problem = world.problem()
    result, radii = oar.collective(problem), oracle_radii(world)
    distances = oracle_distances(world, radii)
    assert result.loss == pytest.approx(oracle_loss(distances, world.goal), abs=1e-9)
    assert result.success == (oracle_margin(distances, world.goal) > 1e-12)
    answer = oar.minimal_budget(problem)
    if answer.value == np.inf:
        assert oracle_margin(oracle_distances(world, 1e6 * radii), world.goal) <= 1e-7
        return
    assert answer.result.success
    assert oracle_margin(oracle_distances(world, (answer.value + 1e-7) * radii), world.goal) > 1e-12
    if answer.value > 1e-6:
        assert oracle_margin(oracle_distances(world, (answer.value - 1e-7) * radii), world.goal) <= 1e-12


@given(seeds)
@settings(max_examples=60)
def test_smallest_coalitions_on_lattices(seed):
    world = lattice(seed)
    answer = oar.minimal_coalition(world.problem())
    assert answer.size == brute_coalition(world)
    assert answer.size is None or answer.result.success


def test_everything_in_the_origin():
    answer = oar.minimal_budget(ask([[0.0], [0.0]], ["a", "b"], [0.0], "b", budget=1.0))
    assert answer.value == 0
    assert answer.result.success


def test_a_rival_within_two_ties_who_cannot_move():
    mask = np.array([False, True])
    answer = oar.minimal_budget(ask([[1.5e-13], [1.0]], ["a", "b"], [0.0], "b", budget=1.0, participants=mask))
    assert answer.status in (oar.results.Status.ACHIEVED, oar.results.Status.IMPOSSIBLE)


def test_somebody_elses_large_numbers_blur_nothing():
    outsider = ask([[1.0], [5.0], [1e15]], ["a", "b", "a"], [0.5], "b", weights=[1, 1, 0], budget=4.0)
    assert oar.collective(outsider).success
    far_class = ask(
        [[0.0, 0], [4, 0], [0, 0], [4, 0], [9.99e14, 0]], ["c", "g", "c", "g", "z"], [1.0, 0], "g", budget=1.04
    )
    assert oar.collective(far_class).success
    assert oar.minimal_coalition(far_class).size == 4


@pytest.mark.parametrize("budget", [5.0, 1e3, 1e12, 1e13, 1e16, 1e100])
def test_a_larger_budget_never_loses_the_goal(budget):
    mask = np.array([False, True, True])
    assert oar.collective(ask([[1.0], [5], [3]], ["a", "g", "b"], [0.0], "g", budget=budget, participants=mask)).success


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e150, 1e160, 1e199])
@pytest.mark.parametrize("norm", NORMS)
def test_the_audit_measures_moves_at_any_scale(scale, norm):
    features = np.array([[1.0, 2], [5, 1], [3, 0]]) * scale
    problem = ask(features, ["a", "g", "b"], [0.0, 0], "g", budget=4.5 * scale, norm=norm)
    for result in (oar.collective(problem), oar.joint(problem)):
        assert result.success
        assert result.audit.movers == 3
        assert result.audit.effort > 0
    plan = oar.collective(problem).plan
    greedy = dataclasses.replace(plan, directions=1.01 * plan.directions)
    assert oar.audit(greedy).violations


def test_budgets_that_cannot_be_summed_are_refused():
    with pytest.raises(oar.errors.DataError, match="budget: must be finite"):
        oar.Perturb(1e308)
    with pytest.raises(oar.errors.DataError, match="budget: must be finite"):
        ask([[1.0], [5.0], [3.0]], ["a", "g", "b"], [0.0], "g", budget=[1, 1e308, 1e308])


@pytest.mark.parametrize("budget", [1e-10, 1e-8, 1e-7, 1e-6])
def test_small_budgets_in_the_1_norm_are_kept(budget):
    for seventh in range(1, 60):
        value = seventh / 7
        features = [[value] * 3, [9.0, 9, 9]]
        result = oar.collective(ask(features, ["g", "c"], [0.0, 0, 0], "g", budget=budget, norm=1))
        assert not result.audit.violations


@pytest.mark.parametrize("offset", [0.0, 1e8, 1e11, 1e12])
def test_exact_is_not_claimed_away_from_the_bound(offset):
    rng = np.random.default_rng(3)
    features, labels = rng.normal(0, 2, (12, 2)) + offset, np.arange(12) % 3
    for goal in range(3):
        problem = ask(features, labels, rng.normal(0, 2, 2) + offset, goal, budget=1.0)
        for result in (oar.individual(problem), oar.joint(problem)):
            assert not result.exact or result.proposal.claimed_loss <= result.bound * (1 + 1e-9)


def test_a_rival_on_the_query_is_not_called_stationary():
    mask = np.array([True, True, False])
    problem = ask([[0.0, 0], [3, 0], [3, 0]], ["a", "g", "g"], [0.0, 0], "g", budget=1.0, participants=mask)
    second, exact = oar.collective(problem, solver="projected-gradient"), oar.collective(problem)
    assert second.loss == pytest.approx(exact.loss, rel=1e-4)
    still = dataclasses.replace(exact.plan, directions=np.zeros((2, 2)))
    from oar.solvers.centroids.exact import reach_of

    assert reach_of(problem).gap(still.directions, np.zeros(2)) > 0.5


def test_break_even_claims_no_more_than_it_knows():
    rng = np.random.default_rng(2)
    features, labels, query = rng.normal(0, 2, (20, 2)), np.arange(20) % 4, rng.normal(0, 2, 2)
    answer = oar.break_even(ask(features, labels, query, 0, budget=1.0, participants=rng.random(20) < 0.9))
    assert answer.at_most is None
    assert "whatever the individual does" not in answer.explanation
    nothing = oar.break_even(ask([[1.0], [5.0]], ["a", "g"], [0.0], "g", budget=0.0))
    assert nothing.status is oar.results.Status.IMPOSSIBLE


def test_break_even_members_are_just_enough():
    """One member fewer of any class, and the individual is ahead again."""
    rng = np.random.default_rng(8)
    features, labels = rng.normal(0, 2, (30, 2)), np.arange(30) % 3
    problem = ask(features, labels, rng.normal(0, 2, 2), 0, budget=1.0)
    answer = oar.break_even(problem)
    mask = answer.result.problem.allowance.mask
    assert answer.result.loss <= answer.individual.loss
    fewer = mask.copy()
    for code in range(3):
        fewer[np.flatnonzero(mask & (labels == code))[-1:]] = False
    assert oar.collective(problem.with_action(participants=fewer, seed=None)).loss > answer.individual.loss


def test_break_even_also_says_when_the_goal_is_reached():
    people = [[0.0], [0.2], [4.0], [4.2]]
    answer = oar.break_even(ask(people, ["a", "a", "g", "g"], [1.1], "g", budget=2.0))
    assert answer.goal_share == pytest.approx(0.5, abs=1e-9)
    assert "the goal itself is reached above 50.0%" in answer.explanation


@pytest.mark.parametrize("norm", NORMS)
@given(seed=seeds)
@settings(max_examples=15)
def test_the_shortest_own_move_is_where_individual_success_begins(norm, seed):
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(0, 2, (9, 2)), np.arange(9) % 3
    query, goal = rng.normal(0, 2, 2), 0
    problem = ask(features, labels, query, goal, budget=1.0, norm=norm)
    centroids = problem.model.fit(problem.people).positions
    least = np.linalg.norm(shortest_move_into(centroids - query, goal, problem.allowance.norm), ord=norm)

    def margin(move):
        distances = np.linalg.norm(centroids - query - move, axis=1)
        return min(distances[1], distances[2]) - distances[0]

    if least > 1e-9:
        blocked = ask(features, labels, query, goal, budget=0.999 * least, norm=norm)
        assert oar.individual(blocked).status is oar.results.Status.IMPOSSIBLE
        box = [(-0.999 * least, 0.999 * least)] * 2
        found = differential_evolution(
            lambda z: -margin(z * min(1, 0.999 * least / max(np.linalg.norm(z, ord=norm), 1e-300))),
            box,
            seed=1,
            maxiter=60,
            tol=1e-8,
        )
        assert -found.fun <= 1e-9
    move = shortest_move_into(centroids - query, goal, problem.allowance.norm)
    inside = centroids[goal] - query
    assert margin(move + 1e-6 * (inside - move)) > 0  # a step on towards the goal's centroid is inside
    open_door = ask(features, labels, query, goal, budget=1.001 * least + 1e-6, norm=norm)
    assert oar.individual(open_door).status is not oar.results.Status.IMPOSSIBLE


def test_explanations_answer_for_those_who_move():
    problem = ask([[1.0], [5.0]], ["a", "g"], [0.0], "g", budget=0.0)
    alone = oar.individual(problem)
    assert alone.status is oar.results.Status.IMPOSSIBLE
    assert "The query can reach the goal with any budget above 3" in alone.explanation
    both = oar.joint(problem)
    assert "Even if the query stays where it is, optimal moves reach the goal" in both.explanation
    overshot = oar.collective(ask([[1.0], [2.0]], ["a", "g"], [1.0], "g", budget=5.0), solver="paper")
    assert not overshot.success
    assert "Optimal moves reach the goal with any budget above 0.5" in overshot.explanation


def test_the_widest_of_the_smallest_coalitions_is_taken():
    """Either side can flip it with one member; the one who moves farther leaves the wider margin."""
    problem = ask([[0.0], [4.0]], ["c", "g"], [1.9], "g", budget=[0.5, 2.0])
    answer = oar.minimal_coalition(problem)
    assert answer.size == 1
    assert answer.by_class == {"c": 0, "g": 1}


def test_moves_of_reordered_people_are_refused_where_people_differ():
    frame = pd.DataFrame({"f": [0.0, 1.0, 4.0, 5.0]}, index=list("wxyz"))
    labels = pd.Series([0, 0, 1, 1], index=list("wxyz"))
    problem = ask(frame, labels, [2.0], 1, budget=pd.Series([0.0, 1, 2, 0], index=list("wxyz")))
    plan = oar.collective(problem).plan
    order = list("zxwy")
    with pytest.raises(oar.errors.DataError, match="must be the plan's own 4 people, in order"):
        plan.moves(frame.loc[order], labels.loc[order])
    with pytest.raises(oar.errors.DataError, match="must be the plan's own 4 people, in order"):
        plan.moves(frame.to_numpy(), [1, 0, 0, 1])


def test_sweep_matches_columns_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(8, 2)), columns=["a", "b"])
    people, queries = oar.Population(frame, [0, 1] * 4), frame.iloc[:2] + 1
    straight = oar.solvers.sweep(people, queries, [0, 1], [0.5])
    swapped = oar.solvers.sweep(people, queries[["b", "a"]], [0, 1], [0.5])
    np.testing.assert_array_equal(straight.losses, swapped.losses)
    np.testing.assert_array_equal(straight.losses, oar.solvers.sweep(people, queries.to_numpy(), [0, 1], [0.5]).losses)


def test_sweep_does_not_count_ties():
    people = oar.Population([[0.0], [4.0]], [0, 1])
    table = oar.solvers.sweep(people, [[1.0]], [1], [0.5, 1.0, 1.0 + 1e-9])
    assert table.reached[0, 0].tolist() == [False, False, True]


def test_a_card_says_who_takes_part_and_goes_no_farther_than_planned(tmp_path):
    rows, labels = [[0.0], [0.0], [4.0], [4.0]] * 3, ["c", "c", "g", "g"] * 3
    mask = np.tile([False, False, True, False], 3)
    card = oar.collective(ask(rows, labels, [1.0], "g", budget=6.0, participants=mask)).plan.card()
    card.save(tmp_path / "card.json")
    assert oar.results.Card.load(tmp_path / "card.json").participants == "selected"
    everyone = oar.collective(ask(rows, labels, [1.0], "g", budget=6.0))
    assert everyone.plan.card().participants == "everyone"
    with pytest.raises(oar.errors.DataError, match="must be at most the plan's own 6"):
        card.respond([4.0], "g", budget=100)
    with pytest.raises(oar.errors.DataError, match="only the query moves"):
        oar.individual(ask(rows, labels, [1.0], "g", budget=1.0)).plan.card()


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["c", "c"]},
        {"classes": [1, True]},
        {"classes": [None, "g"]},
        {"features": "f"},
        {"features": [["f"]]},
        {"model": "softmax"},
        {"model": None},
        {"participants": "nobody"},
        {"directions": [["x"], ["y"]]},
        {"budget": "lots"},
    ],
)
def test_tampered_cards_are_refused(tmp_path, change):
    path = tmp_path / "card.json"
    oar.collective(ask([[0.0], [4.0]] * 5, ["c", "g"] * 5, [1.0], "g", budget=1.0)).plan.card().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(oar.errors.StorageError, match="damaged"):
        oar.results.Card.load(path)


def test_odd_inputs_are_refused_by_name():
    masked = np.ma.masked_array([[0.0], [1.0]], mask=[[True], [False]])
    with pytest.raises(oar.errors.DataError, match="features: must not be masked"):
        oar.Population(masked, [0, 1])
    with pytest.raises(oar.errors.DataError, match="features: must be numbers, got text"):
        oar.Population(np.array([["1.5"], ["2"]], dtype=object), [0, 1])
    with pytest.raises(oar.errors.DataError, match="features: must be finite"):
        oar.Population(np.array([[np.longdouble("1e400")], [1]]), [0, 1])
    with pytest.raises(oar.errors.DataError, match="labels: must be single values"):
        oar.Population([[0.0], [1.0]], np.array([(1, 2), (3, 4)], dtype=[("a", int), ("b", int)]))
    with pytest.raises(oar.errors.DataError, match="query features: must be numbers"):
        ask([[0.0], [1.0]], [0, 1], ["1.5"], 1, budget=1.0)
    for seed in (-1, 1.5, "a"):
        with pytest.raises(oar.errors.DataError, match="seed: must be a whole number"):
            oar.Perturb(1.0, participants=0.5, seed=seed)
    with pytest.raises(oar.errors.DataError, match="tolerance"):
        oar.solvers.ProjectedGradient(tolerance="x")
    huge = oar.Population([[0.0], [1.0]], np.array([2**63, 2**63 + 5], dtype=np.uint64))
    assert huge.classes == (2**63, 2**63 + 5)


def test_a_problem_does_not_change_with_the_callers_arrays():
    budgets, weights, mask = np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([True, True])
    problem = ask([[0.0], [4.0]], ["c", "g"], [1.0], "g", weights=weights, budget=budgets, participants=mask)
    before = oar.collective(problem).loss
    budgets[:], weights[:], mask[:] = 0.0, 5.0, False
    assert oar.collective(problem).loss == before


def test_participants_who_are_drawn_by_a_function_are_drawn_once():
    calls = []

    def draw(people):
        calls.append(1)
        return np.arange(4) < len(calls)

    problem = ask([[0.0], [0.0], [4.0], [4.0]], [0, 0, 1, 1], [1.0], 1, budget=1.0, participants=draw)
    answer = oar.minimal_budget(problem)
    assert len(calls) == 1
    assert answer.result.problem.allowance.mask.tolist() == [True, False, False, False]


def test_a_misspelt_goal_is_met_with_the_near_name():
    with pytest.raises(oar.errors.DataError, match="Did you mean 'approved'"):
        ask([[0.0], [1.0]], ["approved", "rejected"], [0.0], "aproved", budget=1.0)


def test_coalitions_of_frames_carry_their_index():
    frame = pd.DataFrame({"f": [0.0, 1.0, 4.0, 5.0]}, index=list("wxyz"))
    answer = oar.minimal_coalition(ask(frame, [0, 0, 1, 1], [2.0], 1, budget=1.0))
    assert list(answer.members.index) == list("wxyz")
    assert answer.members.sum() == answer.size
