"""Starts side by side: what they promise, and what the usual search would have found."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.errors import NumericsError
from oar.solvers import ProjectedGradient, propose_collective
from oar.solvers.descent import lanes as side_by_side
from oar.solvers.descent.lanes import propose, searched, suits


def table(classes=3, size=45, features=2, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % classes
    centres = 1.5 * rng.normal(size=(classes, features))
    return oar.Population(centres[labels] + rng.normal(size=(size, features)), labels), 0.7 * centres[
        0
    ] + 0.3 * centres[1]


def problem(budget=0.4, model=None, seed=0, **acting):
    people, query = table(seed=seed)
    return oar.Problem(
        people, model or oar.SoftmaxRegression(1e-2), oar.Query(query, goal=1), oar.Perturb(budget, **acting)
    )


@pytest.mark.parametrize("seed", range(2))
def test_it_ends_where_the_usual_search_does(seed):
    asked = problem(0.5, seed=seed, participants=0.6)
    found, usual = propose(asked), propose_collective(asked, ProjectedGradient(restarts=24))
    assert found.finished
    assert found.claimed_loss == pytest.approx(usual.claimed_loss, rel=1e-6)
    assert found.solver == "projected-gradient, 24 starts side by side"
    audit = oar.audit(found.plan)
    assert audit.loss == pytest.approx(found.claimed_loss, rel=1e-6)
    assert not audit.violations


def test_the_second_dozen_starts_about_the_best_of_the_first(monkeypatch):
    asked, runs = problem(0.8), []
    minimise = side_by_side.minimise

    def watched(objective, starts, *settings):
        found = minimise(objective, starts, *settings)
        runs.append((starts, found))
        return found

    monkeypatch.setattr(side_by_side, "minimise", watched)
    ends, _ = searched(asked)
    (first, found), (second, more) = runs
    assert len(first) == len(second) == 12
    assert not first[0].any()
    best = found.points[found.values.argmin()]
    near = [np.linalg.norm(start - best) for start in second]
    assert max(near[2::3]) < min(np.linalg.norm(start - best) for start in first)  # the nearest kind of start
    values = np.sort(np.concatenate([found.values, more.values]))
    assert 1 < len(ends) <= 3
    points = np.concatenate([found.points, more.points])
    assert any((points[place] == ends[0]).all() for place in range(24))
    assert values[0] == min(found.values.min(), more.values.min())


def test_it_counts_what_it_did():
    asked = problem()
    (ends, passes), found = searched(asked), propose(asked)
    alone = propose_collective(asked, oar.solvers.ProjectedGradient(restarts=0), starts=ends)
    assert found.passes == passes + alone.passes
    assert passes > 24 * 5


@settings(max_examples=5)
@given(budget=st.floats(0.0, 3.0), share=st.floats(0.05, 1.0), seed=st.integers(0, 50))
def test_ends_keep_to_limits_and_are_no_worse_than_staying(budget, share, seed):
    asked = problem(budget, seed=seed, participants=share)
    radii = asked.allowance.everyones(asked.people.size)
    training = asked.training()

    def loss(moves):
        fit = training.fit(training.moved(moves), training.start(), 1e-10)
        return asked.model.output_loss(training.outputs(fit.parameters, asked.first_query), asked.goal_target)

    stays = loss(None)
    for end in searched(asked)[0]:
        assert (np.linalg.norm(end[:-1], axis=1) <= radii * (1 + 1e-12)).all()
        assert not end[-1].any()
        assert loss(end[:-1]) <= stays + 1e-12


def test_the_same_again_to_the_last_bit():
    asked = problem(0.9)
    searched(problem(0.2))  # whatever was asked before
    first, again = (searched(asked) for _ in range(2))
    assert first[1] == again[1]
    for left, right in zip(first[0], again[0], strict=True):
        np.testing.assert_array_equal(left, right)


def test_people_who_cannot_be_fitted_are_left_to_the_usual_search():
    """Told apart perfectly, without a penalty; a constant feature, without one. No warning either."""
    labels = np.arange(20) % 2
    noise = np.random.default_rng(0).normal(size=20)
    for features in (10.0 * labels[:, None] + noise[:, None], np.column_stack([labels + noise, np.ones(20)])):
        people = oar.Population(features, labels)
        asked = oar.Problem(people, oar.SoftmaxRegression(0.0), oar.Query(features[0], goal=1), oar.Perturb(0.1))
        assert suits(asked)
        assert not searched(asked)[0]
        with pytest.raises(NumericsError) as usual:
            propose_collective(asked)
        with pytest.raises(NumericsError) as found:
            propose(asked)
        assert str(found.value) == str(usual.value)


def test_weights_and_budgets_of_their_own():
    people, query = table()
    rng = np.random.default_rng(5)
    people = oar.Population(people.features, people.labels, weights=rng.uniform(0.0, 2.0, 45) * (np.arange(45) > 4))
    budgets = rng.uniform(0.0, 0.8, 45)
    asked = oar.Problem(people, oar.SoftmaxRegression(1e-2), oar.Query(query, goal=1), oar.Perturb(budgets))
    found, usual = propose(asked), propose_collective(asked, ProjectedGradient(restarts=24))
    assert found.claimed_loss == pytest.approx(usual.claimed_loss, rel=1e-6)
    assert not oar.audit(found.plan).violations


def test_who_it_suits():
    assert suits(problem())
    assert suits(problem(participants=0.3))
    assert not suits(problem(norm=np.inf))
    assert not suits(problem(model=oar.NearestCentroid()))
    assert not suits(problem(model=oar.models.LinearSVM(1e-2)))
    for wide in (table(classes=12, size=120, features=4), table(size=60, features=30)):  # 60 and 93 parameters
        query = oar.Query(wide[1], goal=1)
        assert not suits(oar.Problem(wide[0], oar.SoftmaxRegression(1e-2), query, oar.Perturb(0.3)))
    asked = problem()
    for other in (
        {"query": oar.Query(asked.first_query, goal=1, probability=0.9)},
        {"query": oar.Query([asked.first_query] * 2, goal=1)},
        {"action": [oar.Perturb(0.3), oar.Relabel(most=2)]},
        {"people": table(size=1_200)[0]},
    ):
        assert not suits(dataclasses.replace(asked, **other))
