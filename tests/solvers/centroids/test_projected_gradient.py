"""Projected gradient as a second opinion, and the paper's heuristic."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import random_world, seeds

import oar


@given(seeds)
@settings(max_examples=40)
def test_projected_gradient_agrees_with_the_exact_solver(seed):
    world = random_world(seed)
    problem = world.problem()
    exact = oar.collective(problem)
    other = oar.collective(problem, solver="projected-gradient")
    assert exact.loss <= other.loss + 1e-9
    assert not other.audit.violations
    if world.norm == 2:
        # Where the query can be touched the loss has a kink, and gradient steps only come close to it.
        assert other.loss <= exact.loss + 1e-3 * (exact.loss_before - exact.loss) + 1e-9
        if other.proposal.finished:
            assert other.loss == pytest.approx(exact.loss, rel=1e-5, abs=1e-9)


@given(seeds)
@settings(max_examples=40)
def test_projected_gradient_is_never_above_the_individual_at_full_participation(seed):
    world = random_world(seed)
    world.weights = np.ones_like(world.weights)
    people = oar.Population(world.features, world.labels)
    query, action = oar.Query(world.query, world.goal), oar.Perturb(0.8, world.norm)
    problem = oar.Problem(people, oar.NearestCentroid(), query, action)
    together = oar.collective(problem, solver=oar.solvers.ProjectedGradient(max_steps=0))
    assert together.loss <= oar.individual(problem).loss + 1e-9


def test_projected_gradient_honours_its_step_limit():
    world = random_world(11)
    problem = world.problem()
    result = oar.collective(problem, solver=oar.solvers.ProjectedGradient(max_steps=1, tolerance=0.0))
    assert result.proposal.steps <= 1
    assert not result.proposal.finished


@given(seeds)
def test_the_papers_heuristic_is_optimal_up_to_the_goals_distance_for_p2(seed):
    world = random_world(seed, norm=2)
    problem = world.problem(budget=0.0)
    centroids = problem.model.fit(problem.people)
    reachable = 0.999 * float(problem.model.distances(centroids, world.query)[world.goal])
    problem = world.problem(budget=reachable)
    exact, paper = oar.collective(problem), oar.collective(problem, solver="paper")
    assert paper.loss == pytest.approx(exact.loss, rel=1e-9, abs=1e-12)
    assert paper.exact


def test_the_papers_heuristic_overshoots_beyond_it():
    people = oar.Population([[0.0], [1.0]], ["no", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.4], "yes"), oar.Perturb(2.0))
    exact, paper = oar.collective(problem), oar.collective(problem, solver="paper")
    assert paper.loss > exact.loss
    assert not paper.exact


@given(seeds)
def test_the_papers_heuristic_moves_the_query_too(seed):
    world = random_world(seed)
    problem = world.problem()
    for ask in (oar.individual, oar.joint):
        heuristic, searched = ask(problem, solver="paper"), ask(problem)
        assert not heuristic.audit.violations
        assert searched.loss <= heuristic.loss + 1e-9


def test_unknown_solvers_are_refused_with_the_known_ones():
    problem = random_world(1).problem()
    with pytest.raises(oar.errors.OptionError, match="Did you mean 'exact'"):
        oar.collective(problem, solver="exakt")
    with pytest.raises(oar.errors.OptionError, match="does not apply here"):
        oar.individual(problem, solver="exact")
    with pytest.raises(oar.errors.OptionError, match="solver: must be"):
        oar.individual(problem, solver=oar.solvers.Exact())
    with pytest.raises(oar.errors.DataError, match="max_steps"):
        oar.solvers.ProjectedGradient(max_steps=-1)
    with pytest.raises(oar.errors.DataError, match="tolerance"):
        oar.solvers.ProjectedGradient(tolerance=float("nan"))
