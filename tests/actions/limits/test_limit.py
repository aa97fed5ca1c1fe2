"""What people may do to a table's columns: read, refused, contradicted, and turned into a region of moves."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pandas
import pytest

import oar
from oar.actions.limits.limit import Limit, Limits
from oar.actions.sets.cost_region import measure
from oar.actions.sets.norms import Norm
from oar.errors import DataError, OptionError
from oar.limits import from_actionable_recourse, from_dice
from oar.people.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("age", "integer"),
        Column("income", "number"),
        Column("owns", "boolean"),
        Column("grade", "ordinal", ("low", "middle", "high")),
        Column("purpose", "category", ("car", "education", "other")),
    )
)


def people(size=40, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 60, size),
            "income": rng.normal(2_000, 500, size),
            "owns": rng.random(size) < 0.5,
            "grade": pandas.Categorical.from_codes(rng.integers(3, size=size), ["low", "middle", "high"], ordered=True),
            "purpose": rng.choice(["car", "education", "other"], size),
            "approved": rng.choice(["yes", "no"], size),
        },
        index=[f"p{number}" for number in range(size)],
    )
    return oar.Population.from_frame(frame, "approved", schema=SCHEMA)


def measured(limits, norm=2.0, radius=1.0, members=None):
    members = members or people()
    size = members.size
    return measure(
        limits.check(SCHEMA).naming(members.index, size),
        members.encoding,
        np.asarray(members.features),
        np.full(size, 1 / size),
        np.full(size, radius),
        Norm(norm),
        members.index,
    )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"agee": Limit(immutable=True)}, "Did you mean 'age'"),
        ({"age": {"uper": 3}}, "Did you mean 'upper'"),
        ({"age": {"lower": 5, "upper": 3}}, "lower and upper: contradict"),
        ({"age": {"immutable": True, "step": 2}}, "immutable and step: contradict"),
        ({"age": {"step": 0.5}}, "whole number"),
        ({"age": {"levels": ["a"]}}, "is for category"),
        ({"purpose": {"upper": 3}}, "is for number, integer and ordinal"),
        ({"purpose": {"levels": ["cars"]}}, "Did you mean 'car'"),
        ({"grade": {"lower": "hig"}}, "Did you mean 'high'"),
        ({"age": {"direction": "upwards"}}, "must be one of 'up', 'down'"),
        ({"age": {"cost": 0}}, "cost: must be a finite number > 0"),
        ({"income": {"lower": "much"}}, "must be a finite number"),
        ({"age": 3}, r"oar.Limit\(…\)"),
    ],
)
def test_what_cannot_be_is_named(limits, message):
    with pytest.raises((DataError, OptionError), match=message):
        Limits(limits).check(SCHEMA)


@pytest.mark.parametrize(
    ("limits", "links", "pair"),
    [
        ({}, ["age <= income", "age >= income + 1"], ("age <= income", "age >= income")),
        ({"age": {"lower": 30}}, ["age <= 20"], ("age <= 20", "age lower = 30")),
        ({"grade": {"upper": "low"}}, ["grade >= 1"], ("grade >= 1", "grade upper = 'low'")),
    ],
)
def test_limits_that_contradict_each_other_are_named_as_a_pair(limits, links, pair):
    with pytest.raises(OptionError) as raised:
        Limits(limits, links=links).check(SCHEMA)
    assert all(text in str(raised.value) for text in pair)


@pytest.mark.parametrize("links", [["purpose <= 1"], ["incme <= 3"]])
def test_links_of_what_cannot_be_compared(links):
    with pytest.raises(OptionError, match=r"category|Did you mean 'income'"):
        Limits({}, links=links).check(SCHEMA)


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
def test_moves_keep_to_every_limit(norm):
    members = people()
    limits = Limits(
        {
            "age": Limit(direction="up", upper=50),
            "income": Limit(lower=1_500, upper=2_500),
            "owns": Limit(immutable=True),
            "grade": Limit(lower="middle"),
            "purpose": Limit(levels=("education",), cost=0.5),
        },
        links=["income >= 40 * age", "change(income) <= 100 * change(age)"],
        own={"p3": {"income": Limit(immutable=True)}, "p4": {"age": Limit(immutable=True)}},
    )
    found = measured(limits, norm, 2.0, members)
    before = np.asarray(members.features)
    rng = np.random.default_rng(1)
    costs = 3 * rng.normal(size=before.shape)
    moves = found.region.project(costs) / found.costs
    after = before + moves
    names = list(members.encoding.names)
    age, income, owns, grade = (after[:, names.index(name)] for name in ("age", "income", "owns", "grade"))
    was = {name: before[:, names.index(name)] for name in ("age", "income", "owns", "grade")}
    slack = 1e-6
    assert (age >= was["age"] - slack).all()
    assert (age <= np.maximum(50, was["age"]) + slack).all()
    assert (income >= np.minimum(1_500, was["income"]) - slack).all()
    assert (income <= np.maximum(2_500, was["income"]) + slack).all()
    assert (owns == was["owns"]).all()
    assert (grade >= np.minimum(1, was["grade"]) - slack).all()
    assert (grade <= 2 + slack).all()
    assert (40 * age - income <= np.maximum(40 * was["age"] - was["income"], 0) + slack).all()
    assert (income - was["income"] <= 100 * (age - was["age"]) + slack).all()
    assert income[3] == was["income"][3]
    assert age[4] == was["age"][4]
    shares = after[:, [names.index(f"purpose={level}") for level in ("car", "education", "other")]]
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-9)
    held = before[:, [names.index(f"purpose={level}") for level in ("car", "education", "other")]].argmax(axis=1)
    for level in (0, 2):
        assert (np.abs(shares[held != level, level]) <= 1e-12).all()
    assert (np.linalg.norm(moves * found.costs, ord=norm, axis=1) <= 2 + 1e-9).all()
    assert np.abs(moves).max() > 0.1


def test_costs_are_what_a_move_costs():
    members = people()
    found = measured(Limits({"income": Limit(cost=2, unit=100), "purpose": Limit(cost=3)}), 1.0, 1.0, members)
    names = list(members.encoding.names)
    spread = np.asarray(members.features)[:, 0].std()
    assert found.costs[names.index("income")] == pytest.approx(0.02)
    assert found.costs[names.index("age")] == pytest.approx(1 / spread)
    assert found.costs[names.index("owns")] == 1
    for norm in (1.0, 2.0, np.inf):
        found = measured(Limits({"purpose": Limit(cost=3)}), norm, 1.0, members)
        switch = np.zeros(len(names))
        switch[names.index("purpose=car")], switch[names.index("purpose=other")] = -1, 1
        assert np.linalg.norm(switch * found.costs, ord=norm) == pytest.approx(3)
    assert list(found.steps) == [1, 0, 1, 1, 1, 1, 1]


def test_own_limits_are_of_people_who_are_there():
    with pytest.raises(DataError, match="nobody of that name"):
        measured(Limits({}, own={"p99": {"age": Limit(immutable=True)}}))
    with pytest.raises(OptionError, match="same for everybody"):
        measured(Limits({}, own={"p3": {"age": Limit(cost=3)}}))


def test_the_words_of_other_tools():
    dice = from_dice(SCHEMA, ["age", "income", "purpose"], {"income": [1_000, 3_000], "purpose": ["car"]})
    assert dice.columns["owns"].immutable
    assert dice.columns["income"] == Limit(lower=1_000, upper=3_000)
    assert dice.columns["purpose"].levels == ("car",)
    with pytest.raises(OptionError, match="contradict each other about 'owns'"):
        from_dice(SCHEMA, ["age"], {"owns": [0, 1]})
    with pytest.raises(OptionError, match="Did you mean 'income'"):
        from_dice(SCHEMA, ["incme"])
    words = {"age": {"actionable": False}, "income": {"step_direction": 1, "lb": 0, "ub": 9_000, "step_size": 50}}
    limits = from_actionable_recourse(SCHEMA, words)
    assert limits.columns["age"].immutable
    assert limits.columns["income"] == Limit(lower=0, upper=9_000, direction="up", step=50)
    same = {"age": {"actionable": np.bool_(False)}, "income": {"actionable": True, "step_direction": np.int64(1)}}
    assert from_actionable_recourse(SCHEMA, same).columns["age"].immutable
    with pytest.raises(OptionError, match="Did you mean 'step_direction'"):
        from_actionable_recourse(SCHEMA, {"age": {"step_directoin": 1}})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"income": {"actionable": "no"}}, "actions.income actionable: must be True or False, got 'no'"),
        ({"income": {"actionable": 0}}, "actions.income actionable: must be True or False, got 0"),
        ({"income": {"step_direction": "1"}}, "step_direction: must be -1, 0 or 1, got '1'"),
        ({"income": {"step_direction": True}}, "step_direction: must be -1, 0 or 1, got True"),
        ({"income": {"step_direction": 2}}, "step_direction: must be -1, 0 or 1, got 2"),
        ({"income": {"lb": "much"}}, "actions.income lb: must be a finite number.* got 'much'"),
        ({"income": {"actionable": False, "ub": True}}, "actions.income ub: must be a finite number.* got True"),
        ({"income": {"lb": 5, "ub": 3}}, "income lower and upper: contradict"),
        ({"income": False}, "actions.income: must be a mapping"),
    ],
)
def test_another_tools_words_are_not_guessed_at(words, message):
    with pytest.raises((DataError, OptionError), match=message):
        from_actionable_recourse(SCHEMA, words)


@pytest.mark.parametrize(
    ("make", "near"),
    [
        (lambda: Limit(imutable=True), "Limit: must be one of .*, got 'imutable'. Did you mean 'immutable'"),
        (lambda: Limits(colums={}), "Did you mean 'columns'"),
        (lambda: oar.limits.Plausible(neighbors=3), "Did you mean 'neighbours'"),
    ],
)
def test_a_misspelt_setting_is_named(make, near):
    with pytest.raises(OptionError, match=near):
        make()


def test_limits_can_be_copied_and_pickled():
    limits = Limits({"age": Limit(immutable=True)}, rules=["if owns then income >= 3"], plausible=0.9)
    assert pickle.loads(pickle.dumps(limits)) == copy.deepcopy(limits) == dataclasses.replace(limits) == limits
    assert list(inspect.signature(Limit).parameters)[:2] == ["immutable", "lower"]


def test_limits_are_printed_as_a_table():
    limits = Limits(
        {
            "income": Limit(direction="up", lower=0, step=50),
            "grade": Limit(upper="middle", cost=2, unit=1),
            "purpose": Limit(levels=("car", "other"), cost=3),
            "owns": Limit(),
        },
        links="age <= income",
        rules="if owns then income >= 3",
        own={"p1": {}, "p2": {}},
        plausible=oar.limits.Plausible(5, 0.9),
    )
    assert str(limits).splitlines() == [
        "column     limit",
        "income     only up; at least 0; in steps of 50",
        "grade      at most middle; a change by 1 costs 2",
        "purpose    may become car, other; a change costs 3",
        "owns       free",
        "link       age <= income",
        "rule       if owns then income >= 3",
        "own        limits of 2 people",
        "plausible  as near to 5 others as 90 % of the people",
    ]
    assert "Limit(" in repr(limits)


def test_a_query_outside_bounds_is_taken_as_it_is_whoever_states_them():
    row = {"age": 30, "income": 2_000.0, "owns": True, "grade": "high", "purpose": "car"}
    for limits in ({"grade": Limit(upper="middle")}, {"income": {"lower": 3_000}}):
        problem = oar.Problem(people(), oar.SoftmaxRegression(), oar.Query(row, "yes"), oar.Perturb(1.0, limits=limits))
        assert not oar.individual(problem).audit.violations


def test_limits_from_a_file(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text(
        'links = ["income >= 40 * age"]\n\n[columns.age]\nimmutable = true\n\n[columns.purpose]\nlevels = ["car"]\n\n'
        "[own.p3.income]\nupper = 1500\n"
    )
    limits = Limits.load(path)
    assert limits.columns["age"].immutable
    assert limits.own["p3"]["income"] == Limit(upper=1500)
    assert limits.links == ("income >= 40 * age",)
    limits.check(SCHEMA)
    path.write_text("[colums.age]\nimmutable = true\n")
    with pytest.raises(OptionError, match="Did you mean 'columns'"):
        Limits.load(path)
    for key, said in (("income", "income"), ('"my income"', '"my income"')):
        path.write_text(f"[{key}]\nimmutable = true\n")
        with pytest.raises(OptionError, match=rf"is said in \[columns\.{said}\]"):
            Limits.load(path)


HUGE = "9" * 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1e308 * income <= 1e308 * age", "links: factors must be between 1e-30 and 1e\\+30, got 1e\\+308"),
        ("1e308 * 10 * income <= age", "factors must be .*, got inf"),
        ("income / 1e-320 <= 5", "factors must be .*, got inf"),
        ("0 * 1e400 * income <= 3", "factors must be .*, got nan"),
        ("change(income) * 1e200 <= change(age)", "factors must be .*, got 1e\\+200"),
        ("1e-320 * income <= age", "factors must be .*, got 9.99989e-321"),
        ("income <= 1e400", "links: numbers must be at most 1e\\+100, .*, got -inf"),
        (f"income <= {HUGE}", "links: numbers must be at most 1e\\+100, .*, got -inf"),
        (f"income <= age + {HUGE * 20}", "links: must be a comparison.*Exceeds the limit"),
        ("-" * 2_000 + "income <= age", "links: must be (shorter|a comparison)"),
        ("income <= age\0", "links: must be a comparison.*null bytes"),
    ],
)
def test_numbers_that_overflow_are_refused(text, message):
    with pytest.raises(OptionError, match=message) as caught:
        Limits(links=[text])
    assert len(str(caught.value)) < 500
    with pytest.raises(OptionError):
        Limits(rules=[f"if owns then {text}"]).check(SCHEMA)


def test_the_largest_factors_are_fine():
    region = measured(Limits(links=["1e30 * income <= 1e30 * age", "1e-30 * income <= 1e-30 * age"])).region
    assert np.isfinite(region.links).all()
    assert np.isfinite(region.room).all()


@pytest.mark.parametrize("value", [1e308, 1e-308, 10**400, 10**5_000], ids=range(4))
def test_costs_and_bounds_that_overflow_are_refused(value):
    for setting in ("cost", "unit", "step"):
        with pytest.raises(
            DataError, match=f"{setting}: must (be a finite number > 0, from 1e-30 to 1e\\+30, got|not be beyond)"
        ):
            Limit(**{setting: value})
    if value > 1:
        with pytest.raises(DataError, match="upper: must (be a finite number, of at most 1e\\+100, got|not be beyond)"):
            Limits({"income": Limit(upper=value)}).check(SCHEMA)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"links": ["change(age) <= -2"]}, "must let people stay as they are"),
        ({"columns": {"age": Limit(immutable=True)}, "links": ["change(age) >= 1"]}, "must let people stay"),
        ({"links": ["age >= 30.2", "age <= 30.8"]}, "'age >= 30.2' and 'age <= 30.8' contradict each other"),
        ({"links": ["age >= 50"], "own": {"p3": {"age": Limit(upper=40)}, "p4": {"age": Limit(upper=60)}}},
         "'own.p3.age upper = 40' and 'age >= 50' contradict each other"),
        ({"own": {"p3": {"age": Limit(step=3)}}}, "own.p3.age step: is the same for everybody"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_by_name(limits, said):
    with pytest.raises(OptionError) as caught:
        Limits(**limits).check(SCHEMA)
    assert said in str(caught.value)


def test_other_tools_words_are_not_guessed_at(tmp_path):
    with pytest.raises(DataError, match="must be a list"):
        from_dice(SCHEMA, "all", {"purpose": "car"})
    with pytest.raises(OptionError, match="income"):
        from_dice(SCHEMA, "all", {"income": [3_000, 1_000]})
    with pytest.raises(DataError, match="links: must be a list"):
        Limits(links=3)
    (tmp_path / "limits.toml").write_text("links = 3")
    with pytest.raises(DataError, match="links: must be a list"):
        Limits.load(tmp_path / "limits.toml")


def test_bounds_of_numpy_are_told_as_users_write_them():
    assert repr(Limit(lower=np.float64(1.5), upper=np.int64(3))) == repr(Limit(lower=1.5, upper=3))


@pytest.mark.parametrize("seed", range(6))
def test_two_bounds_of_a_column_contradict_each_other_where_a_programme_says_so(seed):
    """Against HiGHS, which takes every pair of columns."""
    from scipy.optimize import linprog

    from oar.actions.limits.limit import _both_possible

    rng = np.random.default_rng(seed)
    for _ in range(20):
        kind = str(rng.choice(["number", "integer"]))
        column = Column("c", kind)
        said = [("", {"c": float(rng.choice([-1, 1, -0.5, 3]))}, float(rng.integers(-6, 7)) / 2) for _ in range(2)]
        rows, rights = [[each[1]["c"]] for each in said], [-each[2] for each in said]
        whole = np.array([int(column.whole)])
        found = linprog([0.0], A_ub=rows, b_ub=rights, bounds=[column.span], integrality=whole, method="highs")
        assert _both_possible(said[0], said[1], {"c": column}) == (found.status != 2)
