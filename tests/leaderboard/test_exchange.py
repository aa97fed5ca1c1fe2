"""What passes between the leaderboard and a contender: problems, moments, and what a killed contender leaves."""

import json

import numpy as np
import pytest
from benchmarks.leaderboard.problems import Stated, iris
from benchmarks.leaderboard.running import _read_lines, chosen
from benchmarks.peers.moving import Patience, Task


@pytest.fixture
def folder(tmp_path):
    iris(0.3).save(tmp_path / "problem.npz")
    task = {"problem": str(tmp_path / "problem.npz"), "seconds": 60.0, "spacing": 2.0}
    (tmp_path / "task.json").write_text(json.dumps(task), encoding="utf-8")
    return tmp_path


def test_contenders_read_what_was_stated(folder):
    problem, task = iris(0.3), Task(folder, "numpy")
    for name in ("features", "labels", "query", "goal", "budget", "l2", "classes"):
        assert np.array_equal(getattr(task, name), getattr(problem, name)), name
    again = Stated.load(folder / "problem.npz")
    assert np.array_equal(again.features, problem.features)
    assert (again.goal, again.budget, again.l2) == (1, 0.3, 1e-2)
    assert json.loads((folder / "started.json").read_text())["versions"]["numpy"] == np.__version__


def test_two_rows_are_told_twice_the_penalty_of_one_logit(folder):
    problem = iris(0.3)
    few = problem.labels < 2
    Stated(problem.features[few], problem.labels[few], problem.query, 1, 0.3).save(folder / "problem.npz")
    task = Task(folder)
    assert (task.single_l2, task.l2) == (1e-2, 2e-2)


def test_moments_are_spaced_and_the_answer_is_always_kept(folder, monkeypatch):
    task = Task(folder)
    times = iter([1.0, 1.5, 1.99, 2.0, 3.0, 3.5])
    monkeypatch.setattr(Task, "elapsed", property(lambda self: next(times)))
    for number in range(5):
        task.passes = number
        task.record(lambda number=number: np.full((2, 2), number))
    task.finish(np.full((2, 2), 9.0), "done", claimed=0.5)
    lines = _read_lines(folder / "journal.jsonl")
    assert [line["seconds"] for line in lines] == [1.0, 1.5, 2.0, 3.0, 3.5]
    assert [line["passes"] for line in lines] == [0, 1, 3, 4, 4]
    assert [np.load(folder / line["file"])[0, 0] for line in lines] == [0, 1, 3, 4, 9]
    assert json.loads((folder / "ended.json").read_text()) == {"ended": "done", "claimed": 0.5}


def test_the_clock_stands_still_while_moves_are_written(folder, monkeypatch):
    task, clock = Task(folder), [100.0]
    monkeypatch.setattr("benchmarks.peers.moving.time.perf_counter", lambda: clock[0])
    task.began = 90.0

    def slow():
        clock[0] += 50.0
        return np.zeros((1, 1))

    task.record(slow)
    assert task.elapsed == 10.0
    assert task.fastest(("slow", "fast"), lambda choice: slow() if choice == "slow" else None) == "fast"
    assert task.elapsed == 10.0


def test_half_a_line_does_not_count(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"seconds": 1.0, "file": "0000.npy"}\n{"seconds": 2.0, "fi')
    assert [line["seconds"] for line in _read_lines(tmp_path / "journal.jsonl")] == [1.0]


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_chosen_lines_end_with_the_answer(most):
    lines = [{"place": place} for place in range(17)]
    found = [line["place"] for line in chosen(lines, most)]
    assert len(found) == min(most, 17)
    assert found == sorted(found)
    assert most == 1 or (found[0], found[-1]) == (0, 16)
    assert chosen([], most) == []


def test_patience_ends_where_nothing_is_gained():
    patience = Patience(steps=3, share=1e-3)
    assert [patience.lost(loss) for loss in (2.0, 1.0, 1.5, 0.9999, 1.2, 3.0)] == [False] * 4 + [True, True]
    falling = Patience(steps=3, share=1e-3)
    assert not any(falling.lost(1.0 - 0.01 * step) for step in range(20))
