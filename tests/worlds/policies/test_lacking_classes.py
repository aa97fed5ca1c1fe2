"""A batch that lacks a class: policies go on where the rule does, and say which round and class where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oar
from oar.errors import DataError
from oar.online import ExponentialMeans, FineTune, GradientSteps, Window
from oar.worlds import Collective, FromBatches, OneShot, Operator, PlanOnce, Replan, World, simulate

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
POLICIES = [OneShot(), Replan(), Replan(horizon=2), PlanOnce()]


def batch(labels: list[int], seed: int) -> tuple[Any, Any]:
    """Twelve people of these classes."""
    codes = np.resize(labels, 12)
    return np.random.default_rng(seed).normal(size=(12, 2)) + CENTRES[codes], codes


def lacking(classes: int, model: Any, rule: Any) -> World:
    """In round 1 nobody is of the last class."""
    every = list(range(classes))
    query = oar.Query([2.0, 0.5], goal=0)
    return World(
        FromBatches([batch(every, 1), batch(every[:-1], 2), batch(every, 3)]),
        Operator(model, rule),
        Collective("members", query, oar.Perturb(0.3)),
        labels="keep",
        history=batch(every, 4),
        holdout=batch(every, 5),
    )


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("rule", [ExponentialMeans(0.3), GradientSteps(0.1), FineTune(1.0)], ids=repr)
def test_policies_go_on_with_centroids(rule: Any, classes: int, policy: Any) -> None:
    """The centroid of a class that nobody has stays where it was; the others' members still move."""
    rounds = list(simulate(lacking(classes, oar.NearestCentroid(), rule), policy, rounds=3))
    assert rounds[1].actors["members"].moved > 0
    before, after = (np.reshape(rounds[number].state.flat, (classes, 2)) for number in (0, 1))
    assert after[-1] == pytest.approx(before[-1])
    assert not np.allclose(after[0], before[0])


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policies_go_on_with_softmax(policy: Any) -> None:
    """Gradient steps need no class, and the parameters are those of all classes."""
    world = lacking(3, oar.SoftmaxRegression(), GradientSteps(0.1))
    assert [one.number for one in simulate(world, policy, rounds=3, critical_masses=False)] == [0, 1, 2]


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression()], ids=repr)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_window_that_lacks_a_class_names_it(policy: Any, model: Any) -> None:
    """Where the operator could not refit, neither can be planned for it."""
    with pytest.raises(DataError, match=r"window refit refits in round [01], .* nobody of class 1"):
        list(simulate(lacking(2, model, Window(1)), policy, rounds=3, critical_masses=False))


def test_a_plan_of_a_later_round_says_from_where_it_counts() -> None:
    """The plan's round 0 is the world's round 1."""
    with pytest.raises(DataError, match=r"in round 0, .*counted from round 1, in which this is planned"):
        list(simulate(lacking(2, oar.NearestCentroid(), Window(1)), Replan(), rounds=3))
