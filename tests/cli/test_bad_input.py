"""What is wrong is said in one line, and nothing is written."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import audited, done, failed, numbers, people, run

import oar

pytestmark = pytest.mark.usefixtures("least_effort")

ASKED = ("--target", "approved", "--query", "1", "--goal", "yes", "--budget", "0.3")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """people.csv in the current folder."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--participants", "town=Davos"], "participants: nobody has 'Davos' in column 'town'.* 'Aarau', .*'Chur'"),
        (["--participants", "twon=Basel"], "participants: must be a column.*Did you mean 'town'"),
        (["--participants", "half"], "participants: must be everyone, a share such as 20%, best:50 or COLUMN=VALUE"),
        (["--participants", "0%"], "participants: a share must be above 0 %"),
        (["--participants", "best:x"], "participants: must be one number"),
        (["--query", "90"], "query: must be a row from 0 to 89 .*or a file that exists, got '90'"),
        (["--query", "nobody.csv"], "query: must be a row from 0 to 89"),
        (["--query", "-1"], "query: must be a row from 0"),
        (["--goal", "maybe"], "goal: must be a value of 'approved', one of 'no', 'yes', got 'maybe'"),
        (["--target", "aproved"], "target: must be a column.*Did you mean 'approved'"),
        (["--group", "village"], "group: must be a column of the data, got 'village'"),
        (["--leave-out", "village"], "leave-out: must be a column"),
        (["--id", "town"], "id: every person must have a name of its own, got .* twice"),
        (["--model", "softmaks"], "model: must be one of 'softmax'.*Did you mean 'softmax'"),
        (["--norm", "3"], "norm: must be one of '1', '2', 'inf'"),
        (["--missing", "ignore"], "missing: must be one of"),
        (["--budget", "-1"], "budget: must be finite and ≥ 0"),
        (["--limits", "nothing.toml"], "nothing.toml"),
        (["--schema", "nothing.toml"], "nothing.toml"),
        (["--example", "german-credit"], "--example: stands in place of DATA"),
        (["--plain"], "features: every column must be numeric"),
        (["--model", "ridge"], "goal: must be one number, got 'yes'"),
        (["--sep", ";"], "read it with --sep ','"),
        (["--query", "4,4"], "query: everyone asks once, got '4' twice"),
        (["--several", "worst"], "several: is for several people, and one is asked about"),
        (["--share", "0.5"], "share: is for several people, and one is asked about"),
        (["--within", "2"], "within"),
        (["--model", "svm", "--probability", "0.9"], "probability"),
    ],
)
def test_one_line_says_what_is_wrong(table, arguments, complaint):
    said = failed("plan", "people.csv", *ASKED, "--out", "plan", *arguments)
    assert re.search(complaint, said), said
    assert [path.name for path in table.iterdir()] == ["people.csv"]


@pytest.mark.parametrize(
    ("left_out", "complaint"),
    [
        (0, "--target: must be the column"),
        (2, "--query: must be a row"),
        (4, "--goal: must be the prediction"),
        (6, "--budget: must say how far"),
    ],
)
def test_what_is_missing_is_named(table, left_out, complaint):
    rest = ASKED[:left_out] + ASKED[left_out + 2 :]
    assert complaint in failed("plan", "people.csv", *rest, "--out", "plan")


@pytest.mark.parametrize("option", [["--norm", "2"], ["--limits", "nothing.toml"]])
def test_nothing_is_said_of_moves_where_nobody_moves(table, option):
    said = failed("plan", "people.csv", *ASKED[:-2], "--relabel", "2", "--out", "plan", *option)
    assert f"{option[0]}: is about moves, and nobody moves without --budget" in said


@pytest.mark.parametrize("option", [["--sep", ";"], ["--encoding", "latin-1"], ["--missing", "drop"], ["--plain"]])
def test_the_example_has_its_own_layout(table, option):
    assert f"{option[0]}: the example has its own" in failed("plan", "--example", "german-credit", *option)


