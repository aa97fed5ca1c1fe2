"""--effort and --time-limit: they hold for all that a command computes, and the output says when the time was over."""

from __future__ import annotations

import json

import pytest
from support.commands import done, failed, found_in, numbers, people, run

from oar.progress import deadline
from oar.solvers import registry

LONG = ["plan", "questions", "leverage", "study"]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("search")
    people().to_csv(place / "people.csv", index=False)
    numbers().to_csv(place / "points.csv", index=False)
    (place / "me.csv").write_text("x,y\n1.0,1.0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


ASKED = [
    "people.csv",
    "--target",
    "approved",
    "--query",
    "1",
    "--goal",
    "yes",
    "--budget",
    "0.4",
    "--leave-out",
    "town",
]
PLAIN = ["points.csv", "--target", "kind", "--query", "me.csv", "--goal", "1", "--budget", "0.5", "--plain"]
EXACT = [*PLAIN, "--model", "nearest-centroid"]
STUDY = 'data = "people.csv"\ntarget = "approved"\nquery = 1\ngoal = "yes"\nleave-out = ["town"]\n'


@pytest.mark.parametrize("command", LONG)
def test_both_are_offered_wherever_something_is_searched(command):
    shown = run(command, "--help").output
    assert "--effort" in shown
    assert "--time-limit SECONDS" in shown
    assert any(f"{option} " in shown.partition("Example:")[2] for option in ("--effort", "--time-limit"))


@pytest.mark.parametrize("command", ["audit", "respond", "simulate", "schema"])
def test_nothing_is_offered_where_nothing_is_searched(command):
    assert "--time-limit" not in run(command, "--help").output


@pytest.mark.parametrize(("option", "value"), [("--time-limit", "-1"), ("--time-limit", "nan"), ("--effort", "much")])
@pytest.mark.parametrize("command", ["plan", "questions"])
def test_what_they_may_be(command, option, value):
    said = failed(command, *ASKED, option, value)
    assert said.startswith(f"oar: {option}: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("option", [("--effort", "quick"), ("--time-limit", "9")])
@pytest.mark.parametrize("command", ["plan", "questions", "leverage"])
def test_they_are_refused_where_they_would_do_nothing(command, option):
    said = failed(command, *EXACT, *option)
    assert f"{option[0]}: does nothing here" in said


def test_they_hold_while_the_command_runs(monkeypatch):
    import oar

    seen = []

    def spied(problem, **given):
        seen.append((registry.current_effort().name, deadline()))
        raise oar.errors.DataError("enough")

    for name in ("minimal_budget", "minimal_coalition", "break_even"):
        monkeypatch.setattr(oar, name, spied)
    done("questions", *ASKED, "--effort", "thorough", "--time-limit", "90")
    assert [name for name, _ in seen] == ["thorough"] * 3
    ends = [end for _, end in seen]
    assert ends == sorted(ends)
    assert ends[0] + 50 < ends[-1] < float("inf")  # a third of the time, then half of the rest, then the rest
    assert registry.current_effort().name == "normal"
    assert deadline() == float("inf")


def test_a_plan_says_when_the_time_was_over(tmp_path):
    said = done("plan", *ASKED, "--time-limit", "0", "--out", tmp_path / "plan")
    found = found_in(tmp_path / "plan")
    assert "the 0 s of --time-limit were over before the search" in said
    assert found["late"] in (tmp_path / "plan" / "report.html").read_text()
    assert found["repeat"]["settings"]["time_limit"] == 0
    done("plan", *ASKED, "--effort", "quick", "--out", tmp_path / "other")
    other = found_in(tmp_path / "other")
    assert other["late"] is None
    assert other["repeat"]["settings"]["effort"] == "quick"


def test_questions_without_time_claim_nothing_that_is_proved_wrong(tmp_path):
    done("questions", *ASKED, "--out", tmp_path / "whole.json", "--effort", "quick")
    done("questions", *ASKED, "--out", tmp_path / "hurried.json", "--time-limit", "0")
    whole, hurried = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "hurried.json"))
    for one, other in zip(whole, hurried, strict=True):
        assert other["value"] is None or one["value"] is None or other["value"] >= one["value"] * 0.999


def test_a_studys_limits_are_its_cells(tmp_path):
    (tmp_path / "study.toml").write_text(
        STUDY.replace("people.csv", str((tmp_path / "people.csv").absolute()))
        + ("relabel = 3\n[axes]\nmost = [1, 3]\n")
    )
    people().to_csv(tmp_path / "people.csv", index=False)
    said = done("study", tmp_path / "study.toml", "--effort", "quick", "--time-limit", "20", "--workers", "1")
    assert "take part \\ most" in said
    assert "2 done" in said
    assert "0 s for a cell" in failed("study", tmp_path / "study.toml", "--effort", "quick", "--time-limit", "30")
    assert "--effort: is for a study that is run" in failed("study", tmp_path / "study.db", "--effort", "quick")
