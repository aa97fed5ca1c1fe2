"""If-then rules: read, refused, contradicted, evaluated, and turned into regions that keep them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
from support.rule_tables import GRADES, SCHEMA, frame_of, keeps, people_of, rows_of
from support.rule_tables import RULES as COMMON

import oar
from oar.actions.limits.limit import Limits
from oar.actions.limits.rules import Comparison, parse_rule
from oar.actions.sets.cost_region import measure
from oar.actions.sets.norms import Norm
from oar.errors import DataError, OptionError
from oar.solvers.discrete.integer_moves import Lattice

RULES = (
    *COMMON,
    "if grade == 'high' then income != 20",
    "if 21 <= age < 24 then not owns",
)


def test_what_a_rule_says():
    rule = parse_rule("if `job type` == 'then what' and 3 < age then income == -2.5")
    assert rule.conditions == (Comparison("job type", "==", "then what"), Comparison("age", ">", 3))
    assert rule.consequence == Comparison("income", "==", -2.5)
    assert rule.names == {"job type", "age", "income"}
    assert len(parse_rule("if owns then income == 2 * `old rent`").consequence) == 2
    assert Limits(rules="if owns then age >= 22").rules == ("if owns then age >= 22",)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("if jobb == 'none' then income <= 3", "Did you mean 'job'"),
        ("if job == 'nome' then income <= 3", "Did you mean 'none'"),
        ("if grade > 'hihg' then income <= 3", "Did you mean 'high'"),
        ("if owns then incme <= 3 * age", "Did you mean 'income'"),
        ("if job < 'none' then income <= 3", "levels have no order.*use|compare with == or !="),
        ("if job == none then income <= 3", "levels are put between quotes"),
        ("if owns == 3 then income <= 3", "compare with True or False"),
        ("if income == 'much' then owns", "compare with a finite number"),
        ("if age == 2.5 then owns", "whole values"),
        ("if income then owns", "is a number, got True"),
        ("job == 'none' then income <= 3", "must be written 'if … then …'"),
        ("if job == 'none', income <= 3", "must be written 'if … then …'"),
        ("if job == then income <= 3", "invalid syntax"),
        ("if owns or age > 3 then income <= 3", "joined by and"),
        ("if owns then income < 2 * age", "includes its edge"),
        ("if owns then income * age <= 3", "linear"),
        ("if owns then job + age <= 3", "is a category"),
        (3, "must be text such as"),
    ],
)
def test_what_cannot_be_is_named(rule, message):
    with pytest.raises((DataError, OptionError), match=message):
        Limits(rules=[rule]).check(SCHEMA)


def test_consequences_that_negate_too_much_have_one_message():
    for wrong in ("not not a", "not not not a", "not 3", "not (a and b)", "not (a <= b)"):
        with pytest.raises(
            OptionError, match=r"the consequence must .* or be a link of columns that includes its edge"
        ):
            Limits(rules=[f"if a > 1 then {wrong}"])


def test_rules_are_a_list():
    with pytest.raises(DataError, match="must be a list of texts"):
        Limits(rules={"if owns": "age > 3"})
    with pytest.raises(DataError, match="must be a list of texts"):
        Limits(rules=3)


@pytest.mark.parametrize(
    ("columns", "rule", "pair"),
    [
        ({"income": {"lower": 30}}, "if owns then income <= 20", "income lower = 30"),
        ({"grade": {"upper": "low"}}, "if owns then grade > 'low'", "grade upper = 'low'"),
        ({"income": {"upper": 5}}, "if owns then income >= 10 + 2", "income upper = 5"),
    ],
)
def test_a_rule_that_contradicts_a_bound_is_named_as_a_pair(columns, rule, pair):
    with pytest.raises(OptionError) as raised:
        Limits(columns, rules=[rule]).check(SCHEMA)
    assert pair in str(raised.value)
    assert rule in str(raised.value)
    Limits({"income": {"lower": 10, "upper": 30}}, rules=["if owns then income != 20"]).check(SCHEMA)


def test_rules_and_plausibility_from_a_file(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text(
        "rules = [\"if job == 'none' then income <= 18\"]\n\n[plausible]\nneighbours = 4\nshare = 0.9\n"
        "[columns.age]\nimmutable = true\n"
    )
    limits = Limits.load(path)
    assert limits.rules == ("if job == 'none' then income <= 18",)
    assert limits.plausible == oar.limits.Plausible(4, 0.9)
    path.write_text("plausible = 0.8\n")
    assert Limits.load(path).plausible == oar.limits.Plausible(10, 0.8)


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_judged_as_the_text_reads(rule):
    """Every row of a grid, from every row of a table: the package and Python agree."""
    people, frame = people_of(frame_of(5)), frame_of(5)
    [ruled] = Limits(rules=[rule]).ruled(SCHEMA)
    grid = pandas.DataFrame(
        list(
            itertools.product(
                (20, 22, 23, 24), (17.0, 18.0, 20.0, 21.0), (False, True), GRADES, ("none", "part", "full")
            )
        ),
        columns=SCHEMA.names,
    )
    after = people.encoding.encode(grid)
    for before, was in zip(np.asarray(people.features), rows_of(frame), strict=True):
        got = ruled.kept(people.encoding, np.repeat(before[None], len(after), axis=0), after)
        assert got.tolist() == [keeps(rule, was, row) for row in rows_of(grid)]
        assert ruled.kept(people.encoding, before[None], before[None]).all()


def measured(people, rules, norm, radius=1.5, columns=None):
    size = people.size
    return measure(
        Limits(columns or {}, rules=rules).check(SCHEMA),
        people.encoding,
        np.asarray(people.features),
        np.full(size, 1 / size),
        np.full(size, radius),
        Norm(norm),
    )


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
def test_regions_hold_staying_and_keep_every_rule(norm):
    frame = frame_of(60)
    people = people_of(frame)
    still = {name: {"immutable": True} for name in ("age", "owns", "grade", "job")}
    found = measured(people, RULES, norm, columns=still)
    before = np.asarray(people.features)
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(found.region.project(np.zeros_like(before)), 0)
    moved = 0
    for _ in range(5):
        # Along the numbers alone, so that what the region allows is a row of the table.
        aim = np.where(found.steps > 0, 0.0, 3 * rng.normal(size=before.shape))
        moves = found.region.project(aim) / found.costs
        assert (moves[:, found.steps > 0] == 0).all()
        moved += (np.abs(moves) > 1e-3).any(axis=1).sum()
        after = rows_of(people.encoding.decode(before + moves))
        for was, now in zip(rows_of(frame), after, strict=True):
            assert all(keeps(rule, was, now, 1e-7) for rule in RULES)
    assert moved > 50


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
def test_whole_moves_that_fit_are_those_that_keep_rules(norm):
    """All rows that whole moves reach from each of a few people, one by one, against the oracle."""
    frame = frame_of(6, seed=3)
    people = people_of(frame)
    whole = Lattice(measured(people, RULES, norm, 100.0))  # a budget that binds nobody
    before, costs = np.asarray(people.features), whole.measured.costs
    refused = 0
    grid = itertools.product((20, 22, 23, 24), (False, True), GRADES, ("none", "part", "full"))
    for age, owns, grade, job in grid:
        rows = frame.drop(columns="label").assign(age=age, owns=owns, job=job)
        rows["grade"] = pandas.Categorical([grade] * len(rows), list(GRADES), ordered=True)
        moves = (people.encoding.encode(rows) - before) * costs
        wanted = [
            all(keeps(rule, was, now, 1e-9) for rule in RULES)
            for was, now in zip(rows_of(frame), rows_of(rows), strict=True)
        ]
        assert whole.fits(moves).tolist() == wanted
        refused += wanted.count(False)
        repaired = whole.repaired(moves)
        again = whole.repaired(repaired)
        np.testing.assert_array_equal(repaired[whole.fits(repaired)], again[whole.fits(repaired)])
    assert refused
