"""Contenders that hang, fail, hoard or leave children behind; tables, figures and the page made of what they did."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import environments
from benchmarks.environments import NoEnvironment
from benchmarks.leaderboard import page, results, running
from benchmarks.leaderboard.contenders import CONTENDERS, Contender
from benchmarks.leaderboard.problems import Entry, iris
from benchmarks.leaderboard.referee import Referee, Verdict
from benchmarks.leaderboard.results import Problem, as_markdown, cells
from benchmarks.leaderboard.running import Allowance, Moment, Run, run

ENTRY = Entry("iris", "Iris", 150, lambda: iris(0.3), 4, 3)
PLENTY = Allowance(seconds=1.0, memory=1e12)
BEGINNING = f"""
import sys, time
sys.path.insert(0, {str(environments.RUNNERS)!r})
import numpy as np
from moving import Task
task = Task(sys.argv[1])
moves = np.zeros_like(task.features)
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return a function that runs a program as a contender on Iris."""
    monkeypatch.setattr(running, "START_UP", 3.0)
    problem = iris(0.3)
    problem.save(tmp_path / "iris.npz")

    def asked(program: str, allowance: Allowance = PLENTY, environment: str | None = None, **settings) -> Run:
        (tmp_path / "program.py").write_text(BEGINNING + program, encoding="utf-8")
        contender = Contender("somebody", str(tmp_path / "program.py"), environment, **settings)
        found = run(contender, ENTRY, tmp_path / "iris.npz", Referee(problem), allowance)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["iris.npz", "program.py"]  # nothing left behind
        return found

    return asked


def test_an_answer_is_judged(ask):
    found = ask("moves[3, 0] = task.budget\ntask.passes = 5\ntask.finish(moves, 'done', claimed=1.0)")
    assert (found.ended, found.skipped, found.facts) == ("done", "", {"claimed": 1.0})
    (answer,) = found.moments
    moves = np.zeros((150, 4))
    moves[3, 0] = 0.3
    assert answer.verdict.loss == pytest.approx(Referee(iris(0.3)).judge(moves).loss, abs=1e-9)
    assert answer.verdict.kept
    assert answer.passes == 5
    assert found.versions["python"] == sys.version.split()[0]


def test_who_hangs_is_ended_and_judged_by_the_last_moves(ask):
    found = ask("task.record(moves)\nmoves[0] = 9.0\ntask.record(moves, always=True)\ntime.sleep(600)")
    assert (found.ended, found.skipped) == ("", "")
    assert [moment.verdict.kept for moment in found.moments] == [True, False]


def test_who_fails_is_listed_with_the_reason(ask):
    found = ask("raise RuntimeError('no luck')")
    assert not found.moments
    assert found.skipped == "failed: RuntimeError: no luck"


def test_who_holds_too_much_is_ended(ask):
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not say how much a process holds")
    found = ask("task.record(moves)\nheld = np.ones(40_000_000)\ntime.sleep(600)", Allowance(60.0, 2e8), floor=0.0)
    assert found.ended == "stopped: held more than 0.2 GB"
    assert len(found.moments) == 1


def test_children_end_with_their_parent(ask, tmp_path):
    mark = tmp_path.parent / "child"
    found = ask(
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
        "task.finish(moves, 'done')"
    )
    assert found.ended == "done"
    child = int(mark.read_text())
    for _ in range(100):  # it is gone, or a zombie that nobody has asked about yet
        state = Path(f"/proc/{child}/stat")
        if not _alive(child) or (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"):
            return
        time.sleep(0.05)
    pytest.fail("the contender's child lives on")


def test_nobody_runs_on_when_we_are_interrupted(ask, monkeypatch):
    started, start = [], subprocess.Popen

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(running.time, "sleep", interrupted)
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: started.append(start(*given, **more)) or started[0])
    with pytest.raises(KeyboardInterrupt):
        ask("time.sleep(600)")
    (process,) = started
    assert process.returncode is not None
    assert not _alive(process.pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_who_would_need_too_much_is_not_tried(ask):
    found = ask("raise RuntimeError", Allowance(1.0, 1e9), floor=7e10)
    assert found.skipped == "not tried: needs about 70 GB"


def test_who_cannot_be_installed_is_listed_with_the_reason(ask, monkeypatch):
    def refused(name, pins_only=True):
        raise NoEnvironment("its environment cannot be made: ERROR: no such package")

    monkeypatch.setattr(running, "environment", refused)
    assert ask("", environment="nobody").skipped == "its environment cannot be made: ERROR: no such package"


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_contenders_have_runners_and_pins(contender):
    assert (environments.RUNNERS / contender.runner).is_file()
    if contender.environment is not None:
        pins = (environments.RUNNERS / f"{contender.environment}.txt").read_text().split()
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
        assert pins == sorted(pins, key=str.lower)


def _run(name: str, *losses: float, kept: bool = True) -> Run:
    moments = [
        Moment(2.0**place, place, Verdict(loss, False, 1.0 if kept else 2.0, kept)) for place, loss in enumerate(losses)
    ]
    return Run(name, "p", moments, 1e8, "", "" if losses else "not tried: needs about 9 GB", {}, {"python": "3"})


PROBLEM = Problem(
    "p",
    "A problem",
    10,
    2.0,
    (
        _run(CONTENDERS[0].name, 2.0, 1.5, 1.001),
        _run(CONTENDERS[1].name, 2.0, 1.0),
        _run(CONTENDERS[2].name, 0.5, kept=False),
        _run(CONTENDERS[3].name),
    ),
)


def test_whoever_breaks_limits_is_never_the_best():
    assert PROBLEM.best == 1.0
    assert [run.contender for run in PROBLEM.ranked()] == [CONTENDERS[place].name for place in (1, 0, 2, 3)]
    assert "broken: 2 ε" in cells(PROBLEM, PROBLEM.runs[2])
    assert PROBLEM.nearly_there(PROBLEM.runs[2]) is None


def test_the_table_says_how_near_and_when():
    first = cells(PROBLEM, PROBLEM.runs[0])
    assert first[1:3] == ("1.001000", "99.900 %")
    assert first[4] == "4 s"  # 0.1 % of the gain is missing then, and half of it before
    assert cells(PROBLEM, PROBLEM.runs[3])[-1] == "not tried: needs about 9 GB"


def test_json_goes_there_and_back(tmp_path):
    skipped = Problem("adult", "Adult", 45_222, skipped="its files are not here")
    results.save(tmp_path / "all.json", {"seconds": 1.0}, [PROBLEM, skipped])
    facts, problems = results.load(tmp_path / "all.json")
    assert facts == {"seconds": 1.0}
    assert as_markdown(problems) == as_markdown([PROBLEM, skipped])
    assert problems[0] == PROBLEM


def test_an_update_replaces_what_was_run_again(tmp_path):
    other = Problem("q", "Another", 5, 3.0)
    results.save(tmp_path / "all.json", {"seconds": 1.0, "command": "a"}, [PROBLEM, other])
    again = Problem("q", "Another", 5, 4.0)
    facts, problems = results.updated(tmp_path / "all.json", {"seconds": 2.0, "command": "b"}, [again])
    assert facts == {"seconds": 3.0, "command": "a; b"}
    assert problems == [PROBLEM, again]
    new = Problem("r", "A third", 5, 2.0)
    assert results.updated(tmp_path / "all.json", {"seconds": 2.0, "command": "b"}, [new])[1] == [PROBLEM, other, new]


def test_the_page_keeps_its_prose(tmp_path, monkeypatch):
    text = f"# Title\n\nBefore.\n\n{page.BEGIN}\nold\n{page.END}\n\nAfter.\n"
    (tmp_path / "leaderboard.md").write_text(text, encoding="utf-8")
    machine = {
        "cpus": 2,
        "processor": "some",
        "load": 0.5,
        "versions": dict.fromkeys(("scikit-learn", "numpy", "scipy")),
    }
    facts = {"machine": machine, "command": "it", "seconds": 60.0, "allowed": 5.0, "load_at_the_end": 0.1}
    page.write(facts, [PROBLEM], tmp_path)
    monkeypatch.setattr(page, "draw", lambda problems, path: None)  # once is enough
    page.write(facts, [PROBLEM], tmp_path)  # replaces what the first time wrote
    found = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert found.startswith("# Title\n\nBefore.\n")
    assert found.endswith("\n\nAfter.\n")
    assert "old" not in found
    assert found.count("### A problem") == 1
    assert (tmp_path / "figures" / "leaderboard.png").stat().st_size > 10_000
    (tmp_path / "leaderboard.md").write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the lines"):
        page.write(facts, [PROBLEM], tmp_path)
