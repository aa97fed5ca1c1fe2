"""Numbers that are none, or out of range, in one line."""

from __future__ import annotations

import pytest
from support.commands import people, run, values

ASKED = [
    "plan",
    "people.csv",
    "--target",
    "approved",
    "--query",
    "1",
    "--goal",
    "yes",
    "--budget",
    "0.2",
    "--out",
    "plan",
]
PRICE = [
    "plan",
    "prices.csv",
    "--target",
    "price",
    "--query",
    "1",
    "--model",
    "ridge",
    "--budget",
    "0.2",
    "--out",
    "plan",
]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("numbers")
    people().to_csv(place / "people.csv", index=False)
    values().to_csv(place / "prices.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


def refused(arguments, option):
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert not isinstance(result.exception, (ValueError, OverflowError, TypeError, AssertionError)), result.exception
    if result.exit_code == 1:
        assert len(result.stderr.splitlines()) == 1, result.stderr
    assert option.strip("-") in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-1", "1e999"])
@pytest.mark.parametrize("option", ["--budget", "--probability", "--changed", "--worse"])
def test_options_that_are_numbers(option, number):
    refused([*ASKED, option, number], option)


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "0", "1.5"])
def test_the_most_useful(number):
    refused([*ASKED, "--participants", f"best:{number}"], "participants")


@pytest.mark.parametrize("number", ["nan%", "inf%", "-5%", "101%"])
def test_shares_of_people(number):
    refused([*ASKED, "--participants", number], "participants")


@pytest.mark.parametrize("number", ["-1", "nan", "1.5"])
@pytest.mark.parametrize("option", ["--relabel", "--withhold", "--seed"])
def test_options_that_are_counts(option, number):
    refused([*ASKED, option, number], option)


@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_shares_of_queries(number):
    refused([*ASKED, "--query", "1,2", "--share", number], "share")


@pytest.mark.parametrize("goal", ["nan", "inf", "nan..3", "3..nan", "inf..", "5..3"])
def test_goals_that_are_numbers(goal):
    refused([*PRICE, "--goal", goal], "goal")


@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_how_near_is_near(number):
    refused([*PRICE, "--goal", "20", "--within", number], "within")
