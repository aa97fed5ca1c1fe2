"""Kills, interrupts and company: real processes, real signals."""

import os
import signal
import sqlite3
import time
from collections import Counter

import pytest
from support.study_problems import QUICK, problem, run_small, slow_process

import oar

PATIENCE = 60.0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    study = run_small(folder / "study.db", workers=1)
    study.to_parquet(folder / "cells.parquet")
    return study.table(), (folder / "cells.parquet").read_bytes()


def finished(store):
    try:
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        (number,) = connection.execute("SELECT count(*) FROM cells WHERE status = 'done'").fetchone()
        connection.close()
    except sqlite3.OperationalError:  # not there yet
        return 0
    return number


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def begun(notes):
    return notes.read_text().splitlines() if notes.exists() else []


def test_a_kill_loses_what_was_under_way_and_no_more(tmp_path, undisturbed):
    store, notes = tmp_path / "study.db", tmp_path / "notes"
    with slow_process(store, 0.1, notes) as victim:
        wait_until(lambda: finished(store) >= 3)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
    left = oar.results.Study.open(store)
    done = left.counts["done"]
    assert 3 <= done < 16
    assert left.counts["running"] <= 2  # one question, for two seeds at the most
    before = left.table()
    study = run_small(store, workers=1)
    assert study.table().equals(undisturbed[0])
    kept = study.table()[(before["status"] == "done").to_numpy()]
    assert kept.equals(before[before["status"] == "done"])  # what was done was not touched
    study.to_parquet(tmp_path / "cells.parquet")
    assert (tmp_path / "cells.parquet").read_bytes() == undisturbed[1]


def test_processes_that_help_end_with_whoever_started_them(tmp_path, undisturbed):
    import subprocess
    import sys

    from support.pages import ROOT

    store = tmp_path / "study.db"
    script = "import sys, support.study_problems as small; small.run_small(sys.argv[1], workers=2)"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    with subprocess.Popen([sys.executable, "-c", script, str(store)], env=os.environ | {"PYTHONPATH": paths}) as victim:
        wait_until(lambda: finished(store) >= 1)
        helpers = children(victim.pid)
        assert len(helpers) == 2
        victim.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_there, helpers)))
    assert run_small(store, workers=1).table().equals(undisturbed[0])


def children(number):
    with open(f"/proc/{number}/task/{number}/children") as file:
        return [int(each) for each in file.read().split()]


def is_there(number):
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_processes_share_a_study_and_do_nothing_twice(tmp_path, undisturbed):
    store, notes = tmp_path / "study.db", tmp_path / "notes"
    with slow_process(store, 0.1, notes) as one, slow_process(store, 0.1, notes) as other:
        told = [process.communicate(timeout=PATIENCE) for process in (one, other)]
    assert [out for out, _ in told] == ["done\n", "done\n"], told  # both wait until all is done
    times = Counter(begun(notes))
    assert len(times) == 12  # sixteen cells, of which four pairs are one question each
    assert set(times.values()) == {1}
    assert oar.results.Study.open(store).table().equals(undisturbed[0])


def test_whoever_is_left_takes_over(tmp_path, undisturbed):
    store, notes = tmp_path / "study.db", tmp_path / "notes"
    with slow_process(store, 0.1, notes) as victim, slow_process(store, 0.1, notes) as other:
        wait_until(lambda: finished(store) >= 4)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        assert other.communicate(timeout=PATIENCE)[0] == "done\n"
    assert oar.results.Study.open(store).table().equals(undisturbed[0])


def test_an_interrupt_gives_back_what_was_under_way_and_says_how_to_go_on(tmp_path, undisturbed):
    store, notes = tmp_path / "study.db", tmp_path / "notes"
    with slow_process(store, 0.1, notes) as interrupted:
        wait_until(lambda: finished(store) >= 2)
        interrupted.send_signal(signal.SIGINT)
        _, said = interrupted.communicate(timeout=PATIENCE)
    counts = oar.results.Study.open(store).counts
    assert counts["running"] == 0
    assert f"KeyboardInterrupt: {counts['done']} of 16 cells are kept in {store}; run the same study again" in said
    assert run_small(store, workers=1).table().equals(undisturbed[0])


def test_processes_answer_as_this_one_does(tmp_path, undisturbed):
    study = run_small(tmp_path / "study.db", workers=2)
    assert study.table().equals(undisturbed[0])


def test_lambdas_are_handed_over_too(tmp_path):
    asked = problem(oar.SoftmaxRegression(), participants=lambda people: people.features[:, 0] > 0.5)
    for workers in (1, 2):
        oar.study(asked, budgets=[0.1, 0.2], solver=QUICK, store=tmp_path / f"{workers}.db", workers=workers)
    one, two = (oar.results.Study.open(tmp_path / f"{workers}.db").table() for workers in (1, 2))
    assert one.equals(two)


def test_a_process_that_dies_is_told(tmp_path):
    import threading

    asked = problem(oar.SoftmaxRegression(), participants=end_elsewhere(os.getpid()))
    with pytest.raises(oar.errors.OARError, match="a process ended before its answer.*fewer workers"):
        oar.study(asked, budgets=[0.1, 0.2], solver=QUICK, store=tmp_path / "study.db", workers=2)
    assert oar.results.Study.open(tmp_path / "study.db").counts["pending"] == 2
    assert threading.active_count() < 20


def end_elsewhere(here):
    def everyone(people):
        if os.getpid() != here:
            os._exit(9)
        return people.features[:, 0] > -9

    return everyone


def test_files_of_the_current_folder_are_not_run_by_workers(tmp_path, monkeypatch):
    """Data may lie beside a struct.py; modules that this process finds there are found, and take nobody's place."""
    for name in ("struct", "numpy", "calendar"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run by accident')")
    (tmp_path / "somebodys_members.py").write_text("def members(people):\n    return people.features[:, 0] > -9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # as in a notebook
    from somebodys_members import members

    asked = problem(oar.SoftmaxRegression(), participants=members)
    assert oar.study(asked, budgets=[0.1], solver=QUICK, store="other.db", workers=2).counts["done"] == 1
