"""`oar respond` and `oar audit`: members at home, and an auditor with a copy of the data."""

import json
import re

import pandas as pd
import pytest
from support.commands import TOLD, approval, audited, done, failed, numbers, people, run

import oar

ASKED = ("--target", "approved", "--query", "1", "--goal", "yes", "--budget", "0.5")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The folder of a table, people.csv, and its plan."""
    folder = tmp_path_factory.mktemp("respond")
    people().drop(columns="town").to_csv(folder / "people.csv", index=False)
    done("plan", folder / "people.csv", *ASKED, "--out", folder / "plan")
    return folder


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """The same of plain numbers and nearest centroid."""
    folder = tmp_path_factory.mktemp("points")
    numbers().to_csv(folder / "points.csv", index=False)
    (folder / "me.csv").write_text("x,y\n1.0,1.0\n")
    done(
        "plan", folder / "points.csv", "--target", "kind", "--query", folder / "me.csv", "--goal", 1, "--budget", 0.5,
        "--plain", "--model", "nearest-centroid", "--out", folder / "plan",
    )  # fmt: skip
    return folder


def test_answers_are_the_cards(plan, tmp_path):
    frame, card = pd.read_csv(plan / "people.csv"), oar.results.Card.load(plan / "plan" / "plan.json")
    said = done("respond", plan / "plan" / "plan.json", plan / "people.csv", "--out", tmp_path / "mine.csv")
    changes = pd.read_csv(tmp_path / "mine.csv", dtype=str).astype({"person": int})
    moving = 0
    for person, row in frame.iterrows():
        answer = card.respond(row.drop("approved").to_dict(), row["approved"])
        mine = changes[changes["person"] == person]
        assert mine["column"].tolist() == [name for name, _, _ in answer.changes]
        assert mine["after"].astype(str).tolist() == [str(after) for _, _, after in answer.changes]
        moving += bool(answer.changes)
    assert moving > len(frame) / 2
    assert said.splitlines()[0].split() == ["row", "column", "now", "then"]


def test_a_value_that_may_be_a_mistake_is_asked_about(plan, tmp_path):
    mine = pd.read_csv(plan / "people.csv").iloc[[3]].assign(age=450)
    mine.to_csv(tmp_path / "me.csv", index=False)
    result = run("respond", plan / "plan" / "plan.json", tmp_path / "me.csv")
    assert result.exit_code == 0
    assert "row 0: age is 450, and " in result.stderr
    assert result.stderr.rstrip().endswith("is expected; is this right?")
    assert "row" in result.stdout  # an answer there is all the same


def test_a_member_keeps_a_column_and_goes_less_far(plan, tmp_path):
    card, rows = plan / "plan" / "plan.json", plan / "people.csv"
    done("respond", card, rows, "--out", tmp_path / "all.csv")
    usual = pd.read_csv(tmp_path / "all.csv")["column"].mode()[0]
    done("respond", card, rows, "--keep", usual, "--out", tmp_path / "kept.csv")
    assert usual not in set(pd.read_csv(tmp_path / "kept.csv")["column"])
    assert "stay as you are" in done("respond", card, rows, "--budget", 0)
    assert "budget: must be at most the plan's own 0.5" in failed("respond", card, rows, "--budget", 2)
    assert "keep: must be a column of the card, got 'incom'. Did you mean 'income'" in failed(
        "respond", card, rows, "--keep", "incom"
    )


def test_plain_numbers_move_in_their_own_units(points, tmp_path):
    card = oar.results.Card.load(points / "plan" / "plan.json")
    (tmp_path / "me.csv").write_text("x,y,kind\n2.0,3.0,1\n0.0,0.5,0\n")
    done("respond", points / "plan" / "plan.json", tmp_path / "me.csv", "--out", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    for person, (row, label) in enumerate([([2.0, 3.0], 1), ([0.0, 0.5], 0)]):
        mine = found[found["person"] == person].set_index("column")
        move = card.respond(row, label)
        assert (mine["after"] - mine["before"]).tolist() == pytest.approx([step for step in move if step])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("income,age,owner,purpose,approved\nplenty,30,True,car,no\n", "row 0: .*'income'.*'plenty'"),
        ("income,age,owner,purpose,approved\n2000,old,True,car,no\n", "row 0: .*'age'.*'old'"),
        ("income,age,owner,purpose,approved\n2000,30,True,moon,no\n", "row 0: .*'purpose'.*'moon'"),
        ("income,age,owner,purpose,approved\n2000,30,True,car,perhaps\n", "row 0: label: must be one of 'no', 'yes'"),
        ("income,age,owner,purpose,approved\n2000,,True,car,no\n", "row 0: column 'age': must have a value"),
        ("height,weight,approved\n180,80,no\n", "ROWS: must have every column of the card, got none called"),
        ("income,age,owner,purpos,approved\n2000,30,True,car,no\n", "got none called 'purpose'. Did you mean 'purpos'"),
        ("income,age,owner,purpose\n2000,30,True,car\n", "--target: one column must be the label .* got none"),
    ],
)
def test_a_members_mistake_is_named(plan, tmp_path, text, complaint):
    import re

    (tmp_path / "me.csv").write_text(text)
    said = failed("respond", plan / "plan" / "plan.json", tmp_path / "me.csv")
    assert re.search(complaint, said), said


def test_text_for_a_plain_number_is_named(points, tmp_path):
    (tmp_path / "me.csv").write_text("x,y,kind\n2.0,far,1\n")
    said = failed("respond", points / "plan" / "plan.json", tmp_path / "me.csv")
    assert "row 0: column 'y': must be a number, got 'far'" in said


def test_a_file_that_is_there_is_not_written_over(plan, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    assert "--force" in failed(
        "respond", plan / "plan" / "plan.json", plan / "people.csv", "--out", tmp_path / "mine.csv"
    )
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_an_auditor_finds_what_the_planner_said(plan, tmp_path):
    card, data = plan / "plan" / "plan.json", plan / "people.csv"
    common = ["--target", "approved", "--query", 1]
    done("audit", card, data, *common, "--moves", plan / "plan" / "moves.csv", "--out", tmp_path / "audit.json")
    ours, theirs = audited(plan / "plan")["outcome"], json.loads((tmp_path / "audit.json").read_text())["outcome"]
    for name in ("loss_before", "loss", "effort"):
        assert theirs[name] == pytest.approx(ours[name], rel=TOLD)
    assert abs(theirs["movers"] - ours["movers"]) <= 5  # counts are rounded to tens
    assert (theirs["prediction"], theirs["success"]) == (ours["prediction"], ours["success"])
    assert theirs["violations"] == []


def test_everyone_answering_the_card_is_refitted(plan, tmp_path):
    import math

    card, data = plan / "plan" / "plan.json", plan / "people.csv"
    said = done("audit", card, data, "--target", "approved", "--query", 1, "--out", tmp_path / "audit.json")
    assert said.startswith("success ")
    done("respond", card, data, "--out", tmp_path / "moves.csv")
    frame = pd.read_csv(data)
    after = frame.astype({"income": float, "age": float, "owner": object})
    for change in pd.read_csv(tmp_path / "moves.csv").itertuples():
        if change.person != 1:  # who asks stays
            value = {"True": True, "False": False}.get(change.after, change.after)
            after.loc[change.person, change.column] = float(value) if change.column in ("income", "age") else value
    loss = float(re.search(r"goal loss .* → (\S+)", said)[1])
    assert math.exp(-loss) == pytest.approx(approval(after, 1), rel=TOLD)


def test_an_audit_of_plain_numbers(points, tmp_path):
    common = ["--target", "kind", "--query", points / "me.csv", "--out", tmp_path / "audit.json"]
    done("audit", points / "plan" / "plan.json", points / "points.csv", *common)
    theirs = json.loads((tmp_path / "audit.json").read_text())["outcome"]
    ours = audited(points / "plan")
    assert theirs["loss"] == pytest.approx(ours["card"]["loss"], rel=TOLD)
    gain = ours["outcome"]["loss_before"] - ours["outcome"]["loss"]
    assert ours["outcome"]["loss_before"] - theirs["loss"] >= 0.99 * gain  # its directions have few digits


def test_moves_that_break_limits_are_told(plan, tmp_path):
    moves = pd.read_csv(plan / "plan" / "moves.csv")
    frame = pd.read_csv(plan / "people.csv")
    moves = moves[moves["person"] != 2].reset_index(drop=True)
    moves.loc[len(moves)] = [2, "income", frame["income"][2], 1e6]
    moves.to_csv(tmp_path / "moves.csv", index=False)
    common = ["--target", "approved", "--query", 1, "--moves", tmp_path / "moves.csv"]
    said = done("audit", plan / "plan" / "plan.json", plan / "people.csv", *common)
    assert "person 2 moves at a cost of" in said
    assert said.startswith("success      no")
    for row, complaint in (
        ([999, "income", 1, 2], "999"),
        ([2, "incom", 1, 2], "'income'"),
        ([2, "age", 1, "x"], "'x'"),
        ([2, "age", int(frame["age"][2]) + 1, 30], "row 0 says that 'age' of '2' is"),
    ):
        pd.DataFrame([row], columns=list(moves.columns)).to_csv(tmp_path / "moves.csv", index=False)
        assert complaint in failed("audit", plan / "plan" / "plan.json", plan / "people.csv", *common)


def test_moves_are_checked_against_the_cards_own_terms(tmp_path):
    frame = people().assign(id=[f"p{place}" for place in range(90)])
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "limits.toml").write_text(
        '[columns.age]\nimmutable = true\n[columns.income]\ndirection = "up"\nupper = 4000\nunit = 1000\n'
        '[columns.purpose]\nlevels = ["school"]\n'
    )
    asked = ["--target", "approved", "--query", "p1", "--id", "id", "--leave-out", "town"]
    limits = ["--limits", tmp_path / "limits.toml"]
    done(
        "plan", tmp_path / "people.csv", *asked, *limits, "--goal", "yes", "--budget", 1.2, "--out", tmp_path / "plan"
    )  # fmt: skip
    audit = ["audit", tmp_path / "plan" / "plan.json", tmp_path / "people.csv", *asked]
    for given in ([], limits):  # the card's terms are those of the limits
        said = done(*audit, "--moves", tmp_path / "plan" / "moves.csv", *given)
        assert said.startswith("success      yes")
        assert ("card's own terms" in said) == (not given)
    here = frame.set_index("id")
    for row, complaint in (
        (["p7", "age", here["age"]["p7"], here["age"]["p7"] + 1], "person p7 changes 'age', which is immutable"),
        (["p7", "income", here["income"]["p7"], 4100.0], "person p7 puts 'income' above 4000"),
        (["p7", "income", here["income"]["p7"], here["income"]["p7"] - 9], "person p7 lowers 'income'"),
        (["p7", "purpose", here["purpose"]["p7"], "car"], "person p7 takes a level of 'purpose'"),
    ):
        pd.DataFrame([row], columns=["person", "column", "before", "after"]).to_csv(tmp_path / "m.csv", index=False)
        assert complaint in done(*audit, "--moves", tmp_path / "m.csv")


def test_a_card_for_other_columns_is_refused(plan, points):
    said = failed("audit", plan / "plan" / "plan.json", points / "points.csv", "--target", "kind", "--query", 1)
    assert "income" in said
    said = failed("audit", points / "plan" / "plan.json", plan / "people.csv", "--target", "approved", "--query", 1)
    assert "numeric" in said


def test_a_wrong_value_is_named_and_all_others_are_answered(plan, tmp_path):
    rows = ["income,age,owner,purpose,approved", "2000,30,True,car,no", "plenty,30,True,car,no"]
    rows += ["2000,30.5,True,car,no"]
    rows += ["2000,30,maybe,car,no", "2000,30,True,moon,no", "2000,30,True,car,perhaps", "2100,31,False,home,no"]
    (tmp_path / "me.csv").write_text("\n".join(rows) + "\n")
    result = run("respond", plan / "plan" / "plan.json", tmp_path / "me.csv", "--out", tmp_path / "answers.csv")
    assert result.exit_code == 1
    told = [line for line in result.stderr.splitlines() if line.startswith("no answer for ")]
    assert [line.split(":")[0] for line in told] == [f"no answer for row {row}" for row in range(1, 6)]
    assert "row 2: column 'age': must be a whole number below 2^53, got 30.5; correct it." in told[1]
    assert "row 3: column 'owner': must be true or false, got 'maybe'; correct it." in told[2]
    assert not any("row 0" in line or "--schema" in line for line in told)
    assert "Answered 2 of 7 rows; correct the others." in result.stderr
    assert set(pd.read_csv(tmp_path / "answers.csv")["person"]) <= {0, 6}
    assert (
        "budget: must be" in run("respond", plan / "plan" / "plan.json", tmp_path / "me.csv", "--budget", "-1").stderr
    )


def test_the_file_that_was_planned_for_is_answered(tmp_path):
    """What was left out of the plan is no column of the card, and nobody has to name it again."""
    frame = people().drop(columns="town")
    frame.to_csv(tmp_path / "plain.csv", index=False)
    done("plan", tmp_path / "plain.csv", *ASKED, "--out", tmp_path / "plan")
    card = tmp_path / "plan" / "plan.json"
    more = frame.assign(who=[f"p{place:02}" for place in range(90)], day="2024-01-31", married="no")
    more.reset_index(names="").to_csv(tmp_path / "people.csv", index=False)
    done("respond", card, tmp_path / "plain.csv", "--out", tmp_path / "one.csv")
    said = failed("respond", card, tmp_path / "people.csv")
    assert "--target: one column must be the label and not on the card, got 'approved', 'married'" in said
    done("respond", card, tmp_path / "people.csv", "--target", "approved", "--out", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    more.drop(columns="married").reset_index(names="").to_csv(tmp_path / "people.csv", index=False)
    result = run("respond", card, tmp_path / "people.csv", "--out", tmp_path / "three.csv")
    assert result.exit_code == 0
    assert "Labels are those of column 'approved', or name --target; 3 other columns are ignored." in result.stderr
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "three.csv").read_text()
    done("respond", card, tmp_path / "people.csv", "--id", "Unnamed: 0")
