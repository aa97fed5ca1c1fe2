"""Commands keep to what was observed, say so, and can be told otherwise."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from support.commands import done, run

COUNTED = "as observed: 3 columns stay within their ranges (1 whole), 1 column stays as it is"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    size = 120
    frame = pd.DataFrame(
        {
            "debt": rng.gamma(1, 1, size).round(4),
            "late": rng.poisson(0.7, size),
            "income": rng.normal(2500, 600, size).round(2),
            "age": rng.integers(20, 70, size),
            "owner": rng.random(size) < 0.4,
        }
    )
    score = (frame["income"] - 2500) / 600 - frame["late"] - frame["debt"] / 2
    frame["approved"] = np.where(score + rng.normal(0, 0.7, size) > -0.8, "yes", "no")
    frame.to_csv("people.csv", index=False)
    row = int(np.flatnonzero(frame["approved"] == "no")[0])
    return ["people.csv", "--target", "approved", "--query", str(row), "--goal", "yes"]


def afters(folder, column):
    moves = pd.read_csv(f"{folder}/moves.csv")
    return moves.loc[moves["column"] == column, "after"].astype(float)


def test_a_plan_is_within_what_was_observed_and_says_so(asked, tmp_path):
    frame = pd.read_csv("people.csv")
    told = done("plan", *asked, "--budget", "2", "--out", "plan")
    assert COUNTED in told
    assert "--limits FILE sets your own, --limits none lifts them" in told
    assert COUNTED in (tmp_path / "plan" / "report.html").read_text()
    for column in ("debt", "late", "income"):
        values = afters("plan", column)
        assert values.between(frame[column].min(), frame[column].max()).all()
    assert afters("plan", "age").empty
    assert "limits       all kept" in done("audit", "plan/plan.json", *asked[:5])


def test_amounts_in_cents_go_to_amounts_in_cents(asked):
    before = pd.read_csv("people.csv")["debt"]
    done("plan", *asked, "--budget", "2", "--out", "plan")
    told = pd.read_csv("plan/moves.csv", dtype=str)
    for column, digits in (("income", 2), ("debt", 4)):
        assert (told.loc[told["column"] == column, "after"].str.partition(".")[2].str.len() <= digits).all()
    assert len(told[told["column"] == "debt"]) > 10
    assert before.min() >= 0
    assert "limits       all kept" in done("audit", "plan", asked[0])


def test_limits_can_be_lifted_which_is_warned_about(asked, tmp_path):
    told = done("plan", *asked, "--budget", "4", "--out", "plan", "--limits", "none")
    assert "none but what the columns are: numbers may leave the range of the data" in told
    assert "Moves leave the range of the data by much" in told
    assert "Limits.observed" not in told
    assert afters("plan", "late").min() < 0
    facts = json.loads((tmp_path / "plan" / "audit.json").read_text())
    assert "leave the range" in facts["explanation"]
    assert "limits       all kept" in done("audit", "plan/plan.json", *asked[:5], "--limits", "none")
    assert "limits       all kept" in done("audit", "plan", asked[0])


def test_a_files_columns_take_the_place_of_single_ones(asked, tmp_path):
    (tmp_path / "limits.toml").write_text("[columns.income]\nimmutable = true\n[columns.age]\n")
    told = done("plan", *asked, "--budget", "2", "--out", "plan", "--limits", "limits.toml")
    flag = "1 flag stays as it is (owner; an empty [columns.NAME] in a file of limits frees one)"
    own = "by limits of their own: 1 column stays as it is (income), 1 column has no range"
    assert f"as observed: 2 columns stay within their ranges (1 whole), {flag}; {own}; --limits FILE" in told
    assert afters("plan", "income").empty
    assert (afters("plan", "late") >= 0).all()


UNCHOSEN = ("female", "black", "previous_default", "was_in_prison", "x1", "country", "height")


def test_nobody_is_sent_to_another_sex_skin_country_or_past(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    flags = rng.random((150, 5)) < 0.4
    frame = pd.DataFrame(flags[:, :3].astype(int), columns=UNCHOSEN[:3])
    frame["was_in_prison"], frame["x1"] = np.where(flags[:, 3], "yes", "no"), flags[:, 4] + 1
    frame["country"] = rng.choice(["north", "south", "east"], 150)
    frame["height"] = rng.normal(170, 9, 150).round(1)
    frame["income"] = rng.normal(2500, 600, 150).round()
    score = 2 * flags @ [1, 1, -1, -1, 1] + (frame["country"] == "north") + (frame["height"] - 170) / 9
    frame["y"] = np.where(score + (frame["income"] - 2500) / 600 > 0, "yes", "no")
    frame.to_csv("people.csv", index=False)
    asked = ("people.csv", "--target", "y", "--query", str((frame["y"] == "no").argmax()), "--goal", "yes")
    told = done("plan", *asked, "--budget", "2", "--out", "plan")
    assert set(pd.read_csv("plan/moves.csv")["column"]) == {"income"}
    assert "3 flags stay as they are (black" not in told  # its name tells what it is
    assert "1 flag stays as it is (x1; an empty [columns.NAME] in a file of limits frees one)" in told
    (tmp_path / "limits.toml").write_text("[columns.x1]\n[columns.black]\n")
    freed = done("plan", *asked, "--budget", "2", "--out", "freed", "--limits", "limits.toml")
    assert {"x1", "black"} & set(pd.read_csv("freed/moves.csv")["column"])
    assert "flag" not in freed.partition("as observed")[2].partition("; --limits FILE")[0]


def test_the_drafted_file_plans_the_same(asked, tmp_path):
    assert "Done. Edit limits.toml" in done("limits", *asked[:3], "--output", "limits.toml")
    text = (tmp_path / "limits.toml").read_text()
    assert text == done("limits", *asked[:3]).rstrip("\n") + "\n"
    assert run("limits", *asked[:3], "--output", "limits.toml").exit_code == 1
    ranges = "3 columns stay within their ranges (1 whole), "
    said = {"one": "1 column stays as it is (age), 1 flag stays", "two": "2 columns stay as they are (age, owner)"}
    for out, more in (("one", []), ("two", ["--limits", "limits.toml"])):
        assert ranges + said[out] in done("plan", *asked, "--budget", "0.5", "--out", out, *more)
        assert ranges + said[out] in (tmp_path / out / "report.html").read_text()
    assert (tmp_path / "one" / "moves.csv").read_text() == (tmp_path / "two" / "moves.csv").read_text()


def test_a_query_from_a_file_may_be_outside_the_range(asked):
    pd.read_csv("people.csv").iloc[:1].assign(debt=900.0, late=70).to_csv("me.csv", index=False)
    told = done("plan", *asked[:3], "--query", "me.csv", "--goal", "yes", "--budget", "0.2", "--out", "plan")
    assert "card" in told
    assert "limits       all kept" in done("audit", "plan/plan.json", *asked[:3], "--query", "me.csv")


def test_questions_say_which_limits_they_are_asked_within(asked):
    result = run("leverage", *asked, "--budget", "0.3", "--shares", "50%")
    assert result.exit_code == 0
    assert COUNTED in result.stderr


def test_a_force_that_forces_nothing_is_refused(asked):
    result = run("limits", asked[0], "--force")
    assert result.exit_code == 1
    assert "--force: is for a file that is written, and none is; leave it out, or add --output." in result.output
