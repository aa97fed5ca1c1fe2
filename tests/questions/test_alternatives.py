"""Alternatives differ as they say, keep to what they forbid, and are audited like any other plan."""

import dataclasses

import matplotlib
import numpy as np
import pandas as pd
import pytest
from support.people_in_parts import asked as asked_in_parts
from support.people_in_parts import blobs, halves

import oar
from oar.models import Ridge, Scaled
from oar.questions.alternatives import DIFFERENT, Alternative, ideas

SOFTMAX = oar.SoftmaxRegression(l2=0.05)
COLUMNS = ["plan", "success", "goal loss", "effort", "people", "collateral", "actors changed", "features", "distance"]


def plain(model=None, size=40, budget=1.0, **action):
    rng = np.random.default_rng(0)
    labels = np.arange(size) % 2
    features = rng.normal(size=(size, 3)) + 1.5 * labels[:, None]
    query = oar.Query([0.55, 0.6, 0.6], 1)
    if isinstance(model, Ridge):
        labels, query = features @ [1.0, -0.5, 0.2], oar.Query([0.5, 0.3, 0.6], 2.0, within=0.3)
    return oar.Problem(
        oar.Population(features, labels), model or oar.NearestCentroid(), query, oar.Perturb(budget, **action)
    )


def table(size=80, **limits):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(2, 0.5, size),
            "savings": rng.normal(1, 0.5, size),
            "owner": rng.random(size) < 0.5,
            "home ($)": rng.choice(["own $", "rent"], size),
        }
    )
    good = frame["income"] + frame["savings"] + 0.3 * frame["owner"] + rng.normal(0, 0.3, size) > 3.1
    people = oar.Population.from_frame(frame.assign(approved=np.where(good, "yes", "no")), "approved")
    query = {"income": 1.8, "savings": 1.0, "owner": False, "home ($)": "rent"}
    return oar.Problem(
        people, Scaled(SOFTMAX), oar.Query(query, "yes"), oar.Perturb(0.8, norm=1, limits=oar.Limits(**limits))
    )


def check(found):
    """Check what holds of any alternatives."""
    frame = found.frame()
    assert list(frame.columns) == COLUMNS
    assert len(frame) == len(found) <= found.asked
    for number, (plan, row) in enumerate(zip(found, frame.itertuples(index=False), strict=True)):
        moves = np.asarray(plan.result.plan.moves())
        assert oar.audit(plan.result.plan).success == plan.result.success == row.success
        assert row.people == moves.any(axis=1).sum()
        assert row.effort == plan.result.audit.effort
        assert row.collateral == oar.questions.collateral(plan.result).bystanders.changed
        assert frame["actors changed"].iloc[number] == oar.questions.collateral(plan.result).actors.changed
        assert all(plan.distance(other) >= DIFFERENT for other in found[:number] + found[number + 1 :])
        assert plan.profile.sum() == pytest.approx(1)
    order = [(not row["success"], row["effort" if row["success"] else "goal loss"]) for _, row in frame[1:].iterrows()]
    assert order == sorted(order)


def test_on_a_table_columns_and_people_differ():
    found = oar.questions.alternatives(table(), n=4)
    check(found)
    assert len(found) == 4
    assert found[0].how == "the best found"
    assert found[0].result.loss == oar.collective(table()).loss
    other = next(plan for plan in found if plan.how.startswith("without changing"))
    names, schema = other.how.removeprefix("without changing ").split(", "), other.result.problem.people.encoding
    moves = np.asarray(other.result.plan.moves())
    assert not any(moves[:, schema.places[name]].any() for name in names)
    assert names[0] in found[0].features.split(" ")[0]  # what bore most of the effort is forbidden
    assert found.explanation in str(found)
    assert repr(found).startswith("Alternatives(4 of 4 asked for")


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX, Ridge(l2=0.1)], ids=lambda model: model.name)
def test_without_a_table_people_differ(model):
    solver = "auto" if isinstance(model, oar.NearestCentroid) else "one-shot"
    problem = plain(model, participants=np.arange(40) % 4 > 0)
    found = oar.questions.alternatives(problem, solver=solver)
    check(found)
    assert len(found) == 3
    for plan in found:
        assert not (plan.movers & ~problem.allowance.mask).any()
    assert found.frame().equals(oar.questions.alternatives(problem, solver=solver).frame())


