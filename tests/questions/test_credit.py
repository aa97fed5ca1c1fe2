"""Credit adds up to the audited fall, and is what all orders of coming make of it, by the audit's own refits."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from support.people_in_parts import asked as asked_in_parts
from support.people_in_parts import blobs, halves

import oar
from oar.models import GaussianNaiveBayes, Ridge, Scaled
from oar.plans import MemberPlan, Proposal, Result

SOFTMAX = oar.SoftmaxRegression(l2=0.05)
MODELS = [oar.NearestCentroid(), SOFTMAX, Scaled(SOFTMAX), Ridge(l2=0.1), GaussianNaiveBayes()]


def problem(model, size=30, actors=None, seed=0, budget=0.8):
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 2
    features = rng.normal(size=(size, 3)) + 1.5 * labels[:, None]
    query = oar.Query([0.5, 0.3, 0.6], 1)
    if isinstance(model, Ridge):
        labels, query = features @ [1.0, -0.5, 0.2], oar.Query([0.5, 0.3, 0.6], 2.0, within=0.3)
    people = oar.Population(features, labels, rng.choice([0.5, 1.0, 2.0], size))
    mask = None if actors is None else np.arange(size) < actors
    return oar.Problem(people, model, query, oar.Perturb(budget, participants=mask))


def made(asked, each, query_move=None):
    """Return the audited result of moves that were written down."""
    plan = MemberPlan(asked, np.zeros(each.shape[1]) if query_move is None else query_move, each)
    return Result(asked, Proposal(plan, "by hand", 0.0, 0.0, 0.0, False, False, True, 0, 0), oar.audit(plan))


def one_shot(asked):
    """Return a quick plan: this is about credit, not about solvers."""
    return oar.collective(asked, solver="auto" if isinstance(asked.model, oar.NearestCentroid) else "one-shot")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_first_order_adds_up_and_is_each_ones_own_slope(model):
    asked = problem(model)
    result = one_shot(asked)
    found = oar.questions.credit(result)
    assert abs(found.unexplained) <= 1e-3 * abs(found.fall)
    assert found.credits.sum() == pytest.approx(found.fall, rel=1e-3)
    assert (found.members == np.flatnonzero(result.plan.moves().any(axis=1))).all()
    tiny = made(asked, 1e-5 * result.plan.moves())
    found = oar.questions.credit(tiny)
    for place in (0, 7):
        alone = np.zeros_like(tiny.plan.each)
        alone[found.members[place]] = tiny.plan.each[found.members[place]]
        assert found.credits[place] == pytest.approx(tiny.loss_before - made(asked, alone).loss, rel=5e-3, abs=2e-9)


@pytest.mark.parametrize("model", MODELS[:3], ids=lambda model: model.name)
def test_shapley_is_the_mean_over_all_orders(model):
    asked = problem(model, size=10, actors=5, budget=2.5)
    result = one_shot(asked)
    losses = {}

    def loss(acting):
        if acting not in losses:
            each = result.plan.moves().copy()
            each[[person for person in range(10) if person not in acting]] = 0.0
            losses[acting] = made(asked, each).loss
        return losses[acting]

    expected = np.zeros(5)
    for order in permutations(range(5)):
        for place, person in enumerate(order):
            expected[person] += (loss(frozenset(order[:place])) - loss(frozenset(order[: place + 1]))) / 120
    found = oar.questions.credit(result, "shapley")
    assert found.credits == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert (found.errors == 0).all()
    assert found.refits == 32
    assert found.unexplained == pytest.approx(0, abs=1e-8)
    drawn = oar.questions.credit(result, "shapley", draws=30, seed=3)
    assert drawn.credits.sum() == pytest.approx(found.fall, abs=1e-8)
    assert (drawn.errors > 0).any()
    assert (np.abs(drawn.credits - expected) <= 5 * drawn.errors + 1e-9).all()
    assert (drawn.credits == oar.questions.credit(result, "shapley", draws=30, seed=3).credits).all()


def test_standard_errors_are_those_of_repeated_draws():
    result = one_shot(problem(oar.NearestCentroid(), size=12, actors=10, budget=4.0))
    several = [oar.questions.credit(result, "shapley", draws=20, seed=seed) for seed in range(40)]
    spread = np.std([found.credits for found in several], axis=0, ddof=1)
    said = np.sqrt(np.mean([found.errors**2 for found in several], axis=0))
    assert said == pytest.approx(spread, rel=0.5, abs=1e-9)


@pytest.mark.parametrize("method", ["first-order", "shapley"])
@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: model.name)
def test_twins_share_alike_and_who_weighs_nothing_gets_nothing(model, method):
    rng = np.random.default_rng(1)
    features, weights = rng.normal(size=(14, 2)), np.ones(14)
    features[1], weights[4] = features[0], 0.0
    labels = np.array([0, 0] + [0, 1] * 6)
    each = np.zeros((14, 2))
    each[:6] = 0.3 * rng.normal(size=(6, 2))
    each[1] = each[0]
    asked = oar.Problem(oar.Population(features, labels, weights), model, oar.Query([0.1, 0.2], 1), oar.Perturb(5.0))
    found = oar.questions.credit(made(asked, each), method)
    assert found.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.credits[0] == pytest.approx(found.credits[1], rel=1e-6)
    assert found.credits[4] == pytest.approx(0, abs=1e-9)
    assert np.abs(found.credits[[0, 2, 3, 5]]).min() > 1e-6


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: model.name)
def test_what_the_querys_own_move_does_is_its_own(model):
    asked = problem(model, actors=4)
    result = oar.joint(asked)
    found, all_orders = oar.questions.credit(result), oar.questions.credit(result, "shapley")
    assert found.query > 0
    assert found.query + found.credits.sum() == pytest.approx(found.fall, rel=1e-3)
    assert all_orders.query + all_orders.credits.sum() == pytest.approx(found.fall, rel=1e-6)
    assert found.frame()["person"].iloc[-1] == "query"


@pytest.mark.parametrize("action", [oar.Relabel(most=3), oar.Withhold(most=3)], ids=["labels", "strike"])
def test_labels_and_strikes_are_shared_out_by_shapley_alone(action):
    result = oar.collective(replace(problem(SOFTMAX), action=action))
    found = oar.questions.credit(result)
    assert (found.method, found.members.size) == ("shapley", 3)
    assert found.credits.sum() == pytest.approx(found.fall, abs=1e-8)
    assert "labels change or members leave. All 8 coalitions were tried." in found.note
    with pytest.raises(oar.errors.OptionError, match="Use method='shapley'"):
        oar.questions.credit(result, "first-order")


def over_orders(players, loss):
    """Return Shapley's value by its definition: the mean over all orders, of losses of sets of players."""
    credits = np.zeros(players)
    orders = list(permutations(range(players)))
    losses = {frozenset(order[:size]): np.nan for order in orders for size in range(players + 1)}
    losses = {coming: loss(coming) for coming in losses}
    for order in orders:
        for place, player in enumerate(order):
            credits[player] += losses[frozenset(order[:place])] - losses[frozenset(order[: place + 1])]
    return credits / len(orders)


