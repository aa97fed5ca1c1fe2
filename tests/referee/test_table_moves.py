"""Plans that no solver would make: the audit says of each what it breaks. And what cannot be asked is refused."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar import models
from oar.plans import MemberPlan

MODEL = models.Scaled(models.SoftmaxRegression())
FRAME = pd.DataFrame(
    {
        "income": [1_000.5, 2_000.0, 3_000.0, 1_500.0, 2_500.0, 1_200.0],
        "debt": [100.0, 200.0, 300.0, 150.0, 250.0, 120.0],
        "age": [20, 30, 40, 50, 60, 25],
        "owner": [True, False, True, False, True, False],
        "grade": pd.Categorical(["low", "middle", "high"] * 2, categories=["low", "middle", "high"], ordered=True),
        "purpose": ["car", "home", "school", "car", "home", "school"],
        "y": ["no", "no", "yes", "yes", "yes", "no"],
    },
    index=list("abcdef"),
)
LIMITS = oar.Limits(
    {
        "income": oar.Limit(upper=4_000, step=5, unit=1_000),
        "debt": oar.Limit(immutable=True),
        "age": oar.Limit(direction="up", unit=10),
        "purpose": oar.Limit(levels=("car", "home")),
    },
    links=["change(grade) <= change(age)", "debt <= income"],
    own={"b": {"income": oar.Limit(immutable=True)}, "c": {"purpose": oar.Limit(levels=("school",))}},
)
ROW = FRAME.drop(columns="y").iloc[0]


def problem(model=MODEL, **changes) -> oar.Problem:
    action = oar.Perturb(**{"budget": 3.0, "norm": 1, "limits": LIMITS, **changes})
    return oar.Problem(oar.Population.from_frame(FRAME, "y"), model, oar.Query(ROW, "yes"), action)


def verdict(moves: dict, query: dict | None = None, model=MODEL, **changes) -> oar.results.Audit:
    asked = problem(model, **changes)
    names = list(asked.people.names)
    each, own = np.zeros((len(FRAME), len(names))), np.zeros(len(names))
    for (person, name), move in moves.items():
        each[list(FRAME.index).index(person), names.index(name)] = move
    for name, move in (query or {}).items():
        own[names.index(name)] = move
    return oar.audit(MemberPlan(asked, own, each))


@pytest.mark.parametrize("model", [MODEL, oar.NearestCentroid()])
@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ({("a", "purpose=car"): -0.5, ("a", "purpose=home"): 0.5}, "person a has a mixture of levels in 'purpose'"),
        ({("a", "purpose=car"): -1e-12, ("a", "purpose=home"): 1e-12}, "person a has a mixture"),
        ({("a", "purpose=home"): 1.0}, "person a has a mixture"),
        ({("a", "purpose=car"): -1.0}, "person a has a mixture"),
        ({("a", "purpose=car"): -1.0, ("a", "purpose=school"): 1.0}, "takes a level of 'purpose' that is not allowed"),
        ({("c", "purpose=school"): -1.0, ("c", "purpose=car"): 1.0}, "person c takes a level of 'purpose'"),
        ({("a", "age"): 3.7}, "person a has a value of 'age' that is not whole"),
        ({("a", "age"): 1e-9}, "person a has a value of 'age' that is not whole"),
        ({("a", "age"): -1.0}, "person a lowers 'age', which may only rise"),
        ({("a", "owner"): -0.5}, "'owner' that is not whole"),
        ({("a", "owner"): 1.0}, "person a puts 'owner' above 1"),
        ({("f", "grade"): 1.0, ("f", "age"): 1.0}, "person f puts 'grade' above 2"),
        ({("a", "debt"): 1e-9}, "person a changes 'debt', which is immutable"),
        ({("b", "income"): 5.0}, "person b changes 'income', which is immutable"),
        ({("a", "income"): 3.0}, "person a moves 'income' by no multiple of 5"),
        ({("c", "income"): 1_005.0}, "person c puts 'income' above 4000"),
        ({("a", "grade"): 1.0}, "person a breaks 'change(grade) <= change(age)'"),
        ({("a", "income"): -905.0}, "person a breaks 'debt <= income'"),
        ({("a", "age"): 31.0}, "person a moves at a cost of 3.1, limit 3"),
        ({("a", "age"): 20.0, ("a", "owner"): -1.0, ("a", "income"): 5.0}, "person a moves at a cost of 3.005"),
        ({("a", "income"): np.nan}, "person a moves by something that is no number"),
    ],
)
def test_the_audit_says_what_is_broken(model, moves, said):
    found = verdict(moves, model=model)
    assert said in "; ".join(found.violations)
    assert not found.success


@pytest.mark.parametrize("model", [MODEL, oar.NearestCentroid()])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200, 1e308])
@pytest.mark.parametrize("name", ["income", "age", "purpose=car"])
def test_moves_that_are_no_numbers_are_reported(model, value, name):
    for found in (verdict({("a", name): value}, model=model), verdict({}, {name: value}, model=model)):
        assert "moves by something that is no number" in found.violations[0]
        assert not found.success


def test_what_may_only_fall_does_not_rise():
    limits = {"age": oar.Limit(direction="down", unit=10)}
    assert verdict({("a", "age"): -1.0}, limits=limits).violations == ()
    assert "person a raises 'age', which may only fall" in verdict({("a", "age"): 1.0}, limits=limits).violations


@pytest.mark.parametrize(("steps", "fine"), [(2, True), (2 + 1e-9, True), (2.001, False), (2.25, False), (0.9, False)])
def test_multiples_are_whole(steps, fine):
    found = verdict({("a", "income"): 5.0 * steps}).violations
    assert found == (() if fine else ("person a moves 'income' by no multiple of 5",))


def test_who_goes_a_little_too_far_from_others_is_seen():
    """Alone, with the k-th nearest of the others just inside and just outside of what is usual."""
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.5, 4.5, 9.5], "y": ["no", "yes", "no", "yes", "no"]})
    limits = oar.Limits({"x": oar.Limit(unit=1.0)}, plausible=oar.limits.Plausible(neighbours=1, share=0.6))
    people = oar.Population.from_frame(frame, "y")
    asked = oar.Problem(people, MODEL, oar.Query({"x": 0.5}, "yes"), oar.Perturb(50.0, limits=limits))
    # Own distances are 1, 1, 1, 2 and 5: 1.4 is usual. The first goes beyond the last one, which is 9 away.
    for move, fine in ((9 + 1.39, True), (9 + 1.42, False)):
        moves = np.zeros((5, 1))
        moves[0] = move
        assert (oar.audit(MemberPlan(asked, np.zeros(1), moves)).violations == ()) is fine


def test_the_audit_says_what_the_query_breaks():
    half = {"purpose=car": -0.5, "purpose=home": 0.5}
    assert "the query has a mixture of levels in 'purpose'" in verdict({}, half).violations
    assert "the query changes 'debt', which is immutable" in verdict({}, {"debt": 1.0}).violations
    assert "the query moves at a cost of 3.1, limit 3" in verdict({}, {"age": 31.0}).violations


def test_the_audit_has_nothing_against_moves_at_the_very_edge():
    fine = {("a", "age"): 30.0, ("b", "owner"): 1.0, ("c", "income"): 1_000.0, ("f", "age"): 1.0}
    assert verdict(fine).violations == ()


def test_a_cost_just_above_the_budget_is_seen():
    spread = float(np.std(FRAME["income"]))
    for norm in (1, 2, np.inf):
        assert verdict({("a", "income"): spread * (1 + 1e-8)}, budget=1.0, limits=None, norm=norm).violations
        assert not verdict({("a", "income"): spread}, budget=1.0, limits=None, norm=norm).violations


def test_who_takes_no_part_may_not_move():
    mask = np.arange(len(FRAME)) > 0
    assert "person a moves at a cost of 0.1, limit 0" in verdict({("a", "age"): 1.0}, participants=mask).violations


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"incom": oar.Limit(lower=0)}, "Did you mean 'income'"),
        (oar.Limits(own={"a": {"incom": oar.Limit(lower=0)}}), "Did you mean 'income'"),
        ({"age": oar.Limit(step=0.5)}, "whole number"),
        ({"owner": oar.Limit(lower=1)}, "is for number, integer and ordinal columns"),
        ({"purpose": oar.Limit(levels=("cra",))}, "Did you mean 'car'"),
        ({"grade": oar.Limit(upper="hihg")}, "Did you mean 'high'"),
        (oar.Limits(links=["purpose <= 1"]), "is a category"),
        (oar.Limits({"income": oar.Limit(lower=5)}, links=["income <= 4"]), "contradict each other"),
    ],
)
def test_limits_that_do_not_fit_the_table_are_refused(limits, said):
    with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=said):
        problem(limits=limits)


@pytest.mark.parametrize("setting", ["step", "cost", "unit"])
@pytest.mark.parametrize("value", [-1, 0, np.nan, np.inf, "5", True])
def test_what_is_no_positive_number_is_refused(setting, value):
    with pytest.raises(oar.errors.DataError, match=f"{setting}: must be a finite number > 0"):
        oar.Limit(**{setting: value})


def test_limits_need_a_schema():
    people = oar.Population(FRAME[["income", "debt"]], FRAME["y"])
    with pytest.raises(oar.errors.DataError, match="limits: are for people with a schema"):
        oar.Problem(people, MODEL, oar.Query([1.0, 2.0], "yes"), oar.Perturb(1.0, limits=LIMITS))


HELD = {"income": oar.Limit(immutable=True)}


def own_names(index, *names) -> list:
    """Return whose own limits a problem of people with this index has."""
    people = oar.Population.from_frame(FRAME.set_axis(index), "y")
    action = oar.Perturb(1.0, limits=oar.Limits(own=dict.fromkeys(names, HELD)))
    return list(oar.Problem(people, MODEL, oar.Query(ROW, "yes"), action).limits.own)


@pytest.mark.parametrize(
    ("index", "names", "said"),
    [
        (["anna", "ben", "c", "d", "e", "f"], ["bne"], "own: 'bne' must be in the table's index.*Did you mean 'ben'"),
        (list("abcdef"), [3], "own: 3 must be in the table's index..*begins with 'a', 'b'"),
        (range(6), [6], "own: 6 must be in the table's index"),
        (range(6), [-1], "own: -1 must be in the table's index"),
        (list("aabcde"), ["a"], "own: 'a' must be one person of the table's index, got 2"),
        ([1, 1, 2, 3, 4, 5], ["1"], "own: '1' must be one person of the table's index, got 2"),
        ([1, 2, 3, 4, 5, 6], [2, "2"], "own: must name everybody once, got '2' too for 2"),
        (pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]]), ["a"], "must be one person of the table's index, got 3"),
    ],
)
def test_own_limits_of_nobody_are_refused_at_once(index, names, said):
    with pytest.raises(oar.errors.DataError, match=said):
        own_names(index, *names)


def test_own_limits_name_people_by_what_their_index_reads():
    assert own_names([10, 11, 12, 17, 18, 19], "17", 18) == [17, 18]
    assert own_names([17, "17", 1, 2, 3, 4], "17") == ["17"]  # the very value comes first
    assert own_names([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "2.5") == [2.5]
    days = pd.date_range("2020-01-01", periods=6)
    assert own_names(days, "2020-01-03") == [days[2]]


def test_own_limits_of_a_file_hold_for_whole_number_indices(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text("[own.17.income]\nimmutable = true\n")
    people = oar.Population.from_frame(FRAME.set_axis([11, 17, 12, 13, 14, 15]), "y")
    asked = oar.Problem(people, MODEL, oar.Query(ROW, "yes"), oar.Perturb(1.0, limits=str(path)))
    moves = np.zeros((6, people.dimensions))
    moves[1, 0] = 1.0
    assert oar.audit(MemberPlan(asked, np.zeros(people.dimensions), moves)).violations == (
        "person 17 changes 'income', which is immutable",
    )
    assert oar.collective(asked).plan.moves().loc[17, "income"] == 0


def test_a_query_outside_its_bounds_may_ask_and_goes_no_further_out():
    far = {**ROW, "income": 9_000.0}
    people = oar.Population.from_frame(FRAME, "y")
    asked = oar.Problem(people, MODEL, oar.Query(far, "yes"), problem().action)
    assert oar.individual(asked).audit.violations == ()
    nobody, further = np.zeros((people.size, people.dimensions)), np.zeros(people.dimensions)
    further[0] = 1.0
    assert any("'income'" in one for one in oar.audit(MemberPlan(asked, further, nobody)).violations)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("income", 1e200),
        ("age", 3.7),
        ("age", 2.0**53),
        ("owner", 0.5),
        ("owner", 2.0),
        ("grade", 0.5),
        ("grade", 3.0),
        ("grade", -1.0),
        ("purpose=home", 1.0),
        ("purpose=car", 0.0),
        ("purpose=car", 0.5),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, list])
def test_coordinates_that_are_nobodys_are_refused_as_a_query(name, value, kind):
    people = oar.Population.from_frame(FRAME, "y")
    point = people.vector(ROW, "query")
    assert np.array_equal(
        oar.Problem(people, MODEL, oar.Query(kind(point), "yes"), oar.Perturb(1.0)).query_features, point
    )
    point[people.names.index(name)] = value
    with pytest.raises(oar.errors.DataError, match=f"query features: must be a person.*column '{name.split('=')[0]}'"):
        oar.Problem(people, MODEL, oar.Query(kind(point), "yes"), oar.Perturb(1.0))
