"""Plans for people in parts against plans for the same people in memory: who asks for what, who moves, what is kept."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import Ridge, Scaled
from oar.referee import audit
from oar.solvers import ProjectedGradient

SOFTMAX = oar.SoftmaxRegression(l2=1e-1)
SHORT = ProjectedGradient(tolerance=1e-6, restarts=0)
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 20))
FEATURES = np.random.default_rng(1).standard_normal((60, 3)) + 1.5 * np.eye(3)[LABELS]
QUERIES = np.array([[0.6, 0.4, 0.5], [0.9, 0.2, 0.7], [0.2, 0.8, 0.6]])
ACTION = oar.Perturb(0.4)


@pytest.fixture
def both(tmp_path):
    """Return a problem in parts and the same in memory."""

    def made(model, query, action=ACTION, **more):
        target = FEATURES @ [1.0, -1.0, 0.5] if model.regresses else LABELS
        frame = pd.DataFrame(FEATURES, columns=list("abc")).assign(y=target)
        for number, some in enumerate((frame[:23], frame[23:])):
            some.to_parquet(tmp_path / f"{number}.parquet")
        people = oar.Population.from_parquet(tmp_path, target="y")
        problem = oar.Problem(people, model, query, action, **more)
        return problem, dataclasses.replace(problem, people=people.loaded())

    return made


def agree(there, here, memory, close=1e-4):
    """Check that a plan is as good as in memory, and that an audit in memory says of it what its own says."""
    assert there.loss <= here.loss + close * max(abs(here.loss), 0.01)
    assert there.success == here.success
    moves = there.plan.contribution().moves[np.arange(60)]
    expected = audit(memory, moves=moves, query_move=there.plan.query_move)
    assert there.loss == pytest.approx(expected.loss, abs=1e-7)
    assert there.success == expected.success


QUERIED = {
    "mean": oar.Query(QUERIES, 2),
    "worst": oar.Query(QUERIES, 2, several="worst"),
    "share": oar.Query(QUERIES, 2, several="share", share=0.5),
    "a goal each": oar.Query(QUERIES, [2, 0, 1]),
    "any of a set": oar.Query(QUERIES[0], {1, 2}),
    "any but one": oar.Query(QUERIES[0], oar.AnyBut(0)),
    "a probability": oar.Query(QUERIES[0], 2, probability=0.6),
    "a probability of a set": oar.Query(QUERIES[0], {1, 2}, probability=0.9),
    "members who stay": oar.Query(oar.Members([3, 7], stay=True), 2),
}


@pytest.mark.parametrize("name", QUERIED)
def test_other_goals_and_several_queries(both, name):
    problem, memory = both(SOFTMAX, QUERIED[name])
    there, here = (oar.collective(one, solver=SHORT) for one in (problem, memory))
    agree(there, here, memory)


def test_a_range_of_values(both):
    problem, memory = both(Ridge(1e-1), oar.Query(QUERIES[0], oar.Between(low=0.9)))
    agree(*(oar.collective(one, solver=SHORT) for one in (problem, memory)), memory)


@pytest.mark.parametrize("model", [SOFTMAX, Scaled(SOFTMAX)], ids=lambda model: model.name)
def test_together_members_and_query_do_no_worse_than_alone(both, model):
    problem, memory = both(model, oar.Query(QUERIES[0], 2, budget=0.3))
    there, here = (oar.joint(one, solver=SHORT) for one in (problem, memory))
    agree(there, here, memory)
    assert there.plan.query_move.any()
    for verb in (oar.individual, oar.collective):
        assert there.loss <= verb(problem).loss + 1e-9


@pytest.mark.parametrize("who", [LABELS == 1, 0.5], ids=["mask", "share"])
def test_some_move(both, who):
    problem, memory = both(SOFTMAX, oar.Query(QUERIES[0], 2), oar.Perturb(0.4, participants=who))
    there, here = (oar.collective(one, solver=SHORT) for one in (problem, memory))
    agree(there, here, memory)
    assert there.audit.movers <= 30


@pytest.mark.parametrize("keep", [oar.Keep(changed=0.2), oar.Keep(worse=0.1), oar.Keep(lost=0.2)], ids=repr)
def test_others_are_left_alone_as_in_memory(both, keep):
    action = oar.Perturb(0.8, participants=np.arange(60) % 2 == 0)
    with oar.solvers.default_effort("quick"):
        problem, memory = both(SOFTMAX, oar.Query(QUERIES[0], 2), action, keep=keep)
        there, here = (oar.collective(one, solver=SHORT) for one in (problem, memory))
    agree(there, here, memory, close=1e-2)
    assert there.audit.violations == ()
    free = oar.collective(dataclasses.replace(problem, keep=None), solver=SHORT)
    broken = audit(memory, moves=free.plan.contribution().moves[np.arange(60)])
    reported = oar.audit(dataclasses.replace(free.plan, problem=problem))
    assert reported.violations == broken.violations


def test_members_who_ask_and_move_are_refused_for_a_reason(both):
    problem, _ = both(SOFTMAX, oar.Query(oar.Members([3, 7]), 2))
    with pytest.raises(oar.errors.OptionError, match="stay=True"):
        oar.collective(problem)


@pytest.mark.parametrize("model", [SOFTMAX, oar.NearestCentroid(), Scaled(SOFTMAX)], ids=lambda model: model.name)
def test_credit_and_leverage_are_as_in_memory(both, model):
    problem, memory = both(model, oar.Query(QUERIES[0], 2))
    found = oar.collective(problem)
    here = oar.plans.MemberPlan(memory, np.zeros(3), found.plan.contribution().moves[np.arange(60)])
    same = oar.recourse.audited(dataclasses.replace(found.proposal, plan=here))
    credits, expected = oar.questions.credit(found), oar.questions.credit(same)
    np.testing.assert_allclose(credits.credits, expected.credits, atol=1e-6)
    np.testing.assert_array_equal(credits.members, expected.members)
    there, leverage = oar.questions.leverage(problem), oar.questions.leverage(memory)
    assert there.total == pytest.approx(leverage.total, rel=1e-6)
    assert there.largest == pytest.approx(leverage.largest, rel=1e-6)
    assert there.classes == pytest.approx(leverage.classes, rel=1e-6)
