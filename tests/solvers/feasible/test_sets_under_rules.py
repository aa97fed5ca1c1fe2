"""Rules and plausibility kept by every solver, proved where that is claimed, and cheats that the audit catches."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rule_tables import GRADES, frame_of, keeps, people_of, rows_of
from support.rule_tables import RULES as COMMON

import oar
from oar.actions.limits.limit import Limit, Limits
from oar.plans import MemberPlan
from oar.referee import audit
from oar.solvers import FrankWolfe, ProjectedGradient

RULES = (
    *COMMON,
    "if owns then change(income) <= 2 * change(age)",
)
FRAME = frame_of(40)
PEOPLE = people_of(FRAME)
MODEL = oar.SoftmaxRegression(0.01)


def ask(what, rules, norm, number, plausible=None, people=PEOPLE, solver="auto", budget=1.0):
    query = oar.Query(FRAME.drop(columns="label").iloc[number], "yes")
    limits = Limits({}, rules=rules, plausible=plausible)
    problem = oar.Problem(people, MODEL, query, oar.Perturb(budget, norm, limits=limits))
    return problem, getattr(oar, what)(problem, solver=solver)


@given(
    what=st.sampled_from(["collective", "individual", "joint"]),
    rules=st.lists(st.sampled_from(RULES), max_size=4, unique=True),
    norm=st.sampled_from([1, 2, np.inf]),
    number=st.integers(0, 39),
    plausible=st.sampled_from([None, oar.limits.Plausible(3, 0.5), oar.limits.Plausible(2, 0.9)]),
)
@settings(max_examples=8)
def test_rules_and_places_are_always_kept(what, rules, norm, number, plausible):
    problem, result = ask(what, rules, norm, number, plausible)
    assert not result.audit.violations
    assert result.loss <= result.audit.loss_before * (1 + 1e-6)
    plan = result.proposal.plan
    moves = np.vstack([plan.each, plan.query_move])
    before = np.vstack([problem.people.features, problem.query_features])
    rows = [rows_of(PEOPLE.encoding.decode(each)) for each in (before, before + moves)]
    for was, now in zip(*rows, strict=True):
        assert all(keeps(rule, was, now, 1e-7) for rule in rules)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_projected_gradients_keep_them_too(norm):
    _, result = ask(
        "collective", RULES[:5], norm, 3, oar.limits.Plausible(3, 0.8), solver=ProjectedGradient(max_steps=20)
    )
    assert not result.audit.violations
    assert result.audit.movers


@pytest.mark.parametrize("solver", [ProjectedGradient(max_steps=20), FrankWolfe(max_steps=20)], ids=str)
def test_tables_of_numbers_alone(solver):
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    frame["label"] = np.where(frame.sum(axis=1) + rng.normal(size=40) > 0, "yes", "no")
    people = oar.Population.from_frame(frame, "label")
    rules = ["if a > 0.5 then b <= 1", "if c < 0 then a >= b - 1", "if b >= 0 then c != 0"]
    query = oar.Query({"a": -0.5, "b": -0.5, "c": -0.3}, "yes")
    for plausible in (None, 0.8):
        limits = Limits(rules=rules, plausible=plausible)
        result = oar.joint(oar.Problem(people, MODEL, query, oar.Perturb(0.5, limits=limits)), solver=solver)
        assert not result.audit.violations
        assert result.audit.movers > 10
        assert result.loss < 0.9 * result.audit.loss_before


def tiny():
    frame = FRAME.drop(columns="income")
    return frame, oar.Population.from_frame(frame, "label")


@pytest.mark.parametrize("kind", ["l1", "l2", "l0"])
@pytest.mark.parametrize(
    "rules",
    [
        ["if job == 'full' then age >= 24", "if owns then grade != 'low'"],
        ["if grade > 'low' then owns", "if owns then job == 'none'"],
        ["if age != 22 then not owns", "if owns then grade <= 'middle'", "if job != 'none' then grade == 'low'"],
        ["if job == 'full' then age >= 22 + 2 * owns", "if owns then change(age) >= 2"],
    ],
)
def test_cheapest_against_every_row_there_is(kind, rules):
    """With whole columns alone, all rows can be listed: the proved cost is the least of those that keep the rules."""
    frame, people = tiny()
    columns = {"age": Limit(lower=20, upper=26, cost=0.7), "job": Limit(cost=0.8)}
    ready = oar.Cheapest(people, MODEL, Limits(columns, rules=rules))
    listing = pandas.DataFrame(
        list(itertools.product(range(20, 27), (False, True), GRADES, ("none", "part", "full"))),
        columns=["age", "owns", "grade", "job"],
    )
    encoding = people.encoding
    training = MODEL.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    matrix = training.matrix(fit.parameters)
    logits = encoding.encode(listing) @ matrix[:, :-1].T + matrix[:, -1]
    goal = (logits[:, 0] > 0) if logits.shape[1] == 1 else logits[:, 1] > logits[:, 0]
    spreads = {"age": FRAME["age"].std(ddof=0), "grade": FRAME["grade"].cat.codes.std(ddof=0)}
    dearer = 0
    for number in np.flatnonzero(FRAME["label"] == "no")[:6]:
        was = rows_of(frame)[number] | {"income": 0.0}
        advice = ready.of(oar.Query(frame.drop(columns="label").iloc[number], "yes"), kind)
        if advice.status == oar.results.Status.ALREADY:
            continue
        costs = []
        for row, reached in zip(rows_of(listing), goal, strict=True):
            each = [
                0.7 * abs(row["age"] - was["age"]) / spreads["age"],
                float(row["owns"] != was["owns"]),
                abs(GRADES.index(row["grade"]) - GRADES.index(was["grade"])) / spreads["grade"],
                0.8 * (row["job"] != was["job"]),
            ]
            flat = [price * (part > 0) for price, part in zip((0.7, 1.0, 1.0, 0.8), each, strict=True)]
            cost = sum(flat) if kind == "l0" else np.linalg.norm(each, 1 if kind == "l1" else 2)
            kept = all(keeps(rule, was, row | {"income": 0.0}) for rule in rules)
            costs.append((cost if reached else np.inf, kept))
        least = min((cost for cost, kept in costs if kept), default=np.inf)
        dearer += least > min(cost for cost, _ in costs) + 1e-9
        assert advice.proved
        assert not advice.violations
        if np.isinf(least):
            assert advice.status == oar.results.Status.IMPOSSIBLE
            assert any(text.startswith("rule") for text in advice.because)
        else:
            assert advice.cost == pytest.approx(least, rel=1e-6)
    assert dearer or kind == "l0"


@given(
    rules=st.lists(st.sampled_from(RULES), max_size=4, unique=True),
    number=st.integers(0, 39),
    kind=st.sampled_from(["l1", "l2", "l0"]),
    plausible=st.sampled_from([None, oar.limits.Plausible(3, 0.5), oar.limits.Plausible(2, 0.9)]),
)
@settings(max_examples=15)
def test_cheapest_keeps_rules_and_places(rules, number, kind, plausible):
    row = FRAME.drop(columns="label").iloc[number]
    advice = oar.Cheapest(PEOPLE, MODEL, Limits(rules=rules, plausible=plausible)).of(oar.Query(row, "yes"), kind)
    free = oar.Cheapest(PEOPLE, MODEL).of(oar.Query(row, "yes"), kind)
    assert not advice.violations
    assert advice.bound <= advice.cost
    assert advice.cost >= free.cost * (1 - 1e-6)
    assert advice.proved or plausible is not None
    was, now = rows_of(FRAME.iloc[[number]])[0], rows_of(advice.row)[0]
    assert all(keeps(rule, was, now, 1e-7) for rule in rules)
    if not advice.proved:
        assert "ends where nobody is near" in advice.note


def test_an_implausible_optimum_is_a_bound_of_what_is_found():
    row = FRAME.drop(columns="label").iloc[int(np.flatnonzero(FRAME["label"] == "no")[0])]
    free = oar.Cheapest(PEOPLE, MODEL).of(oar.Query(row, "yes"), "l0")
    strict = oar.Cheapest(PEOPLE, MODEL, Limits(plausible=oar.limits.Plausible(2, 0.1))).of(oar.Query(row, "yes"), "l0")
    assert strict.success
    assert not strict.proved
    assert strict.bound == pytest.approx(free.cost, rel=1e-6)
    assert strict.cost > free.cost


def test_search_keeps_them_for_models_that_are_not_linear():
    pytest.importorskip("jax")
    model = oar.models.PrototypeNetwork()
    rules, plausible = RULES[:4], oar.limits.Plausible(3, 0.8)
    ready = oar.Cheapest(PEOPLE, model, Limits(rules=rules, plausible=plausible))
    found = 0
    for number in np.flatnonzero(FRAME["label"] == "no")[:4]:
        advice = ready.of(oar.Query(FRAME.drop(columns="label").iloc[number], "yes"))
        assert not advice.violations
        found += advice.success
        was, now = rows_of(FRAME.iloc[[number]])[0], rows_of(advice.row)[0]
        assert all(keeps(rule, was, now, 1e-7) for rule in rules)
    assert found


@pytest.mark.parametrize("member", [True, False])
def test_the_audit_catches_moves_that_break_a_rule(member):
    query = oar.Query({"age": 21, "income": 15.0, "owns": False, "grade": "low", "job": "none"}, "yes")
    limits = Limits(rules=["if owns then age >= 22"])
    problem = oar.Problem(PEOPLE, MODEL, query, oar.Perturb(9.0, limits=limits))
    moves, own = np.zeros((PEOPLE.size, PEOPLE.dimensions)), np.zeros(PEOPLE.dimensions)
    someone = int(np.flatnonzero(~FRAME["owns"] & (FRAME["age"] < 22))[0])
    (moves[someone] if member else own)[2] = 1.0
    told = audit(MemberPlan(problem, own, moves))
    assert any("breaks 'if owns then age >= 22'" in text for text in told.violations)
    (moves[someone] if member else own)[0] = 2.0
    assert not audit(MemberPlan(problem, own, moves)).violations


@pytest.mark.parametrize("member", [True, False])
def test_the_audit_catches_moves_to_where_nobody_is(member):
    query = oar.Query({"age": 21, "income": 15.0, "owns": False, "grade": "low", "job": "none"}, "yes")
    problem = oar.Problem(PEOPLE, MODEL, query, oar.Perturb(99.0, limits=Limits(plausible=0.95)))
    moves, own = np.zeros((PEOPLE.size, PEOPLE.dimensions)), np.zeros(PEOPLE.dimensions)
    (moves[5] if member else own)[1] = 200.0
    told = audit(MemberPlan(problem, own, moves))
    assert any("fewer than 10 people are near" in text for text in told.violations)
    (moves[5] if member else own)[1] = 0.01
    assert not audit(MemberPlan(problem, own, moves)).violations


def test_advice_that_cheats_is_refused(monkeypatch):
    import oar.solvers.cheapest.asking as cheapest

    row = oar.Query(FRAME.drop(columns="label").iloc[int(np.flatnonzero(FRAME["label"] == "no")[1])], "yes")
    free = oar.Cheapest(PEOPLE, MODEL).of(row)
    [column] = free.changes["column"][:1]
    value = free.row[column].iloc[0]
    told = f"{value!r}" if isinstance(value, str) else f"{value}"
    limits = Limits(rules=[f"if {column} == {told} then income <= -99"], plausible=None)
    monkeypatch.setattr(cheapest, "branched", lambda space, solve, most=0: solve(dataclasses.replace(space, rules=())))
    kept = oar.Cheapest(PEOPLE, MODEL, limits).of(row)  # wider margins, and what a proof ends at, are tried first
    assert kept.success
    assert not kept.violations
    monkeypatch.setattr(oar.questions.cheapest_change, "MOST_BETTER", 0)
    monkeypatch.setattr(oar.questions.cheapest_change, "MOST_TRIALS", 1)
    refused = oar.Cheapest(PEOPLE, MODEL, limits).of(row)
    assert refused.status == oar.results.Status.REFUSED
    assert any("rule" in text for text in refused.violations)
    monkeypatch.setattr(cheapest.Space, "is_plausible", lambda space, change: True)
    row = oar.Query(FRAME.drop(columns="label").iloc[int(np.flatnonzero(FRAME["label"] == "no")[0])], "yes")
    refused = oar.Cheapest(PEOPLE, MODEL, Limits(plausible=oar.limits.Plausible(2, 0.1))).of(row, "l0")
    assert refused.status == oar.results.Status.REFUSED
    assert any("people are near" in text for text in refused.violations)
