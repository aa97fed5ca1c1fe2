"""Applicants as an organiser has them, from the command line, without a file of limits: every move is a sane one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from support.applicants import LATE, TARGET, applicants
from support.commands import done, found_in, run

USED = "RevolvingUtilizationOfUnsecuredLines"
ASKED = ["people.csv", "--target", TARGET, "--goal", "0", "--budget", "0.5", "--missing", "impute"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("applicants")
    applicants(3_000, seed=1, coded=0.01).to_csv(place / "people.csv")
    return place


@pytest.fixture(scope="module")
def planned(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        frame = applicants(3_000, seed=1, coded=0.01)
        known = frame.drop(columns=TARGET).fillna(frame.median())
        points = StandardScaler().fit_transform(known)
        refused = LogisticRegression(C=100 / len(points)).fit(points, frame[TARGET]).predict_proba(points)[:, 1]
        query = str(int(np.argmin(np.abs(refused - 0.55))))
        told = done("plan", *ASKED, "--query", query, "--leave-out", "column 1", "--out", "plan")
    assert " 1 → 0\n" in told
    return frame, told, query


def test_a_column_of_row_numbers_is_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    said = run("plan", *ASKED, "--query", "5", "--out", "none")
    assert said.exit_code == 1
    assert "got none for column 1, which counts the rows, from 1 to 3000" in said.stderr


def test_nobody_is_sent_anywhere_absurd(folder, planned):
    frame, told, _ = planned
    assert "columns stay as they are" in told
    moves = pd.read_csv(folder / "plan" / "moves.csv")
    before, after = moves["before"].astype(float), moves["after"].astype(float)
    assert len(moves) > 1_000
    for name, most in ((USED, 1.5), ("DebtRatio", 10), ("MonthlyIncome", 40_000)):
        mine = moves["column"] == name
        assert (after[mine] >= 0).all()
        further = mine & (after > before)
        assert (after[further] <= most).all()
        assert (after - before)[mine].abs().max() <= 0.5 * frame[name].quantile([0.05, 0.7]).diff().iloc[-1] * 2
    late = moves["column"].isin(LATE)
    assert not (before[late] >= 96).any()  # a code is nobody's to change
    assert not (after[late] >= 96).any()
    assert "age" not in set(moves["column"])


def test_the_same_is_said_of_accuracy_and_of_the_card_in_plan_and_audit(folder, planned, monkeypatch):
    monkeypatch.chdir(folder)
    _, told, _ = planned
    audited = done("audit", "plan", "people.csv")
    line = next(line for line in told.splitlines() if line.startswith("accuracy "))
    assert "with everyone's data as they were; " in line
    assert "with the data after the moves" in line
    assert " ".join(line.split()) in [" ".join(each.split()) for each in audited.splitlines()]
    facts = json.loads((folder / "plan" / "audit.json").read_text())
    effects = facts["card"]["collateral"]["effects"]
    assert "lose the prediction 0 that they had" in effects
    assert "if the card is answered" in told
    assert found_in(folder / "plan")["card"]["collateral"]["effects"][1:] in audited.partition("answers the card")[2]
    report = (folder / "plan" / "report.html").read_text()
    assert f"If everyone answers the card instead: {effects}." in report
    assert "What the moves of moves.csv do" in report


def test_numbers_as_labels_read_as_predictions_and_budgets_as_what_they_are(planned):
    _, told, _ = planned
    assert " lose the prediction 0 and " in told
    assert "budget that suffices" not in told  # which `oar questions` tells
    assert "this plan's moves, cut short" in told


def test_a_code_is_no_value_to_be_answered_for(folder, planned, monkeypatch):
    monkeypatch.chdir(folder)
    frame, _, _ = planned
    coded = frame[(frame[LATE[0]] >= 96) & frame["MonthlyIncome"].notna()].head(2).dropna()
    coded.to_csv("me.csv", index=False)
    said = run("respond", "plan/plan.json", "me.csv")
    assert said.exit_code == 0
    assert LATE[0] not in said.stdout
    assert LATE[0] not in said.stderr  # the card names the code, so it is expected


def test_whole_numbers_are_written_as_such_also_in_columns_with_gaps(folder, planned):
    moves = pd.read_csv(folder / "plan" / "moves.csv", dtype=str)
    income = moves[moves["column"] == "MonthlyIncome"]
    assert len(income) > 50
    assert income[["before", "after"]].stack().str.fullmatch(r"\d+").all()


def test_what_nobody_can_afford_is_not_asked_for(folder, planned):
    page = (folder / "plan" / "member.html").read_text()
    card = json.loads((folder / "plan" / "plan.json").read_text())
    asks = json.loads(page.partition('id="card">')[2].partition("</script>")[0])["about"]["asks"]
    moved = set(pd.read_csv(folder / "plan" / "moves.csv")["column"])
    dear = [
        each["name"] for each in card["columns"] if each["movable"] and each["step"] * each["cost"] > card["budget"]
    ]
    assert dear
    assert not moved & set(dear)
    for each in card["columns"]:
        assert (f" {each['name']}" in asks[0]) == (each["movable"] and each["name"] not in dear)
    assert asks[1] == f"You are not asked to change {', '.join(dear)}: the smallest change costs more than that."


def test_the_draft_says_which_codes_were_found(folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = done("limits", "people.csv", "--target", TARGET, "--leave-out", "column 1")
    assert f"# {LATE[0]}: integer, which has happened, and stays as it is" in text
    frame = pd.read_csv("people.csv").rename(columns={LATE[0]: "score"})
    frame.to_csv("scores.csv", index=False)
    text = done("limits", "scores.csv", "--target", TARGET, "--leave-out", "column 1")
    assert "which seems to stand for a missing value and stays as it is (missing = [] if it does not)" in text
    block = text.partition(f"[columns.{USED}]")[2]
    assert "upper = 1." in block.partition("#")[0]
