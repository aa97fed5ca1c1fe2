"""The audit must catch a plan that lies."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from support.centroid_problems import random_world, seeds

import oar
from oar import models
from oar.plans import ClassPlan, MemberPlan

PEOPLE = oar.Population([[0.0], [4.0]], ["no", "yes"])
PROBLEM = oar.Problem(PEOPLE, oar.NearestCentroid(), oar.Query([1.0], "yes"), oar.Perturb(1.5))


def test_an_honest_plan_passes():
    result = oar.collective(PROBLEM)
    assert result.success
    assert result.audit.movers == 2
    assert result.audit.effort == pytest.approx(3.0)
    assert result.audit.violations == ()


def test_a_move_beyond_the_limit_is_no_success():
    honest = oar.collective(PROBLEM)
    greedy = ClassPlan(PROBLEM, np.zeros(1), 1.01 * honest.plan.directions)
    found = oar.audit(greedy)
    assert not found.success
    assert "person 0 moves by 1.515, limit 1.5" in found.violations[0]
    refused = dataclasses.replace(honest, audit=found)
    assert refused.status is oar.results.Status.REFUSED
    assert "person 0" in refused.explanation


def test_a_query_that_moves_too_far_is_no_success():
    found = oar.audit(ClassPlan(PROBLEM, np.array([1.6]), np.zeros((2, 1))))
    assert not found.success
    assert "the query moves by 1.6, limit 1.5" in found.violations[0]


def test_moves_that_are_not_numbers_are_no_success():
    found = oar.audit(ClassPlan(PROBLEM, np.zeros(1), np.full((2, 1), np.nan)))
    assert not found.success
    assert found.violations


PLACES = np.array([[0.0, 1.0], [1.0, 0.0], [4.0, 3.0], [3.0, 4.0]])
MODELS = [
    oar.NearestCentroid(),
    models.SoftmaxRegression(),
    models.Scaled(models.SoftmaxRegression()),
    models.GaussianNaiveBayes(),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200, 1e308])
def test_moves_that_nothing_can_be_trained_on_are_reported(model, norm, value):
    people = oar.Population(PLACES, ["no", "no", "yes", "yes"])
    problem = oar.Problem(people, model, oar.Query([3.5, 3.5], "yes"), oar.Perturb(1.0, norm=norm))
    everyone, one = np.zeros((4, 2)), np.zeros((4, 2))
    everyone[:], one[2, 0] = value, value
    for each, own, who in (
        (everyone, np.zeros(2), "person 0"),
        (one, np.zeros(2), "person 2"),
        (np.zeros((4, 2)), np.array([value, 0.0]), "the query"),
    ):
        found = oar.audit(MemberPlan(problem, own, each))
        assert not found.success
        assert found.violations[0].startswith(f"{who} moves by ")
        assert found.prediction == "yes"  # as if they had stayed


@pytest.mark.parametrize(
    ("argument", "shape"), [("each", (3, 2)), ("each", (5, 2)), ("each", (4, 1)), ("each", (2,)), ("query_move", (3,))]
)
def test_moves_of_another_shape_are_refused(argument, shape):
    people = oar.Population(PLACES, ["no", "no", "yes", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0, 1.0], "yes"), oar.Perturb(1.0))
    moves = {"query_move": np.zeros(2), "each": np.zeros((4, 2))} | {argument: np.zeros(shape)}
    with pytest.raises(oar.errors.DataError, match=rf"{argument}: must have shape .*, got {re.escape(str(shape))}"):
        MemberPlan(problem, **moves)
    with pytest.raises(oar.errors.DataError, match=r"directions: must have shape \(2, 2\), got \(3, 2\)"):
        ClassPlan(problem, np.zeros(2), np.zeros((3, 2)))


def test_an_outsider_who_moves_is_no_success():
    class Leaky(ClassPlan):
        def of_chunk(self, chunk):
            return np.ones((len(chunk.codes), 1))

    problem = PROBLEM.with_action(participants=np.array([True, False]))
    found = oar.audit(Leaky(problem, np.zeros(1), np.zeros((2, 1))))
    assert not found.success
    assert "person 1 moves by 1, limit 0" in found.violations[0]


@pytest.mark.parametrize("size", [5, 6, 42])
def test_who_breaks_limits_beyond_the_first_few_is_counted(size):
    labels = ["no", "yes"] * (size // 2 + 1)
    people = oar.Population(np.arange(2.0 * (size // 2 + 1))[:, None], labels)
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0], "yes"), oar.Perturb(0.5))
    each = np.zeros((people.size, 1))
    each[:size] = 1.0
    told = oar.audit(MemberPlan(problem, np.array([2.0]), each)).violations
    assert told[0] == "person 0 moves by 1, limit 0.5"
    assert told[5:-1] == ((f"and {size - 5} more",) if size > 5 else ())
    assert told[-1] == "the query moves by 2, limit 0.5"


def test_a_member_who_asks_alone_is_one_who_asks():
    problem = oar.Problem(PROBLEM.people, oar.NearestCentroid(), oar.Query(oar.Members([0]), "yes"), oar.Perturb(1.0))
    features = np.asarray(PROBLEM.people.features)[0]
    alone = oar.individual(
        oar.Problem(PROBLEM.people, oar.NearestCentroid(), oar.Query(features, "yes"), oar.Perturb(1.0))
    )
    assert oar.individual(problem).loss == pytest.approx(alone.loss)


def test_claims_play_no_part():
    """A proposal that claims a success which the refit does not confirm is not one."""
    lazy = oar.audit(ClassPlan(PROBLEM, np.zeros(1), np.zeros((2, 1))))
    assert not lazy.success
    assert lazy.prediction == "no"
    assert lazy.loss == lazy.loss_before


def test_the_audit_sees_data_changed_behind_its_back():
    features = np.array([[0.0], [4.0]])
    people = oar.Population(features, ["no", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0], "yes"), oar.Perturb(1.5))
    plan = oar.collective(problem).plan
    features[1] = 40.0
    assert not oar.audit(plan).success


@given(seeds)
def test_the_audits_refit_is_the_moved_data(seed):
    world = random_world(seed)
    result = oar.joint(world.problem())
    moved = world.features + result.plan.moves()
    means = [
        np.average(moved[world.labels == code], axis=0, weights=world.weights[world.labels == code])
        for code in world.classes
    ]
    distances = np.linalg.norm(means - (world.query + result.plan.query_move), axis=1)
    assert result.audit.loss == pytest.approx(np.logaddexp.reduce(distances[world.goal] - distances), abs=1e-9)
    assert result.audit.margin == pytest.approx(np.delete(distances, world.goal).min() - distances[world.goal])