def test_ideas_do_what_they_say():
    problem = plain()
    best = oar.collective(problem)
    credits = oar.questions.credit(best)
    asked = {idea.how: idea.problem.allowance.mask for idea in ideas(problem, best, seed=1)}
    first = credits.members[np.argsort(-credits.credits, kind="stable")[:20]]
    assert set(np.flatnonzero(asked["by the 20 most useful members alone"])) == set(first)
    assert set(np.flatnonzero(~asked["without the 20 most useful members"])) == set(first)
    assert set(np.flatnonzero(asked["by members of class 0 alone"])) <= set(range(0, 40, 2))
    halves = asked["by a random half of the members"], asked["by the other half of the members"]
    assert (halves[0] ^ halves[1]).all()
    again = {idea.how: idea.problem.allowance.mask for idea in ideas(problem, best, seed=2)}
    assert (again["by a random half of the members"] != halves[0]).any()


def test_other_limits_stay_as_they_are():
    own = {0: {"income": oar.Limit(immutable=True), "savings": oar.Limit(upper=1.5)}}
    problem = table(columns={"income": oar.Limit(cost=2, unit=0.7, upper=9)}, own=own, links=["savings <= income"])
    best = oar.collective(problem)
    idea = next(ideas(problem, best, seed=0))
    forbidden = idea.how.removeprefix("without changing ").split(", ")
    limits = idea.problem.action.limits
    assert limits.links == ("savings <= income",)
    for name in forbidden:
        assert limits.columns[name].immutable
        assert name not in limits.own.get(0, {})
    if "income" in forbidden:
        assert (limits.columns["income"].cost, limits.columns["income"].unit) == (2, 0.7)
    else:
        assert limits.columns["income"] == oar.Limit(cost=2, unit=0.7, upper=9)
    check(oar.questions.alternatives(problem, n=2, solver="one-shot"))


def levers(action):
    people = plain().people
    return oar.Problem(people, SOFTMAX, oar.Query([0.2, 0.3, 0.2], 1), action)


@pytest.mark.parametrize(
    "action",
    [oar.Relabel(most=4), oar.Withhold(share=0.1), [oar.Perturb(0.3), oar.Relabel(most=3)]],
    ids=["labels", "strike", "both"],
)
def test_labels_and_strikes_have_alternatives_too(action):
    found = oar.questions.alternatives(levers(action))
    assert len(found) > 1
    for plan in found:
        told = oar.audit(plan.result.plan)
        assert told.success == plan.result.success
        assert plan.movers.sum() > 0
        assert plan.profile.sum() == pytest.approx(1)
        assert told.relabelled + told.leavers <= 4
        assert all(plan.distance(other) >= DIFFERENT for other in found if other is not plan)
    assert (found.frame()["people"] == [plan.movers.sum() for plan in found]).all()
    found.plot().draw_without_rendering()


def test_ideas_for_labels_leave_out_who_does_most():
    problem = levers(oar.Relabel(most=4))
    best = oar.collective(problem)
    acts = np.flatnonzero(best.plan.labels() != problem.people.labels)
    without = {}
    for person in acts:  # by audits, whose refits are another's
        targets = best.plan.targets.copy()
        targets[person] = problem.people.class_rows()[person]
        without[person] = oar.audit(dataclasses.replace(best.plan, targets=targets)).loss
    first = sorted(without, key=without.get)[-2:]
    asked = {idea.how: idea.problem for idea in ideas(problem, best, seed=0)}
    left = asked["without the 2 most useful members"].levers.relabel
    assert set(np.flatnonzero(~left.mask)) == set(first)
    assert left.most == 4
    assert set(np.flatnonzero(asked["by the 2 most useful members alone"].levers.relabel.mask)) == set(first)


def test_moves_and_labels_may_go_alone():
    problem = levers([oar.Perturb(0.3), oar.Relabel(most=3)])
    best = oar.collective(problem)
    asked = {idea.how: idea.problem for idea in ideas(problem, best, seed=0)}
    assert not asked["by moves alone"].levers.given
    assert not asked["by other labels alone"].moves


def test_the_most_useful_stay_as_few():
    problem = plain(participants=oar.Best(6))
    best = oar.collective(problem)
    movers = np.asarray(best.plan.moves()).any(axis=1)
    for idea in ideas(problem, best, seed=0):
        assert oar.collective(idea.problem).audit.movers <= 6
        if idea.how.startswith("without"):
            assert not idea.problem.allowance.mask[movers].all()


def test_over_rounds_other_rounds_do_it():
    people = plain().people
    stream = oar.online.Stream(people, np.arange(40) % 3)
    problem = oar.online.OnlineProblem(
        stream, SOFTMAX, oar.online.FullRefit(), oar.Query([0.5, 0.5, 0.5], 1), oar.Perturb(1.0)
    )
    best = oar.collective(problem)
    asked = {idea.how: idea.problem.allowance.mask for idea in ideas(problem, best, seed=0)}
    for number in range(3):
        assert (np.flatnonzero(asked[f"in round {number} alone"]) == np.flatnonzero(stream.when == number)).all()
    (without,) = [how for how in asked if how.startswith("without round")]
    assert (asked[without] == (stream.when != int(without[-1]))).all()
    found = oar.questions.alternatives(problem)
    assert len(found) == 3
    check(found)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=lambda model: model.name)