def test_parquet_has_no_delimiter(table):
    people().to_parquet("people.parquet")
    said = failed("plan", "people.parquet", *ASKED, "--out", "plan", "--sep", ";")
    assert "--sep: is for texts, and people.parquet is Parquet" in said


def test_plain_numbers_have_no_limits(table):
    numbers().to_csv("points.csv", index=False)
    plain = ["points.csv", "--target", "kind", "--query", "1", "--goal", "1", "--budget", "0.5", "--plain"]
    for more in (["--limits", "nothing.toml"], ["--probability", "0.9", "--model", "ridge"]):
        failed("plan", *plain, "--out", "plan", *more)


def test_data_must_be_named(table):
    assert "DATA: must be a file" in failed("plan", *ASKED, "--out", "plan")
    assert "does not exist. Did you mean 'people.csv'" in failed("plan", "poeple.csv", *ASKED, "--out", "plan")


def test_a_person_with_gaps_cannot_ask_unless_they_are_filled(table):
    frame = people()
    frame.loc[1, "income"] = None
    frame.to_csv("people.csv", index=False)
    assert "missing" in failed("plan", "people.csv", *ASKED, "--out", "plan")
    said = failed("plan", "people.csv", *ASKED, "--out", "plan", "--missing", "drop")
    assert "query: row 1 has missing values and was dropped" in said
    done("plan", "people.csv", *ASKED, "--out", "plan", "--missing", "impute")


def test_a_folder_of_other_files_is_not_written_to(table):
    (table / "plan").mkdir()
    (table / "plan" / "thesis.txt").write_text("important")
    said = failed("plan", "people.csv", *ASKED, "--out", "plan")
    assert "holds other files (thesis.txt)" in said
    done("plan", "people.csv", *ASKED, "--out", "plan", "--force")
    assert (table / "plan" / "thesis.txt").read_text() == "important"
    done("plan", "people.csv", *ASKED, "--out", "plan")  # now it is a plan's
    assert (table / "plan" / "thesis.txt").read_text() == "important"


def test_an_older_plans_card_does_not_outlive_it(table):
    done("plan", "people.csv", *ASKED, "--out", "plan")
    assert (table / "plan" / "plan.json").exists()
    done("plan", "people.csv", *ASKED[:-2], "--relabel", "2", "--out", "plan")
    assert not (table / "plan" / "plan.json").exists()
    assert audited(table / "plan")["outcome"]["relabelled"] <= 2


def test_an_audit_alone_makes_no_folder_a_plans(table):
    done("plan", "people.csv", *ASKED, "--out", "plan")
    (table / "own").mkdir()
    done(
        "audit", "plan/plan.json", "people.csv", "--target", "approved", "--query", "1", "--out", "own/audit.json"
    )  # fmt: skip
    (table / "own" / "report.html").write_text("mine")
    assert "holds other files (audit.json, …)" in failed("plan", "people.csv", *ASKED, "--out", "own")
    assert (table / "own" / "report.html").read_text() == "mine"


def test_a_file_of_ones_own_is_not_replaced(table):
    without_card = ("plan", "people.csv", *ASKED[:-2], "--relabel", "2", "--out", "plan")
    done(*without_card)
    assert set(audited(table / "plan")["files"]) == {path.name for path in (table / "plan").iterdir()}
    (table / "plan" / "plan.json").write_text("mine")
    assert "holds other files (plan.json)" in failed("plan", "people.csv", *ASKED, "--out", "plan")
    done(*without_card, "--force")
    assert (table / "plan" / "plan.json").read_text() == "mine"  # nothing is written over it, so it stays
    done("plan", "people.csv", *ASKED, "--out", "plan", "--force")
    assert (table / "plan" / "plan.json").read_text() != "mine"


