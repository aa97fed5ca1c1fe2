"""Individual and joint recourse against brute force in two dimensions and against scipy."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.centroid_problems import NORMS, oracle_loss, random_world, seeds

import oar
from oar.actions import Norm
from oar.solvers.centroids import query_moves
from oar.solvers.centroids.exact import reach_of


def plane_problem(seed, norm, budget, classes=3, participants=None):
    rng = np.random.default_rng(seed)
    labels = np.arange(12) % classes
    features = rng.normal(0, 2, (classes, 2))[labels] + rng.normal(0, 0.5, (12, 2))
    people = oar.Population(features, labels)
    query = oar.Query(rng.normal(0, 2, 2), int(rng.integers(0, classes)))
    return oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(budget, norm, participants))


def ball_grid(norm, budget, steps=161):
    line = np.linspace(-budget, budget, steps)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    inside = grid[np.linalg.norm(grid, ord=norm, axis=1) <= budget]
    angles = np.linspace(0, 2 * np.pi, 1441)
    edge = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.concatenate([inside, budget * edge / np.linalg.norm(edge, ord=norm, axis=1, keepdims=True)])


def joint_losses(offsets, radii, goal, norm):
    """Losses (m,) of offsets (m, k, 2) once every class has done its best, written out for the plane."""
    away = np.abs(offsets)
    straight, reach = np.linalg.norm(away, axis=-1), radii * np.ones(away.shape[:2])
    if norm == 2:
        far, near = straight + reach, np.maximum(straight - reach, 0)
    elif norm == np.inf:
        far = np.linalg.norm(away + reach[..., None], axis=-1)
        near = np.linalg.norm(np.maximum(away - reach[..., None], 0), axis=-1)
    else:
        far = np.hypot(away.max(axis=-1) + reach, away.min(axis=-1))
        large, small = away.max(axis=-1), away.min(axis=-1)
        # Spend on the larger coordinate until they are level, then on both alike.
        level = large - small
        both = np.maximum((reach - level) / 2, 0)
        near = np.hypot(np.maximum(large - np.minimum(reach, level) - both, 0), np.maximum(small - both, 0))
    distances = far
    distances[:, goal] = near[:, goal]
    return np.log(np.exp(distances[:, [goal]] - distances).sum(axis=1))


@pytest.mark.parametrize("norm", NORMS)
@given(seed=seeds, budget=st.sampled_from([0.3, 1.0, 3.0]))
def test_no_point_of_a_fine_grid_beats_the_individual(norm, seed, budget):
    problem = plane_problem(seed, norm, budget)
    found = oar.individual(problem)
    centroids = problem.model.fit(problem.people)
    candidates = problem.query_features + ball_grid(norm, budget)
    assert found.loss <= problem.model.goal_loss(centroids, candidates, problem.goal).min() + 1e-9
    assert found.bound <= found.loss + 1e-12


@pytest.mark.parametrize("norm", NORMS)
@given(seed=seeds, budget=st.sampled_from([0.3, 1.0, 3.0]))
def test_no_point_of_a_fine_grid_beats_the_joint(norm, seed, budget):
    problem = plane_problem(seed, norm, budget, participants=0.6)
    found = oar.joint(problem)
    reach = reach_of(problem)
    offsets = reach.offsets - ball_grid(norm, budget, 41)[:, None]
    assert found.loss <= joint_losses(offsets, reach.radii, reach.goal, norm).min() + 1e-9
    assert found.bound <= found.loss + 1e-12


def test_individual_agrees_with_slsqp():
    for seed in range(10):
        problem = plane_problem(seed, 2, 0.8)
        centroids = problem.model.fit(problem.people).positions
        rng = np.random.default_rng(seed)
        best = min(
            minimize(
                lambda z, a=centroids - problem.query_features, g=problem.goal: oracle_loss(
                    np.linalg.norm(a - z, axis=1), g
                ),
                rng.normal(0, 0.4, 2),
                constraints=[{"type": "ineq", "fun": lambda z: 0.64 - z @ z}],
                options={"ftol": 1e-13},
            ).fun
            for _ in range(8)
        )
        assert oar.individual(problem).loss <= best + 1e-7
        assert oar.individual(problem).loss == pytest.approx(best, abs=1e-4)


@given(seeds)
def test_gradients_are_finite_differences(seed):
    world = random_world(seed)
    problem = world.problem()
    reach = reach_of(problem, members=True, query=True)
    batch = query_moves.QueryBatch(
        reach.offsets[None], np.array([reach.goal]), reach.radii[None], np.array([reach.query_budget]), reach.norm
    )
    rows = np.zeros(1, dtype=np.intp)
    for touching in (False, True):
        objective = query_moves._objective(batch, rows, np.ones(1), touching)
        move = np.random.default_rng(seed).normal(size=(1, world.query.size))
        _, gradient = objective.evaluate(move, rows)
        for axis in range(world.query.size):
            step = np.zeros_like(move)
            step[0, axis] = 1e-6
            slope = (objective.evaluate(move + step, rows)[0] - objective.evaluate(move - step, rows)[0]) / 2e-6
            # p = 1 and p = ∞ have kinks; a random point is next to one with probability zero, not never.
            assert gradient[0, axis] == pytest.approx(slope[0], rel=1e-4, abs=1e-6)


@given(seeds)
def test_limits_and_certificates(seed):
    world = random_world(seed)
    problem = world.problem()
    for ask in (oar.individual, oar.joint):
        result = ask(problem)
        assert not result.audit.violations
        assert np.linalg.norm(result.plan.query_move, ord=world.norm) <= world.budgets.max() * (1 + 1e-12)
        assert result.gap >= 0
        assert result.loss <= result.loss_before + 1e-12
        assert result.proposal.claimed_loss == pytest.approx(result.loss, rel=1e-9, abs=1e-12)
        if result.status is oar.results.Status.IMPOSSIBLE:
            assert result.bound > 0


def test_the_individual_leaves_the_members_where_they_are():
    problem = plane_problem(1, 2, 1.0)
    result = oar.individual(problem)
    assert not result.plan.moves().any()
    assert result.audit.movers == 0


def test_more_random_starts_and_other_seeds_are_used():
    problem = plane_problem(5, 2, 1.0)
    reach = reach_of(problem, members=False, query=True)
    batch = query_moves.QueryBatch(
        reach.offsets[None], np.array([reach.goal]), reach.radii[None], np.array([1.0]), reach.norm
    )
    settings = oar.solvers.ProjectedGradient
    few = query_moves.start_moves(batch, settings(random_starts=0))
    many = query_moves.start_moves(batch, settings(random_starts=5))
    other = query_moves.start_moves(batch, settings(random_starts=5, seed=1))
    assert many.shape[1] == few.shape[1] + 10
    assert not np.array_equal(many, other)


def test_a_step_limit_is_kept_and_told():
    problem = plane_problem(3, 2, 1.0)
    result = oar.individual(problem, solver=oar.solvers.ProjectedGradient(max_steps=0))
    assert not result.proposal.finished or result.gap <= 1e-8


@pytest.mark.parametrize("norm", NORMS)
@given(seed=seeds)
def test_projection_onto_two_balls_is_nearest(norm, seed):
    """The projection P is in both balls, and ⟨v − P, q − P⟩ ≤ 0 for every q in both."""
    rng = np.random.default_rng(seed)
    dimensions = int(rng.integers(1, 5))
    kind = Norm(float(norm))
    centre = rng.normal(size=(1, dimensions))
    budget, radius = rng.random(1) + 0.1, rng.random(1) + 0.1
    apart = kind.length(centre)[0]
    if apart > budget[0] + radius[0]:
        centre *= 0.9 * (budget[0] + radius[0]) / apart
    point = 2 * rng.normal(size=(1, dimensions))
    found = query_moves.project_onto_both(kind, point, budget, centre, radius)
    assert kind.length(found)[0] <= budget[0] * (1 + 1e-6)
    assert kind.length(found - centre)[0] <= radius[0] * (1 + 1e-6)
    others = centre + kind.project(rng.normal(size=(200, dimensions)), radius[0])
    inside = others[kind.length(others) <= budget[0]]
    assert ((inside - found) @ (point - found)[0] <= 1e-6).all()


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_the_shortest_move_of_a_problem_ends_at_the_goals_edge(norm):
    rng = np.random.default_rng(3)
    people = oar.Population(rng.normal(size=(30, 2)) + 3 * np.eye(3, 2)[np.arange(30) % 3], np.arange(30) % 3)
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([3.0, 0.0], goal=1), oar.Perturb(1.0, norm=norm))
    move = oar.solvers.shortest_move(problem)
    length = float(np.linalg.norm(move, ord=norm))
    for factor, reaches in ((1 + 1e-6, True), (1 - 1e-6, False)):
        after = oar.Query(np.array([3.0, 0.0]) + factor * move, goal=1)
        stay = oar.individual(oar.Problem(people, oar.NearestCentroid(), after, oar.Perturb(0.0, norm=norm)))
        assert (stay.prediction == 1) is reaches
    short = oar.Problem(people, oar.NearestCentroid(), problem.query, oar.Perturb(0.999 * length, norm=norm))
    assert str(oar.individual(short).status) == "impossible"
    with pytest.raises(oar.errors.OptionError, match="NearestCentroid"):
        oar.solvers.shortest_move(oar.Problem(people, oar.models.MLP((2,)), problem.query, oar.Perturb(1.0)))


@pytest.mark.parametrize("members", [True, False])
def test_where_losses_are_next_to_0_the_best_move_is_found_all_the_same(members):
    """What is far larger, in other units, has the same best move: the loss has no slope there, but odds have."""
    found = []
    for size in (1.0, 1000.0):
        people = oar.Population(size * np.array([[-5.0, 0.0], [-5.0, 0.2], [5.0, 0.0], [5.0, -0.2]]), [0, 0, 1, 1])
        query = oar.Query(size * np.array([-1.0, 4.0]), goal=1)
        problem = oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(3.0 * size))
        result = (oar.joint if members else oar.individual)(problem)
        found.append(result.audit.margin / size)
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def two_aims():
    """Return a problem in which least loss, between two rivals, is not where the goal is nearest."""
    features = [
        [3.37, 2.91, -0.38], [2.66, 3.11, 4.39], [5.07, 0.11, 3.35], [3.27, -0.24, -2.26], [2.61, 1.41, 3.90],
        [3.57, 3.11, 4.91], [2.09, 4.20, 1.96], [2.67, 3.78, -0.09], [2.10, 2.87, 0.83],
    ]  # fmt: skip
    people = oar.Population(features, [0, 1, 2, 0, 1, 2, 1, 0, 0])
    query = oar.Query([2.23, 0.64, 0.88], goal=2, budget=1.0817)
    return oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.2973, norm=1))


def test_joint_says_where_the_goal_is_within_reach_though_not_by_the_least_loss():
    problem = two_aims()
    least, widest = oar.joint(problem), oar.joint(problem, solver="widest-lead")
    assert least.status == "improved"
    assert "though a move within this budget does reach it" in least.explanation
    assert 'solver="widest-lead"' in least.explanation
    assert "larger budgets" not in least.explanation
    assert widest.status == "achieved"
    assert widest.loss > least.loss
    assert oar.joint(problem.with_action(budget=0.01)).status != "achieved"


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(6))
def test_no_point_of_a_fine_grid_has_a_wider_lead(norm, seed):
    problem = plane_problem(seed, norm, 1.0, participants=0.6)
    found = oar.joint(problem, solver="widest-lead")
    reach = reach_of(problem)
    leads = [
        dataclasses.replace(reach, offsets=reach.offsets - move).lead(reach.radii) for move in ball_grid(norm, 1.0, 41)
    ]
    assert found.audit.margin >= max(leads) - 1e-3
    alone = oar.individual(problem, solver="widest-lead")
    assert not alone.plan.directions.any()
    assert alone.success == (not alone.impossible)
