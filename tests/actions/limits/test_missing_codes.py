"""Numbers that stand for a missing value: found where they stand apart, kept by whoever has them, nobody's aim."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from support.applicants import LATE, TARGET, applicants

import oar
from oar import Limit, Limits
from oar.actions.limits.missing_codes import codes
from oar.actions.limits.observed import drafted, told

SIZE = 2_000


def mixed(values, code, share=0.06, seed=1):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(values)) < share, code, values)


def columns(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "income": np.exp(rng.normal(8, 0.8, SIZE)).round(),
        "amount": rng.gamma(2, 2, SIZE),
        "degrees": rng.normal(5, 12, SIZE),
        "count": rng.poisson(1.0, SIZE).astype(float),
        "share": rng.random(SIZE),
        "flag": (rng.random(SIZE) < 0.5).astype(float),
        "nothing": np.zeros(SIZE),
    }


@pytest.mark.parametrize(
    ("column", "code", "share"),
    [
        ("income", -999, 0.06),
        ("income", -1, 0.01),
        ("income", 999_999, 0.06),
        ("income", 2_147_483_647, 0.06),
        ("amount", -9999.0, 0.01),
        ("amount", -9, 0.06),
        ("degrees", -999, 0.06),
        ("degrees", 99, 0.06),
        ("count", 98, 0.006),
        ("count", 99, 0.06),
        ("count", -1, 0.06),
        ("share", -1, 0.06),
        ("flag", 9, 0.06),
        ("flag", 99, 0.06),
        ("nothing", -999, 0.06),
    ],
)
def test_a_code_is_found(column, code, share):
    assert codes(mixed(columns()[column], code, share)) == (code,)


def test_several_codes_are_found_and_a_rare_one_is_named_with_its_like():
    counts = columns()["count"]
    assert codes(mixed(mixed(counts, -9), 99, seed=2)) == (-9, 99)
    assert codes(mixed(mixed(columns()["income"], -8), -9, seed=2)) == (-9, -8)
    rare = mixed(counts, 98, 0.01)
    rare[0] = 96  # one person's
    assert codes(rare) == (96, 97, 98, 99)


def _legitimate():
    rng = np.random.default_rng(0)
    hours = np.minimum(rng.normal(42, 14, SIZE).round().clip(1), 99)
    return {
        **columns(),
        "two sides": rng.choice([-1.0, 1.0], SIZE),
        "three": rng.integers(-1, 2, SIZE).astype(float),
        "grades": rng.integers(1, 10, SIZE).astype(float),
        "changes": rng.integers(-5, 6, SIZE).astype(float),
        "skewed changes": rng.poisson(3, SIZE) - 2.0,
        "hours, at most 99": hours,
        "per cent": rng.integers(0, 101, SIZE).astype(float),
        "prices": rng.choice([99.0, 199, 299, 499, 999], SIZE, p=[0.3, 0.3, 0.2, 0.15, 0.05]),
        "a score, at most 999": np.minimum(rng.normal(600, 150, SIZE).round(), 999),
        "heavy tail": np.exp(rng.normal(0, 3, SIZE)),
        "heavy tail of counts": np.floor(10 * rng.pareto(1, SIZE)),
        "zipf": rng.zipf(1.5, SIZE).clip(0, 10**6).astype(float),
        "utilisation": applicants(SIZE)["RevolvingUtilizationOfUnsecuredLines"].to_numpy(),
        "0 or 99": rng.choice([0.0, 99.0], SIZE),
        "losses": rng.normal(0, 1000, SIZE).round(),
    }


@pytest.mark.parametrize("name", _legitimate())
def test_a_legitimate_value_is_no_code(name):
    assert codes(_legitimate()[name]) == ()


def frame(code=-999):
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"income": columns()["income"][:400], "debt": rng.gamma(2, 1, 400)})
    score = np.log(found["income"]) - 8 - (found["debt"] - 2) / 2
    found["income"] = mixed(found["income"], code)
    found["y"] = np.where(score + rng.normal(0, 0.5, 400) > 0, "yes", "no")
    return found


def test_who_has_a_code_keeps_it_and_nobody_is_sent_there():
    table = frame()
    people = oar.Population.from_frame(table, "y")
    limits = Limits.observed(people)
    assert limits.columns["income"].missing == (-999,)
    assert limits.columns["income"].lower > 0
    assert "codes for a missing value stay as they are (income -999)" in told(limits, people.schema)
    assert "missing = [-999]" in drafted(people)
    someone = table[table["y"] == "no"].drop(columns="y").iloc[0]
    model = oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1))
    problem = oar.Problem(people, model, oar.Query(someone, "yes"), oar.Perturb(1.0, norm=1, limits=limits))
    result = oar.collective(problem)
    after, coded = result.plan.table()["income"], table["income"] == -999
    assert (after[coded] == -999).all()
    assert (after[~coded] > 0).all()
    assert (after[~coded] != table["income"][~coded]).any()
    assert result.audit.violations == ()


def test_an_audit_tells_of_a_code_that_was_changed():
    table = frame()
    people = oar.Population.from_frame(table, "y")
    model = oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1))
    query = oar.Query(table.drop(columns="y").iloc[0], "yes")
    problem = oar.Problem(people, model, query, oar.Perturb(9.0, norm=1, limits=Limits.observed(people)))
    who = int(np.flatnonzero(table["income"] == -999)[0])
    moves = pd.DataFrame({"person": [who], "column": ["income"], "before": [-999], "after": [1000]})
    found = oar.audit(problem, moves)
    assert any("changes 'income', where it stands for a missing value" in each for each in found.violations)


def test_cards_tell_members_the_same(tmp_path):
    table = frame()
    people = oar.Population.from_frame(table, "y")
    model = oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1))
    rows = table.drop(columns="y")
    limits = Limits.observed(people)
    refused = oar.collective(
        oar.Problem(people, model, oar.Query(rows[table["y"] == "no"].iloc[0], "yes"), oar.Perturb(1.0, limits=limits))
    )
    refused.plan.card().save(tmp_path / "plan.json")
    card = oar.results.Card.load(tmp_path / "plan.json")
    mine = {"income": -999, "debt": 2.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the card names the code, so it is expected
        assert card.respond(mine, "no").after["income"] == -999
    assert card.doubts(mine | {"income": -998}) == [
        "income is -998, and between 0 and 30,000 is expected; is this right?"
    ]
    assert card.respond(mine | {"income": 3000}, "no").after["income"] != 3000


def test_codes_can_be_set_and_lifted():
    people = oar.Population.from_frame(frame(), "y")
    assert Limits.observed(people, {"income": Limit(lower=0)}).columns["income"].missing is None
    assert str(Limit(lower=0, missing=[-5, -6])) == "at least 0; stays where it is -5 or -6"
    for wrong, words in ((5, "must be a list"), (["x"], "must be a finite number")):
        with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=words):
            Limits({"income": Limit(missing=wrong)}).check(people.schema)


@pytest.mark.parametrize("extreme", [0.02, 0.05])
def test_applicants_stay_where_an_appreciable_share_of_them_is(extreme):
    table = applicants(20_000, extreme=extreme).drop(columns=TARGET)
    found = Limits.observed(table.fillna(table.median())).columns
    used = found["RevolvingUtilizationOfUnsecuredLines"]
    assert used.lower == 0
    assert 1 <= used.upper < 1.5
    assert used.unit < 0.5
    assert 1 < found["DebtRatio"].upper < 10
    assert 10_000 < found["MonthlyIncome"].upper < 40_000
    assert found["MonthlyIncome"].missing is None
    for number, name in enumerate(LATE):
        assert found[name].immutable  # what has happened, codes and all
        plain = Limits.observed(table[[name]].rename(columns={name: f"x{number}"})).columns[f"x{number}"]
        assert 98 in plain.missing
        assert plain.lower == 0
        assert 1 <= plain.upper <= 13
    assert found["age"].immutable


@pytest.mark.parametrize("holders", [1, 3])
def test_a_code_that_few_have_is_one_all_the_same_and_does_not_tell_on_them(holders):
    married = np.array([0.0] * 150 + [1.0] * 147 + [9.0] * holders)
    found = codes(married)
    assert 9.0 in found
    assert len(found) > 1  # named with its like