def assert_ctrl_c_leaves_nothing(table, code, pause=0.0):
    """Interrupt a plan, made by `code`, so long after it says that it began."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "plan", "people.csv", *ASKED, "--out", "deep/plan"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(oar.__file__).parents[1])},
    )
    try:
        assert process.stdout.readline() == "began\n"
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert complaint.endswith("oar: interrupted; nothing was written.\n")
    assert [path.name for path in table.iterdir()] == ["people.csv"]


def test_ctrl_c_leaves_nothing(table):
    code = (
        "import sys, time, oar.recourse, oar\n"
        "oar.collective = lambda problem: (print('began', flush=True), time.sleep(60))\n"
        "from oar.cli import main; main()"
    )
    assert_ctrl_c_leaves_nothing(table, code, pause=0.2)


def test_ctrl_c_ends_a_command_whose_threads_still_compute(table):
    """JAX's threads are in the middle of a long product when Ctrl-C comes, and Python's own end would crash them."""
    code = (
        "import time, oar\n"
        "def collective(problem):\n"
        "    import jax, jax.numpy as jnp\n"
        "    far = jax.jit(lambda x: jax.lax.fori_loop(0, 10_000, lambda _, y: y @ x / 3000, x))\n"
        "    kept = far(jnp.ones((3000, 3000)))\n"
        "    print('began', flush=True)\n"
        "    for _ in range(600):\n"  # a signal just before one long sleep would be heard after it
        "        time.sleep(0.1)\n"
        "oar.collective = collective\n"
        "from oar.cli import main; main()"
    )
    assert_ctrl_c_leaves_nothing(table, code)


HOSTILE = "<script>alert('1')</script>"
IMAGE = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def hostile(table):
    """A plan for a table whose columns and categories are HTML, and formulas."""
    frame = people().rename(columns={"income": HOSTILE, "purpose": "=cmd|' /C calc'!A0", "town": IMAGE})
    frame["=cmd|' /C calc'!A0"] = frame["=cmd|' /C calc'!A0"].replace({"car": "@SUM(1)", "home": IMAGE})
    frame["approved"] = frame["approved"].replace({"yes": "<b>yes</b>", "no": "-2+3"})
    frame.to_csv("hostile.csv", index=False)
    done(
        "plan", "hostile.csv", "--target", "approved", "--query", "1", "--goal", "<b>yes</b>", "--budget", "1.2",
        "--norm", "inf", "--group", IMAGE, "--out", "plan",
    )  # fmt: skip
    return table / "plan"


def test_html_in_names_stays_text(hostile):
    report = (hostile / "report.html").read_text()
    assert "<script" not in report
    assert "<img" not in report
    assert "<b>" not in report
    assert "&lt;script&gt;alert" in report


def test_formulas_in_names_are_harmless_in_the_csv(hostile):
    import csv

    with open(hostile / "moves.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert any(cell.startswith("'=") for row in rows for cell in row)
    assert any(cell.startswith("'@") for row in rows for cell in row)
    for row in rows:
        for cell in row:
            if cell[:1] in "=+-@\t\r":
                float(cell)  # a number, not a formula


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda card: json.dumps(card | {"version": 99}), "has version 99.*install the oar that wrote it"),
        (lambda card: json.dumps(card)[:-200], "damaged or truncated"),
        (lambda card: "", "damaged or truncated"),
        (lambda card: json.dumps({"hello": 1}), "is not an OAR card"),
    ],
)
@pytest.mark.parametrize("command", ["respond", "audit"])
def test_a_card_that_is_none_is_refused(table, command, spoil, complaint):
    done("plan", "people.csv", *ASKED, "--out", "plan")
    card = json.loads((table / "plan" / "plan.json").read_text())
    (table / "card.json").write_text(spoil(card))
    rest = [] if command == "respond" else ["--target", "approved", "--query", "1"]
    said = failed(command, "card.json", "people.csv", *rest)
    assert re.search(complaint, said), said


def test_every_command_has_an_example_in_its_help():
    for command in ("plan", "respond", "audit", "questions", "leverage"):
        assert re.search(r"Example: oar \w+", run(command, "--help").output)


def test_forcing_without_a_file_is_refused(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    said = failed("schema", tmp_path / "people.csv", "--target", "approved", "--force")
    assert "--force: is for a file that is written" in said
    common = [tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.1]
    for command in (["questions", *common], ["leverage", *common, "--group", "town"]):
        assert "--force: is for a file that is written" in failed(*command, "--force")
