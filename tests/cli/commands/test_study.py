"""`oar study`: TOML files, what they cannot say, exports and figures."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pandas as pd
import pytest
from support.commands import done, failed, numbers, people, run
from support.pages import ROOT

import oar

PLAIN = """
data = "people.csv"
target = "kind"
plain = true
goal = 1
model = "nearest-centroid"

[axes]
budgets = [0.5, 1.0, 2.0]
participation = [0.5, 1.0]
queries = [3, 7]
seeds = [0, 1]
"""


@pytest.fixture
def folder(tmp_path):
    numbers().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "study.toml").write_text(PLAIN)
    return tmp_path


def test_it_runs_a_file_and_says_how_often_goals_are_reached(folder):
    files = folder / "cells.parquet", folder / "phase.png"
    told = done("study", folder / "study.toml", "--workers", 1, "--export", files[0], "--figure", files[1])
    assert "nearest-centroid: how often the goal is reached" in told
    assert f"Done. 24 done in {folder / 'study.db'}" in told
    assert "Limits: none but the budget" in run("study", folder / "study.toml", "--workers", 1).stderr
    table = pd.read_parquet(files[0])
    frame = numbers()
    everyone = oar.Population(frame[["x", "y"]], frame["kind"])
    for row in table.itertuples():
        query = oar.Query(oar.Members([int(row.query)], stay=True), goal=1)
        action = oar.Perturb(row.budget, participants=row.participation, seed=int(row.seed))
        alone = oar.collective(oar.Problem(everyone, oar.NearestCentroid(), query, action))
        assert row.loss == pytest.approx(alone.loss, rel=1e-9)
        assert row.success == alone.success
    assert 0 < table["success"].sum() < len(table)
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_a_finished_store_can_be_shown_again(folder):
    done("study", folder / "study.toml", "--store", folder / "elsewhere.db")
    told = done("study", folder / "elsewhere.db", "--export", folder / "cells.csv")
    assert "24 done" in told
    assert len(pd.read_csv(folder / "cells.csv")) == 24
    assert "is for a study that is run" in failed("study", folder / "elsewhere.db", "--workers", 2)
    (folder / "phase.png").touch()
    for option, path in (("--export", folder / "cells.csv"), ("--figure", folder / "phase.png")):
        said = failed("study", folder / "study.toml", option, path)
        assert said == f"oar: {option}: {path} is there already; choose another name, or add --force.\n"
        done("study", folder / "elsewhere.db", option, path, "--force")


def test_a_file_of_another_kind_is_refused_by_the_name_of_its_option(folder):
    said = failed("study", folder / "study.db", "--export", folder / "x.xlsx")
    assert said == "oar: --export: must end in .parquet or .csv, got 'x.xlsx'.\n"
    said = failed("study", folder / "study.db", "--figure", folder / "x.gif")
    assert said == "oar: --figure: must end in .png or .svg or .pdf, got 'x.gif'.\n"


def test_cells_may_be_listed_and_queries_may_be_files(folder):
    pd.DataFrame({"x": [0.5], "y": [1.0]}).to_csv(folder / "asker.csv", index=False)
    head = PLAIN.partition("[axes]")[0]
    cells = '[[cells]]\nbudget = 0.5\nquery = "asker.csv"\n[[cells]]\nbudget = 1\nquery = 3\nparticipation = 0.5\n'
    (folder / "study.toml").write_text(head + cells)
    done("study", folder / "study.toml")
    table = oar.results.Study.open(folder / "study.db").table()
    assert table[["query", "budget"]].to_numpy().tolist() == [["asker.csv", 0.5], ["3", 1.0]]


def studied(folder, rest):
    """Run a study of a small table; return what it found."""
    people(40).to_csv(folder / "people.csv", index=False)
    head = 'data = "people.csv"\ntarget = "approved"\ngoal = "yes"\nquery = 1\nleave-out = "town"\n'
    (folder / "study.toml").write_text(head + rest)
    done("study", folder / "study.toml", "--workers", 1)
    return oar.results.Study.open(folder / "study.db").table()


def test_cells_that_name_no_query_or_model_have_those_at_the_top(tmp_path):
    cells = '[[cells]]\nbudget = 0.1\nquery = 4\nmodel = "naive-bayes"\n[[cells]]\nbudget = 0.2\n'
    table = studied(tmp_path, f'model = "softmax"\n{cells}').sort_values("budget")
    assert table[["query", "budget"]].to_numpy().tolist() == [["4", 0.1], ["1", 0.2]]
    assert ["bayes" in name for name in table["model"]] == [True, False]


def test_a_table_with_several_models(tmp_path):
    table = studied(tmp_path, '[axes]\nbudgets = [0.1, 0.3]\nmodels = ["softmax", "naive-bayes"]\n')
    assert table["model"].tolist() == ["softmax"] * 2 + ["naive-bayes"] * 2
    assert (table["status"] == "done").all()


def test_a_changed_file_of_people_is_refused(folder):
    done("study", folder / "study.toml")
    frame = numbers()
    frame.loc[0, "x"] += 1
    frame.to_csv(folder / "people.csv", index=False)
    assert "fingerprint differs in people" in failed("study", folder / "study.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("goal = 1", "gaol = 1"), "Did you mean 'goal'?"),
        (("budgets", "bugdets"), "Did you mean 'budgets'?"),
        (("[0.5, 1.0, 2.0]", "0.5"), "budgets: must be a list"),
        (("[0.5, 1.0, 2.0]", '["much"]'), "budget: must be a number"),
        (("plain = true", 'plain = "yes"'), "plain: must be true or false"),
        (('model = "nearest-centroid"', 'model = "centroid"'), "must be one of"),
        (("goal = 1", "goal = 9"), "goal: must be a value of 'kind'"),
        (("[axes]", "[[cells]]\nbudget = 1\n[axes]"), "leave one out"),
        (("plain = true", "plain ="), "must be a TOML file"),
        (("[3, 7]", "[3, 700]"), "query: must be a row from 0 to 59"),
        (("people.csv", "nobody.csv"), "nobody.csv"),
        (('model = "nearest-centroid"', "store = 3"), "store: must be a text"),
        (('model = "nearest-centroid"', 'store = "nowhere/x.db"'), "store: must be a file in a folder that is there"),
        (("plain = true", 'limits = "no.toml"'), "limits: must be a TOML file, got 'no.toml', which is not there"),
        (("plain = true", 'schema = "no.toml"'), "schema: must be a TOML file, got 'no.toml', which is not there"),
        (("queries = [3, 7]", ""), "query: must say who asks, a row of the data or a file, got none; add query = …"),
        (("budgets = [0.5, 1.0, 2.0]", ""), "budget: must say how far members may go, got none; add budget = …"),
        (('data = "people.csv"', ""), 'data: must be a file of people, got none; or name example = "german-credit".'),
        (('target = "kind"', ""), "oar: target: must be the column"),
        (("goal = 1", ""), "oar: goal: must be the prediction"),
        (("goal = 1", "goal = 1\nnot = 1"), "oar: not: is used in place of goal, got both"),
        (("people.csv", "many.csv"), "oar: model: nearest-centroid takes every value for a class"),
        (("people.csv", "many.csv"), 'predict values with model = "ridge".'),
    ],
)
def test_what_a_file_cannot_say_is_told_in_a_line(folder, change, message):
    text = PLAIN.replace(*change)
    assert text != PLAIN
    (folder / "study.toml").write_text(text)
    numbers().assign(kind=range(60)).to_csv(folder / "many.csv", index=False)
    assert message in failed("study", folder / "study.toml")
    assert not (folder / "study.db").exists()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("", "oar: query: must say who asks"),
        ("query = 3", "oar: budget: must say how far members may go"),
        ("[[cells]]\nquery = 3\nbugdet = 0.5", "oar: cells[0]: must be one of 'model', 'query', 'budget', "
         "'participation', 'seed', 'most', got 'bugdet'. Did you mean 'budget'?"),
        ("[[cells]]\nbudget = 0.5", "oar: query: must say who asks"),
        ("[[cells]]\nquery = 3", "oar: cells[0] budget: must say how far members may go"),
        ("[[cells]]\nquery = 3\nbudget = 1\n[[cells]]\nquery = 7", "oar: cells[1] budget: must say how far"),
    ],
)  # fmt: skip
def test_a_file_without_queries_or_budgets_is_told_by_its_own_keys(folder, cells, message):
    (folder / "study.toml").write_text(PLAIN.partition("[axes]")[0] + cells)
    said = failed("study", folder / "study.toml")
    assert message in said
    assert "--" not in said
    assert not (folder / "study.db").exists()


def test_one_cell_needs_no_axes_and_others_than_movers_no_budget(folder):
    head = PLAIN.partition("[axes]")[0]
    (folder / "study.toml").write_text(head + "query = 3\nbudget = 1\n")
    assert "Done. 1 done" in done("study", folder / "study.toml")
    (folder / "study.toml").write_text(head + 'query = 3\nwithhold = 2\nstore = "other.db"\n')
    assert "Done. 1 done" in done("study", folder / "study.toml")


def test_files_whose_names_look_like_options_keep_them(folder):
    odd = folder / "of DATA --goal"
    odd.mkdir()
    (odd / "study.toml").write_text(PLAIN)
    assert "of DATA --goal" in failed("study", odd / "study.toml")


def test_a_study_with_cells_that_failed_or_wait_is_not_done(folder):
    done("study", folder / "study.toml")
    connection = sqlite3.connect(folder / "study.db")
    for status in ("failed", "pending"):
        connection.execute(f"UPDATE cells SET status = '{status}' WHERE rowid = (SELECT min(rowid) FROM cells)")
        connection.commit()
        told = done("study", folder / "study.db").splitlines()[-1]
        assert told.startswith("Not done: ")
        assert {f"1 {status}", "23 done"} == set(told.removeprefix("Not done: ").partition(" in ")[0].split(", "))
    connection.close()


def test_a_table_of_people_is_neither_a_study_nor_its_store(folder):
    assert "people.csv, which is neither; name data in a TOML file" in failed("study", folder / "people.csv")


def test_a_file_that_is_not_there(tmp_path):
    assert "does not exist" in failed("study", tmp_path / "study.toml")
    assert "does not exist" in failed("study", tmp_path / "study.db")


def test_as_a_command_it_ends_on_ctrl_c_and_goes_on(folder):
    (folder / "study.toml").write_text(PLAIN.replace("nearest-centroid", "softmax").replace("[3, 7]", "[3, 7, 9, 11]"))
    command = [sys.executable, "-m", "oar", "study", str(folder / "study.toml"), "--workers", "1"]
    given = {"env": os.environ | {"PYTHONPATH": str(ROOT / "src")}, "text": True, "cwd": folder}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given) as running:
        deadline = time.monotonic() + 60
        while not _some_done(folder / "study.db") and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        told, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told == ""
    assert said == "oar: interrupted; what is done is kept; run the same command again to go on.\n"
    counts = oar.results.Study.open(folder / "study.db").counts
    assert counts["done"] > 0
    assert counts["running"] == 0
    shown = subprocess.run([*command[:4], "study.db"], capture_output=True, check=True, **given)
    assert ("Not done: " in shown.stdout) == (counts["pending"] > 0)
    assert f"{counts['done']} done" in shown.stdout.replace(f"{counts['pending']} pending, ", "")


def _some_done(store):
    try:
        return store.exists() and oar.results.Study.open(store).counts["done"] > 0
    except oar.errors.StorageError:
        return False