def test_groups_come_one_after_the_other_and_share_alike():
    asked = problem(SOFTMAX, size=24)
    result = one_shot(asked)
    group = np.array(["a", "b", "c"])[np.arange(24) % 3]
    found = oar.questions.credit(result, groups=group)

    def loss(coming):
        acts = np.isin(group, [name for place, name in enumerate("abc") if place in coming])
        return made(asked, np.where(acts[:, None], result.plan.moves(), 0.0)).loss

    expected = over_orders(3, loss)
    assert list(found.groups["credit"]) == pytest.approx(expected, rel=1e-6)
    assert found.groups["actors"].sum() == found.members.size
    sizes = found.groups["actors"].to_numpy()
    own = np.unique(group[found.members], return_inverse=True)[1]
    assert found.credits == pytest.approx((expected / sizes)[own], rel=1e-6)
    assert "b  " in str(found)


def test_where_more_act_than_refits_tell_apart_groups_come_together():
    result = one_shot(problem(oar.NearestCentroid(), size=60))
    found = oar.questions.credit(result, "shapley", refits=100)
    assert found.refits <= 100
    assert len(found.groups) == 8
    assert found.groups["actors"].sum() == found.members.size == 60
    assert found.credits.sum() == pytest.approx(found.fall, abs=1e-8)
    assert "More act than 100 refits tell apart" in found.note
    assert (found.intervals[:, 0] <= found.credits).all()
    one = oar.questions.credit(result, "shapley", refits=4)
    assert one.refits <= 4
    assert one.groups.index.tolist() == ["everybody who acts"]
    each = oar.questions.credit(result, "shapley", refits=500)
    assert each.groups is None
    assert (each.errors > 0).any()


