"""Limits read off the data, merged with one's own, drafted as a file, and plans that leave the range without them."""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oar
from oar import Limit, Limits
from oar.actions.limits.observed import TAIL, drafted, told
from oar.actions.limits.round_steps import bound_step
from oar.tolerances import FEW_PEOPLE


def table(size=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "utilisation": np.where(rng.random(size) < 0.003, 5000.0, rng.beta(1, 2, size)),
            "late": np.where(rng.random(size) < 0.004, 98, rng.poisson(0.5, size)),
            "ratio": rng.random(size),
            "change": rng.normal(0, 1, size),
            "day": rng.choice([20230105, 20231231, 20240229], size),
            "age": rng.integers(20, 80, size),
            "owner": rng.random(size) < 0.5,
            "purpose": rng.choice(["car", "home"], size),
        }
    )
    score = 2 * frame["ratio"] - frame["late"].clip(0, 4) / 2 + frame["change"] / 2
    frame["y"] = np.where(score + rng.normal(0, 0.5, size) > 0.7, "yes", "no")
    return frame


def people(**options):
    return oar.Population.from_frame(table(**options), "y")


def test_numbers_stay_within_what_nearly_everyone_has():
    found = Limits.observed(people())
    assert found.columns["utilisation"].lower >= 0
    assert found.columns["utilisation"].upper <= 1
    late = found.columns["late"]
    assert late == Limit(lower=0, upper=late.upper, unit=late.unit, missing=(98, 99))  # the two or three who have 98
    assert late.upper < 10
    assert 0 <= found.columns["ratio"].lower < 0.02 < 0.98 < found.columns["ratio"].upper <= 1
    assert found.columns["ratio"].unit is None  # no tail: a standard deviation costs 1, as always
    assert found.columns["day"].immutable
    assert found.columns["age"].immutable
    assert found.columns["owner"] == found.columns["purpose"] == Limit(immutable=True)
    assert found.flags == ("owner", "purpose")
    assert set(found.as_observed) == set(found.columns)


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=120),
    st.sampled_from(["number", "integer"]),
)
@example([0.0, -1.0, -999996.0], "number")
def test_bounds_are_observed_and_on_steps_that_are_nobodys(values, kind):
    frame = pd.DataFrame({"x": np.array(values) if kind == "number" else np.rint(values)})
    schema = oar.Schema((oar.people.Column("x", kind),))
    limit = Limits.observed(frame, schema=schema).columns["x"]
    if limit.immutable:
        return
    numbers = np.sort(frame["x"].to_numpy())
    numbers = numbers[~np.isin(numbers, limit.missing or ())]  # codes for a missing value are no numbers to go to
    size = len(numbers)
    step = bound_step(numbers, kind == "integer")
    assert limit.lower <= limit.upper
    for bound in (limit.lower, limit.upper):
        multiple = bound / step if step else 0.0
        assert abs(multiple - round(multiple)) < 1e-6 or bound == 1 or limit.lower == limit.upper
    inwards = numbers[0] <= limit.lower and limit.upper <= numbers[-1]
    assert inwards or (numbers[0] - step <= limit.lower and limit.upper <= numbers[-1] + step)
    aside = max(1, min(max(FEW_PEOPLE, int(np.ceil(TAIL * size))), size // 10))
    assert (numbers <= limit.lower + step).sum() >= aside  # people are there, or further out
    assert (numbers >= limit.upper - step).sum() >= aside
    assert ((numbers >= limit.lower) & (numbers <= limit.upper)).sum() >= size / 8
    if kind == "integer":
        assert isinstance(limit.lower, int)
        assert isinstance(limit.upper, int)


def test_a_bound_tells_of_a_person_that_it_is_one_of_few_and_not_its_value():
    """Whoever's leaving moves a bound is one of at least five, and steps are too wide to say where it is among them."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        size = int(rng.choice([100, 150, 300, 1000]))
        draws = (rng.uniform(0, 1, size), rng.lognormal(10, 0.5, size), rng.normal(38, 6, size))
        for values in draws:
            limit = Limits.observed(pd.DataFrame({"x": values})).columns["x"]
            for name, outwards in (("lower", -1), ("upper", 1)):
                bound = getattr(limit, name)
                assert bound not in values
                assert bound_step(np.sort(values), False) >= 0.05 * values.std()
                at = np.argsort(-outwards * values)[:15]
                moved = [
                    getattr(Limits.observed(pd.DataFrame({"x": np.delete(values, one)})).columns["x"], name) != bound
                    for one in at
                ]
                assert sum(moved) == 0 or sum(moved) >= FEW_PEOPLE


def test_numbers_on_a_grid_change_in_steps_that_keep_them_there():
    rng = np.random.default_rng(0)
    grids = {"cents": rng.normal(2500, 600, 100).round(2), "rooms": rng.choice([1, 1.5, 3], 100)}
    grids |= {"rate": rng.choice(np.arange(1, 40) / 20, 100), "share": rng.random(100).round(4)}
    frame = pd.DataFrame(grids | {"any": rng.random(100), "huge": 1e17 * rng.random(100), "whole": np.arange(100) % 7})
    found = Limits.observed(frame).columns
    steps = {name: limit.step for name, limit in found.items() if limit.step}
    assert steps == {"cents": 10.0, "rooms": 0.5, "rate": 0.05, "share": 0.005}
    assert "changes are multiples of 0.5\n[columns.rooms]" in drafted(frame)
    assert not any(limit.step for limit in Limits.observed(frame.head(40)).columns.values())  # of few it shows nothing


def test_ones_own_columns_win_and_the_rest_is_kept():
    own = Limits({"ratio": Limit(lower=0.5), "late": Limit()}, links=["change <= 3 * ratio"], plausible=0.9)
    found = Limits.observed(people(), own)
    assert found.columns["ratio"] == Limit(lower=0.5)
    assert found.columns["late"] == Limit()
    assert "ratio" not in found.as_observed
    assert found.columns["utilisation"].upper <= 1
    assert (found.links, found.plausible) == (own.links, own.plausible)
    with pytest.raises(oar.errors.OptionError, match="Did you mean 'ratio'"):
        Limits.observed(people(), {"rati": Limit(lower=0)})


def test_an_observed_range_gives_way_to_a_link_or_a_rule():
    found = Limits.observed(people(), Limits(links=["utilisation >= 7"]))
    assert "utilisation" not in found.columns
    assert "ratio" in found.columns
    rules = Limits(rules=["if owner then late >= 50"])
    assert "late" not in Limits.observed(people(), rules).columns


def test_a_plan_keeps_to_them_and_warns_without():
    group, query = people(), oar.Query(table().drop(columns="y").iloc[1], "yes")
    model = oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1))
    free, kept = (
        oar.collective(oar.Problem(group, model, query, oar.Perturb(3.0, norm=1, limits=limits)))
        for limits in (None, Limits.observed(group))
    )
    assert len(free.warnings) == 1
    assert "'late' goes to -" in free.warnings[0]
    assert "(observed: 0 to 98)" in free.warnings[0]
    assert free.warnings[0] in free.explanation
    assert kept.warnings == ()
    after, before = kept.plan.table(), table().drop(columns="y")
    moved = (after != before).any()
    assert moved["late"] or moved["ratio"] or moved["change"]
    assert not moved[["owner", "purpose"]].any()
    assert (after["late"] >= 0).all()
    for name in ("utilisation", "late", "ratio", "change"):
        assert after[name].min() >= before[name].min()
        assert after[name].max() <= before[name].max()
    assert (after["age"] == before["age"]).all()
    assert kept.audit.violations == ()


def test_plain_features_are_warned_about_too():
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(0, 1, (60, 2)))
    labels = (features[:, 0] > 0.7).astype(int)
    group = oar.Population(features, labels)
    far, near = (
        oar.collective(oar.Problem(group, oar.NearestCentroid(), oar.Query(features[0], 1), oar.Perturb(budget)))
        for budget in (9.0, 1e-4)
    )
    assert "'feature 0' goes to" in far.warnings[0]
    assert near.warnings == ()


def test_a_query_outside_what_was_observed_may_ask():
    someone = table().drop(columns="y").iloc[0].to_dict() | {"utilisation": 9000.0, "late": 300}
    model = oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1))
    group = people()
    limits = Limits.observed(group)
    problem = oar.Problem(group, model, oar.Query(someone, "yes"), oar.Perturb(0.5, norm=1, limits=limits))
    assert oar.collective(problem).audit.violations == ()
    row = oar.cheapest(group, model, oar.Query(someone, "yes"), limits)
    assert not row.success or row.row["late"].iloc[0] <= 300
    stated = oar.Perturb(0.5, limits={"late": limits.columns["late"]})  # limits of one's own treat it alike
    alike = oar.individual(oar.Problem(group, model, oar.Query(someone, "yes"), stated))
    assert alike.audit.violations == ()


def test_the_draft_is_read_as_it_is(tmp_path):
    text = drafted(people())
    (tmp_path / "limits.toml").write_text(text)
    read = Limits.load(tmp_path / "limits.toml")
    seen = Limits.observed(people())
    assert {name: limit for name, limit in read.columns.items() if name in seen.columns} == dict(seen.columns)
    assert set(tomllib.loads(text)["columns"]) == set(table().columns) - {"y"}
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    assert len(comments) == 4 + 8
    late = "late: integer, whole, and not negative; observed: 0 to 5; 2 people have 98 or 99"
    assert any(late in line for line in comments)
    with pytest.raises(oar.errors.DataError, match="plain features"):
        Limits.observed(oar.Population([[0.0], [1.0]], [0, 1]))


def test_a_lower_bound_near_0_is_not_rounded_to_the_digits_of_a_long_tail():
    """Ratios of which a fifth are in the thousands: most people must not find themselves below the bound."""
    rng = np.random.default_rng(0)
    ratios = np.concatenate([np.exp(rng.normal(-1, 1, 800)), rng.integers(1, 10_000, 200)])
    limit = Limits.observed(pd.DataFrame({"ratio": ratios})).columns["ratio"]
    assert 0 <= limit.lower <= np.quantile(ratios, 0.01)
    assert np.quantile(ratios, 0.7) <= limit.upper < 10  # and nobody is sent into the thousands, where a few are strewn
    assert limit.unit < 2
    mirrored = Limits.observed(pd.DataFrame({"ratio": -ratios})).columns["ratio"]
    assert (mirrored.lower, mirrored.upper) == (-limit.upper, -limit.lower)


def test_codes_dates_and_what_nobody_chooses_stay_as_they_are():
    rng = np.random.default_rng(0)
    ends = {"ZipCode": 99_999, "phone": 10**7, "ssn_last4": 9_999, "Alter": 90, "DateOfBirth": 99}
    numbers = {name: rng.integers(0, end, 60) for name, end in ends.items()} | {
        "opened": 201_500 + rng.integers(1, 13, 60)
    }
    amounts = {name: rng.integers(0, 500, 60) for name in ("phone_bill", "average", "postage", "area")}
    found = Limits.observed(pd.DataFrame(numbers | amounts)).columns
    assert [name for name, limit in found.items() if limit.immutable] == list(numbers)


def test_moments_and_numbers_of_people_stay_as_they_are():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "opened": rng.integers(1_000_000_000, 1_600_000_000, 300),  # seconds since 1970
            "contact": rng.integers(6_000_000_000, 6_999_999_999, 300),
            "fortune": 1_000 * rng.integers(200_000, 900_000, 300),  # an amount
        }
    )
    limits = Limits.observed(table)
    assert limits.columns["opened"].immutable
    assert limits.columns["contact"].immutable
    assert not limits.columns["fortune"].immutable


STAY = (
    *("dependants", "NumberOfDependents", "num_dependents", "children", "CNT_CHILDREN", "n_kids", "household_size"),
    *("household members", "people_in_household", "CNT_FAM_MEMBERS", "marital-status", "MaritalStatus", "religion"),
    *("citizenship", "native-country", "Kinder", "Anzahl_Kinder", "Haushaltsgröße", "Familienstand", "enfants"),
    *(
        "personnes_à_charge",
        "nb_personnes_a_charge",
        "état civil",
        "etat_civil",
        "hijos",
        "dependientes",
        "estado_civil",
    ),
    *(
        "figli",
        "familiari_a_carico",
        "stato_civile",
        "età",
        "âge",
        "filhos",
        "dependentes",
        "kinderen",
        "gezinsgrootte",
    ),
    *("burgerlijke staat", "months_since_last_claim", "YearsSinceLastPromotion", "tenure", "YearsAtCompany"),
    *("days_employed", "years of experience", "residence_since"),
    *(
        "female",
        "is_female",
        "white",
        "pct_black",
        "muslim",
        "foreigner",
        "country",
        "countryOfOrigin",
        "mother_tongue",
    ),
    *("language", "skin_color", "EyeColour", "color_of_hair", "height", "body_weight", "IQScore", "shoe size", "sex1"),
    *("Pregnancies", "siblings", "retired", "yob", "birthyear", "agegroup", "AgeCat", "Herkunft", "Körpergröße"),
    *("pays_origine", "idioma", "altezza", "diabetes", "HIVStatus", "diagnosis_code", "symptoms", "krankheit"),
    *("emp_length", "employment_length", "work_experience", "TotalWorkingYears", "months_on_book", "time_at_address"),
    *("time_in_job", "length_of_residence", "YearsWithCurrManager", "Berufserfahrung", "antigüedad"),
)
GO = (
    *(
        "household_income",
        "family_income",
        "childcare_costs",
        "independent_income",
        "average",
        "agenda",
        "eta",
        "sincerity",
    ),
    *("months", "duration_months", "amount_past_due", "plate_number", "late_fee", "credit_amount", "debt_ratio"),
    *("utilisation", "balance", "loan_amount", "land_area", "weight", "work_days", "PAY_AMT1", "priority", "score"),
)


def test_what_names_tell_that_nobody_is_asked_to_change_stays():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, 9, 60) for name in (*STAY, *GO)})
    found = Limits.observed(frame).columns
    assert [name for name, limit in found.items() if limit.immutable] == list(STAY)
    assert {found[name].direction for name in GO} == {None}
    names = ("MaritalStatus", "religion", "tenure", "CountryOfBirth", "empLength", "CreditHistory", "job")
    words = pd.DataFrame({name: rng.choice(["a", "b", "c"], 60) for name in names})
    assert set(names) - set(Limits.observed(words).columns) == {"tenure", "job"}  # a home may be rented or owned


def test_flags_stay_whatever_they_are_called_until_ones_own_limits_name_them(tmp_path):
    """A flag says what somebody is or what has happened, as often as what somebody chooses."""
    rng = np.random.default_rng(0)
    flags = {"x1": rng.integers(0, 2, 80), "x2": rng.integers(1, 3, 80), "x3": rng.choice([0.5, 100.0], 80)}
    flags |= {"x4": rng.choice(["yes", "no"], 80), "x5": rng.random(80) < 0.5}
    flags |= {"x6": rng.choice([0, 1, -999], 80), "x7": rng.choice(["yes", "no", "Unknown"], 80)}
    flags["x8"] = pd.Categorical(rng.choice(["low", "high"], 80), ["low", "high"], ordered=True)
    others = {"x9": rng.choice(["a", "b", "c"], 80), "x10": rng.integers(0, 3, 80)}
    frame = pd.DataFrame(flags | others)
    found = Limits.observed(frame)
    assert [name for name, limit in found.columns.items() if limit.immutable] == list(flags) == list(found.flags)
    assert found.columns["x6"].missing == (-999,)
    freed = Limits.observed(frame, {"x1": Limit(), "x4": Limit(levels=["yes"])})
    assert [name for name in found.flags if name not in freed.flags] == ["x1", "x4"]
    assert freed.columns["x1"] == Limit()
    text = drafted(frame)
    assert "# x4: category, a flag, which may be nobody's choice, and stays as it is (take immutable out to" in text
    assert "stays as it is (lower = 1 and upper = 2 in the place of immutable free it); observed: 1 to 2" in text
    (tmp_path / "limits.toml").write_text(text)
    assert all(Limits.load(tmp_path / "limits.toml").columns[name].immutable for name in flags)
    said = told(found, oar.Schema.infer(frame))
    assert "8 flags stay as they are (x1, x2, x3, x4, x5, x6, x7, x8; an empty [columns.NAME] in a file of" in said
    assert "7 flags stay as they are" in told(Limits.observed(frame, {"x1": Limit()}), oar.Schema.infer(frame))


def test_what_has_happened_stays():
    rng = np.random.default_rng(0)
    happened = ("NumberOfTime30-59DaysPastDueNotWorse", "NumberOfTimes90DaysLate", "late_30_59", "delinq_2yrs")
    happened += ("num_bankruptcies", "late payments", "priors_count", "times_late", "complaints", "Beschwerden")
    happened += ("defaults", "previous_default", "credit_history", "charged_off", "collections_12m", "tax_liens")
    happened += ("prison", "felonies", "juv_fel_count", "PubRec", "PAY_0", "pay_6", "days_past_due", "max_dpd")
    happened += ("previous_loans", "claims", "default_rate", "MaxDelqEver", "Zahlungsausfall", "antecedentes")
    frame = pd.DataFrame({name: rng.integers(0, 4, 60) for name in happened} | {"lines": rng.integers(0, 4, 60)})
    found = Limits.observed(frame).columns
    assert [name for name, limit in found.items() if limit.immutable] == list(happened)
    assert "which has happened, and stays as it is" in drafted(frame)


def test_years_stay_and_numbers_that_merely_lie_there_move():
    rng = np.random.default_rng(0)
    years = {"opened": rng.integers(2001, 2023, 300), "year_opened": rng.choice([1992, 1999], 300)}
    years |= {"x1": rng.integers(1950, 2010, 300), "since": rng.choice([20240722, 20230301], 300)}
    amounts = {"price": 1900 + 10 * rng.integers(0, 20, 300), "paid": rng.integers(1890, 2010, 300)}
    amounts |= {"calories": rng.choice([1950, 2000, 2050], 300)}
    found = Limits.observed(pd.DataFrame(years | amounts)).columns
    assert [name for name, limit in found.items() if limit.immutable] == list(years)
    draft = drafted(pd.DataFrame(years))
    assert "# opened: integer, years, and stays as it is" in draft
    assert "# since: integer, dates as whole numbers, and stays as it is" in draft


def test_numbers_of_people_stay_and_amounts_move():
    rng = np.random.default_rng(0)
    named = {"x1": rng.choice(10**7, 400, replace=False), "customer": rng.permutation(np.arange(5_000, 6_200))[:400]}
    amounts = {"x2": rng.lognormal(9, 0.5, 400).round(), "income": rng.integers(10**4, 10**6, 400)}
    amounts |= {"x3": 10 * rng.integers(10**4, 10**6, 400), "x4": rng.normal(50_000, 9_000, 400).round()}
    found = Limits.observed(pd.DataFrame(named | amounts)).columns
    assert [name for name, limit in found.items() if limit.immutable] == list(named)
    german = oar.datasets.german_credit().frame
    still = [name for name, limit in Limits.observed(german.select_dtypes("number")).columns.items() if limit.immutable]
    assert still == ["residence", "age", "dependents"]


def test_codes_are_recognised_in_columns_that_stay():
    late = np.array([0] * 900 + [1] * 60 + [2] * 20 + [98] * 15 + [96] * 5)
    frame = pd.DataFrame({"times_late": late, "year": np.tile([1998, 1999], 500)})
    found = Limits.observed(frame).columns
    assert found["times_late"] == Limit(immutable=True, missing=(96, 98))
    assert found["year"] == Limit(immutable=True)
    written = tomllib.loads(drafted(frame))["columns"]["times_late"]
    assert written == {"immutable": True, "missing": [96, 98]}
    assert "observed: 0 to 2; 20 people have 96 or 98" in drafted(frame)


def test_every_column_is_counted_and_those_that_stay_are_named():
    limits = Limits.observed(people())
    said = told(limits, people().schema)
    assert said == (
        "as observed: 4 columns stay within their ranges (1 whole), 2 columns stay as they are (day, age), 2 flags "
        "stay as they are (owner, purpose; an empty [columns.NAME] in a file of limits frees one), codes for a missing "
        "value stay as they are (late 98 or 99)"
    )