def test_people_in_parts_have_alternatives(tmp_path, model):
    features, labels, query = blobs(120)
    people = oar.Population.from_parquet(halves(tmp_path / "people", features, labels), target="label")
    problem = asked_in_parts(people, model, query, budget=0.6)
    found = oar.questions.alternatives(problem)
    assert len(found) == 3
    for plan in found:
        moves = plan.result.plan.contribution().moves[np.arange(120)]
        assert (plan.movers == moves.any(axis=1)).all()
        assert plan.profile == pytest.approx(np.abs(moves).sum(axis=0) / np.abs(moves).sum())
        assert oar.audit(plan.result.plan).success == plan.result.success
        assert all(plan.distance(other) >= DIFFERENT for other in found if other is not plan)
    frame = found.frame()
    assert list(frame["people"]) == [plan.result.audit.movers for plan in found]
    here = {idea.how: idea.problem.allowance.mask for idea in ideas(problem, found[0].result, seed=0)}
    for label in range(3):
        assert (here[f"by members of class {label} alone"] == (people.loaded().labels == label)).all()


def test_when_the_time_is_over_that_is_said():
    found = oar.questions.alternatives(plain(SOFTMAX), time_limit=0.0)
    assert len(found) <= 1
    assert "time" in found.explanation
    assert len(oar.questions.alternatives(plain(SOFTMAX), n=2, effort="quick", time_limit=60.0)) == 2


def test_distances_are_those_of_columns_and_people():
    movers = np.array([True, True, False])
    a = Alternative("a", None, np.array([0.5, 0.5]), movers, ("x", "y"))
    b = Alternative("b", None, np.array([0.2, 0.8]), np.array([True, True, True]), ("x", "y"))
    assert a.distance(b) == pytest.approx(1 / 3)  # people: 1 − 2/3; columns: 0.3
    c = Alternative("c", None, np.array([1.0, 0.0]), movers, ("x", "y"))
    assert a.distance(c) == c.distance(a) == pytest.approx(0.5)
    assert a.distance(a) == 0
    assert b.features == "y 80%, x 20%"


def test_where_there_are_fewer_that_is_said():
    alone = plain(participants=np.arange(40) == 3)
    found = oar.questions.alternatives(alone, n=3)
    check(found)
    assert len(found) == 1
    assert "1 plan was found of 3 asked for" in found.explanation
    assert "Not without the 1 most useful member: nobody does anything then." in found.explanation
    nobody = oar.questions.alternatives(plain(budget=0.0))
    assert len(nobody) == 0
    assert "No member does anything in the best plan." in str(nobody)
    assert len(nobody.frame()) == 0
    assert nobody.plot().axes[0].texts[0].get_text() == "no plan was found"
    only = oar.questions.alternatives(plain(), n=1)
    assert len(only) == only.tried == 1


def test_the_picture_shows_every_plan_and_leaves_matplotlib_alone():
    before = dict(matplotlib.rcParams)
    found = oar.questions.alternatives(table(), n=4)
    figure = found.plot()
    figure.draw_without_rendering()
    marks, said = figure.axes
    assert [text.get_text() for text in marks.texts] == ["1", "2", "3", "4"]
    places = np.array([text.get_position() for text in marks.texts])
    share = places / [marks.get_xlim()[1], marks.get_ylim()[1]]
    apart = np.abs(share[:, None] - share[None]).max(axis=2) + np.eye(4)
    assert apart.min() > 0.05
    drawn = [tuple(group.get_offsets()[0]) for group in marks.collections]
    assert drawn == [(plan.result.audit.movers, plan.result.audit.effort) for plan in found]
    words = " ".join(text.get_text() for text in said.texts)
    assert all(plan.how in words.replace("\n", " ") for plan in found)
    low = min(text.get_window_extent().y0 for text in said.texts)
    assert low >= 0  # nothing is cut off
    assert dict(matplotlib.rcParams) == before


def test_what_cannot_be_is_refused():
    with pytest.raises(oar.errors.DataError, match="n: must be a whole number"):
        oar.questions.alternatives(plain(), n=0)
    with pytest.raises(oar.errors.DataError, match="seed: must be a whole number"):
        oar.questions.alternatives(plain(), seed=0.5)
    with pytest.raises(oar.errors.DataError, match=r"problem: must be an oar\.Problem"):
        oar.questions.alternatives(oar.collective(plain()))
