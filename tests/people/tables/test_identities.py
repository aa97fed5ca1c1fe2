"""Columns that count rows or name people are told from features."""

from __future__ import annotations

import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oar
from oar.people.tables.identities import FEWEST, FEWEST_IN_ORDER, identities

SIZE = 200


def column(values):
    return pd.DataFrame({"x": values})


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.arange(SIZE), "counts the rows, from 0 to 199"),
        (np.arange(1, SIZE + 1), "counts the rows, from 1 to 200"),
        (np.arange(SIZE)[::-1].astype(float), "counts the rows"),
        (np.random.default_rng(0).permutation(SIZE) + 1000, "counts the rows, from 1000 to 1199"),
        (np.cumsum(np.random.default_rng(0).integers(1, 5, SIZE)), "numbers the rows in their order"),
        ([f"person {place}" for place in range(SIZE)], "names people, with 200 different texts"),
        ([f"name {place // 2}" if place < 20 else f"name {place}" for place in range(SIZE)], "names people"),
        ([f"p{place % 30}@example.org" for place in range(SIZE)], "holds e-mail addresses"),
        ([str(uuid.UUID(int=place % 40)) for place in range(SIZE)], "holds UUIDs"),
    ],
)
def test_row_numbers_and_names_are_recognised(values, why):
    assert why in identities(column(values))["x"]


def _handed_out(seed=5, many=3_000):
    """Customer numbers: a third of a range was handed out, in no order."""
    return np.random.default_rng(seed).permutation(np.arange(500_000, 500_000 + 3 * many))[:many]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (_handed_out(), "a number of its own for each of the 3,000 rows"),
        (np.random.default_rng(6).choice(150_000, 3_000, replace=False), "a number of its own"),
        (np.where(np.arange(3_000) < 10, _handed_out()[-1], _handed_out()), "2,990 different numbers for 3,000 rows"),
        (np.append(_handed_out(), [9_999_999]), "a number of its own"),
    ],
)
def test_numbers_that_were_handed_out_are_told_from_amounts_by_how_few_are_the_same(values, why):
    assert why in identities(column(values))["x"]
    # Amounts in the same range are drawn with all others, and so some people have the same.
    low, high = values.min(), np.sort(values)[-2]
    amounts = np.random.default_rng(7).integers(low, high, values.size)
    assert not identities(column(amounts))
    assert not identities(column(np.random.default_rng(8).lognormal(8, 0.5, 3_000).round()))


def test_amounts_that_ship_are_no_names():
    assert not identities(oar.datasets.german_credit().frame)


@pytest.mark.parametrize("name", ["id", "applicant_id", "customerId", "Row Number", "KEY"])
def test_numbers_that_all_differ_are_identifiers_where_they_are_called_so(name):
    numbers = np.random.default_rng(1).choice(10**6, SIZE, replace=False)
    assert "a number of its own" in identities(pd.DataFrame({name: numbers}))[name]
    for other in ("income", "paid", "NumberOfDependents", "nobility", "width"):
        assert not identities(pd.DataFrame({other: numbers}))


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(2).normal(size=SIZE),
        np.sort(np.random.default_rng(2).normal(size=SIZE)),
        np.random.default_rng(2).integers(10**4, 10**6, SIZE),  # incomes, nearly all different
        np.sort(np.random.default_rng(2).integers(0, 150, SIZE)),  # sorted, with ties
        np.sort(np.random.default_rng(2).choice(20_000, SIZE, replace=False)),  # sorted amounts without ties
        np.arange(SIZE) % 100,
        np.random.default_rng(2).random(SIZE) < 0.5,
        np.where(np.arange(SIZE) == 3, np.nan, np.arange(SIZE)),
        np.random.default_rng(2).choice(["car", "home", "school"], SIZE),
        pd.Categorical([f"t{place}" for place in range(SIZE)]),
    ],
)
def test_features_are_not_taken_for_names(values):
    assert not identities(column(values))


def test_few_people_say_nothing():
    assert not identities(column(np.arange(FEWEST - 1)))
    assert identities(column(np.arange(FEWEST)))
    assert not identities(column(3 * np.arange(FEWEST_IN_ORDER - 1)))
    assert identities(column(3 * np.arange(FEWEST_IN_ORDER)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=FEWEST, max_size=60), st.randoms())
def test_numbers_that_are_not_whole_are_features(numbers, random):
    numbers[random.randrange(len(numbers))] = 0.5
    assert not identities(column(numbers))


def test_a_population_refuses_them_unless_a_schema_says_otherwise():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"row": np.arange(SIZE), "income": rng.normal(size=SIZE), "y": rng.random(SIZE) < 0.5})
    with pytest.raises(
        oar.errors.DataError, match=r"column 'row' is no feature, it counts the rows.*set_index.*schema="
    ):
        oar.Population.from_frame(frame, "y")
    assert oar.Population.from_frame(frame.set_index("row"), "y").dimensions == 1
    meant = oar.Schema.infer(frame.drop(columns="y"))
    assert oar.Population.from_frame(frame, "y", schema=meant).dimensions == 2
