"""What a newcomer meets first: targets of numbers, names of people, one schema for all, held-out files."""

import numpy as np
import pandas as pd
import pytest
from support.commands import audited, done, failed, people, values
from support.pages import blocks, page

import oar

pytestmark = pytest.mark.usefixtures("least_effort")

ASKED = ("--target", "approved", "--query", "1", "--goal", "yes", "--budget", "0.3", "--out", "plan")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """people.csv in the current folder, with a column of names."""
    monkeypatch.chdir(tmp_path)
    people().assign(id=[f"p{place}" for place in range(90)]).to_csv("people.csv", index=False)
    return tmp_path


def test_many_numbers_are_no_classes(folder):
    values(200).to_csv("flats.csv", index=False)
    said = failed("plan", "flats.csv", "--target", "price", "--query", 1, "--goal", 60, "--budget", 1, "--out", "plan")
    assert "different numbers (more than 50); predict values with --model ridge." in said
    assert not (folder / "plan").exists()


def test_people_are_asked_for_first(folder):
    assert "DATA: must be a file of people" in failed("plan")


def test_a_schema_of_a_table_with_names(folder):
    said = done(
        "schema", "people.csv", "--target", "approved", "--id", "id", "--leave-out", "town", "--output", "s.toml"
    )
    assert "town" not in said
    assert oar.Schema.load("s.toml").names == ("income", "age", "owner", "purpose")
    assert "leave-out: must be a column" in failed("schema", "people.csv", "--id", "id", "--leave-out", "village")


def test_a_schema_may_describe_what_is_left_out(folder):
    done("schema", "people.csv", "--target", "approved", "--id", "id", "--output", "s.toml")
    asked = [*ASKED[:3], "p1", *ASKED[4:], "--id", "id"]
    done("plan", "people.csv", *asked, "--schema", "s.toml", "--leave-out", "town")
    assert audited(folder / "plan")["asked"]["columns"] == 4


def test_truth_has_no_capitals(folder):
    frame = people(30)
    frame.assign(approved=frame["approved"] == "yes").to_csv("truths.csv", index=False)
    for word in ("true", "True", "TRUE"):
        done("questions", "truths.csv", "--target", "approved", "--query", "1", "--goal", word, "--budget", "0.1")


def test_held_out_people_are_filled_in_as_the_others_are(folder):
    frame, others = people(), people(40, seed=5)
    frame.loc[3, "income"] = np.nan
    others.loc[:9, "income"] = np.nan
    others.loc[5:14, "purpose"] = None
    frame.to_csv("gaps.csv", index=False)
    others.to_csv("others.csv", index=False)
    done("plan", "gaps.csv", *ASKED, "--missing", "impute", "--held-out", "others.csv")
    filled = others.fillna({"income": frame["income"].median(), "purpose": frame["purpose"].mode()[0]})
    filled.to_csv("filled.csv", index=False)
    first = audited(folder / "plan")["collateral"]
    done("plan", "gaps.csv", *ASKED, "--missing", "impute", "--held-out", "filled.csv")
    assert first == audited(folder / "plan")["collateral"]
    assert first["held_out_people"] == 40
    assert "on 40 held-out people" in (folder / "plan" / "report.html").read_text()


def test_a_held_out_file_is_checked_before_the_work_begins(folder, monkeypatch):
    monkeypatch.setattr(oar, "collective", lambda problem: pytest.fail("the work began"))
    pd.read_csv("people.csv").drop(columns="id").to_csv("people.csv", index=False)
    people(20, seed=5).assign(purpose="boat").to_csv("others.csv", index=False)
    assert "boat" in failed("plan", "people.csv", *ASKED, "--held-out", "others.csv")


def test_the_limits_of_the_commands_page_are_limits(folder):
    (text,) = blocks(page("command"), "toml")
    (folder / "limits.toml").write_text(text)
    people().to_csv("people.csv", index=False)
    done("plan", "people.csv", *ASKED, "--leave-out", "town", "--limits", "limits.toml")
    moves = pd.read_csv("plan/moves.csv")
    assert set(moves["column"]) <= {"income", "owner", "purpose"}