@pytest.mark.parametrize("several", ["worst", "share"])
def test_the_worst_or_a_share_of_several_is_shared_out_by_refits(several):
    plain = problem(SOFTMAX, actors=4, budget=2.0)
    query = oar.Query(np.array([[0.5, 0.3, 0.6], [0.2, 0.5, 0.1]]), 1, several=several)
    result = oar.collective(replace(plain, query=query), solver="one-shot")
    found = oar.questions.credit(result)

    def loss(coming):
        acts = np.isin(np.arange(30), found.members[list(coming)])
        return made(result.problem, np.where(acts[:, None], result.plan.moves(), 0.0)).loss

    assert found.credits == pytest.approx(over_orders(found.members.size, loss), abs=1e-8)


def test_a_black_box_is_trained_as_often_as_is_said():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    plain = problem(SOFTMAX, actors=4, budget=2.0)
    box = oar.BlackBox(DecisionTreeClassifier(max_depth=2, random_state=0))
    asked = oar.Problem(plain.people, box, plain.query, plain.action)
    each = np.zeros((30, 3))
    each[:4] = np.random.default_rng(0).normal(size=(4, 3))
    found = oar.questions.credit(made(asked, each))

    def loss(coming):
        acts = np.isin(np.arange(30), found.members[list(coming)])
        return made(asked, np.where(acts[:, None], each, 0.0)).loss

    assert found.credits == pytest.approx(over_orders(4, loss), abs=1e-9)
    assert found.method == "shapley"
    box = oar.BlackBox(RandomForestClassifier(n_estimators=3), randomised=True)
    result = made(oar.Problem(plain.people, box, plain.query, plain.action), each)
    before = box.calls.fits
    found = oar.questions.credit(result, refits=40)
    assert box.calls.fits - before == found.refits <= 40
    assert (found.errors > 0).any()
    assert np.isfinite(found.intervals).all()


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX, Scaled(SOFTMAX)], ids=lambda model: model.name)
def test_people_in_parts_are_credited_as_in_memory(tmp_path, model):
    features, labels, query = blobs(150)
    people = oar.Population.from_parquet(halves(tmp_path / "people", features, labels), target="label")
    there = oar.collective(asked_in_parts(people, model, query, budget=0.5))
    moves = there.plan.contribution().moves[np.arange(150)]
    here = made(asked_in_parts(people.loaded(), model, query, budget=0.5), moves)
    for settings in ({}, {"method": "shapley", "refits": 40}, {"groups": "x1"}, {"groups": labels}):
        found, expected = oar.questions.credit(there, **settings), oar.questions.credit(here, **settings)
        assert found.method == expected.method
        assert (found.members == expected.members).all()
        assert found.credits == pytest.approx(expected.credits, rel=1e-5, abs=1e-7)
    by_label = oar.questions.credit(there, groups="label").groups
    pd.testing.assert_frame_equal(by_label.sort_index(), found.groups.sort_index())
    pd.testing.assert_frame_equal(found.by("x0"), expected.by("x0"), rtol=1e-5, atol=1e-7, check_dtype=False)


