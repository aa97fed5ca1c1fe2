"""Nearest centroid where JAX is not installed: on tables, for several people, for other goals, with limits on harm."""

import sys

import numpy as np
import pandas
import pytest

import oar


@pytest.fixture(autouse=True)
def no_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)


def table():
    frame = pandas.DataFrame({"income": np.arange(12.0), "owns": [True, False] * 6})
    frame["approved"] = np.where(frame["income"] > 5, "yes", "no")
    return oar.Population.from_frame(frame, "approved")


def flowers():
    iris = oar.datasets.iris()
    return oar.Population(iris.features, iris.labels), iris.features


@pytest.mark.parametrize("verb", [oar.individual, oar.collective, oar.joint])
def test_tables_are_planned_for(verb):
    query = oar.Query({"income": 5.0, "owns": True}, "yes")
    found = verb(oar.Problem(table(), oar.NearestCentroid(), query, oar.Perturb(1.5)))
    assert found.loss < found.loss_before
    assert not found.audit.violations


def test_several_people_get_their_goals():
    people, features = flowers()
    query = oar.Query(features[[52, 77]], goal=2)
    found = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.6)))
    assert found.success


def test_any_of_several_classes_will_do_and_others_are_left_alone():
    people, features = flowers()
    query = oar.Query(features[77], goal=oar.AnyBut(1))
    problem = oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.6), keep=oar.Keep(changed=0.2))
    assert oar.collective(problem).success


@pytest.mark.parametrize("action", [oar.Relabel(most=8), oar.Withhold(most=20)])
def test_labels_and_strikes_for_several_people(action):
    people, features = flowers()
    query = oar.Query(features[[70, 77, 83]], goal=2)
    found = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, action))
    assert found.loss < found.loss_before
    assert not found.audit.violations


def test_credit_and_leverage():
    people, features = flowers()
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(features[77], goal=2), oar.Perturb(0.4))
    result = oar.collective(problem)
    assert oar.questions.credit(result, method="first-order").credits.sum() == pytest.approx(
        result.loss_before - result.loss, rel=2e-3
    )
    assert oar.questions.leverage(problem).total > 0