def test_what_is_known_when_the_time_is_over_is_said():
    result = one_shot(problem(SOFTMAX, actors=10))
    found = oar.questions.credit(result, time_limit=0.0)
    assert (found.method, found.refits) == ("first-order", 1)
    found = oar.questions.credit(result, "shapley", time_limit=0.0)
    assert found.credits == pytest.approx(np.full(found.members.size, found.fall / found.members.size))
    assert (found.errors == np.inf).all()
    assert "The time was over: no order was finished" in found.note
    few = oar.questions.credit(result, "shapley", effort="quick")
    assert few.refits < 400


def test_groups_add_up():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"income": rng.normal(2, 1, 40), "home": rng.choice(["own", "rent"], 40)}, index=range(100, 140)
    )
    frame["good"] = np.where(frame["income"] + (frame["home"] == "own") + rng.normal(0, 0.5, 40) > 2.5, "yes", "no")
    people = oar.Population.from_frame(frame, "good")
    asked = oar.Problem(people, Scaled(SOFTMAX), oar.Query({"income": 1.5, "home": "rent"}, "yes"), oar.Perturb(0.7))
    result = oar.collective(asked, solver="one-shot")
    found = oar.questions.credit(result)
    for groups in ("home", "income", "good", ["home", "good"], frame["home"], frame["home"].to_numpy()):
        by = found.by(groups)
        assert by["people"].sum() == 40
        assert by["actors"].sum() == found.members.size
        assert by["effort"].sum() == pytest.approx(result.audit.effort)
        assert by["credit"].sum() == pytest.approx(found.credits.sum())
        assert by["share of credit"].sum() == pytest.approx(1)
    assert list(found.by("home").index) == ["own", "rent"]
    assert len(found.by("income")) == 4
    assert set(found.frame()["person"]) <= set(range(100, 140))
    with pytest.raises(oar.errors.OptionError, match="groups"):
        found.by("hime")
    with pytest.raises(oar.errors.DataError, match="groups: must be a column's name"):
        found.by(np.zeros(3))


def test_it_can_be_read():
    found = oar.questions.credit(one_shot(problem(SOFTMAX)))
    frame = found.frame()
    assert list(frame.columns) == ["person", "credit", "share", "error"]
    assert frame["credit"].is_monotonic_decreasing
    assert frame["share"].sum() == pytest.approx(1, rel=1e-3)
    assert "… 20 more" in str(found)
    assert repr(found).startswith("Credit(first-order: 30 members")


def test_what_cannot_be_is_refused():
    result = one_shot(problem(oar.NearestCentroid(), size=80))
    with pytest.raises(oar.errors.OptionError, match="draws: is for method='shapley'"):
        oar.questions.credit(result, "first-order", draws=10)
    with pytest.raises(oar.errors.DataError, match="refits: must be a whole number of at least 4"):
        oar.questions.credit(result, refits=1)
    with pytest.raises(oar.errors.DataError, match="draws: must be a whole number of at least 4"):
        oar.questions.credit(result, "shapley", draws=2)
    with pytest.raises(oar.errors.OptionError, match="method"):
        oar.questions.credit(result, "shapely")
    with pytest.raises(oar.errors.DataError, match="result: must be"):
        oar.questions.credit(result.plan)
    with pytest.raises(oar.errors.DataError, match="no member does anything"):
        oar.questions.credit(oar.collective(problem(oar.NearestCentroid(), budget=0.0)))
    with pytest.raises(oar.errors.DataError, match="no names of columns"):
        oar.questions.credit(result).by("age")
