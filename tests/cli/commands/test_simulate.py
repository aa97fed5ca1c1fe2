"""`oar simulate`: outputs that are whole or not there, and numbers that agree with each other."""

import csv
import json
import re

import numpy as np
import pytest
from PIL import Image
from support.commands import done, failed, run

from oar_stories.index import SCENARIOS

SMALL = ("--rounds", 4, "--people", 60, "--repeats", 2)
FILES = {"school.png", "school.gif", "table.csv", "results.json"}


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """A small run: its folder, and what was printed."""
    out = tmp_path_factory.mktemp("runs") / "deep" / "school"
    return out, done("simulate", "school", *SMALL, "--seed", 3, "--out", out)


def test_everything_is_written(school):
    out, said = school
    assert names(out) == FILES
    assert "nobody acts" in said
    assert "In year 4" in said
    assert f"Done. Files in {out}: school.png, school.gif, table.csv, results.json" in said
    with Image.open(out / "school.png") as still:
        assert still.size[0] >= 1000
        assert len(np.unique(np.asarray(still.convert("RGB")).reshape(-1, 3), axis=0)) > 50
    with Image.open(out / "school.gif") as film:
        assert film.n_frames == 4
        assert film.size[0] >= 800
        first = np.asarray(film.convert("RGB"), dtype=float)
        film.seek(3)
        assert np.abs(np.asarray(film.convert("RGB"), dtype=float) - first).max() > 100  # something moves
    assert (out / "school.gif").stat().st_size < 1_500_000


def test_results_are_those_of_the_table(school):
    out, _ = school
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert (results["format"], results["scenario"], results["seed"]) == ("oar-scenario", "school", 3)
    assert (results["settings"]["people"], results["settings"]["rounds"], results["quick"]) == (60, 4, False)
    assert set(results["files"]) == FILES
    rows = list(csv.DictReader((out / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(results["arms"]) * 2 * 4
    for arm, told in results["arms"].items():
        for year in told["years"]:
            for what in ("assigned", "accuracy", "per_hour", "acting"):
                given = [float(row[what]) for row in rows if (row["arm"], row["year"]) == (arm, str(year["year"]))]
                assert len(given) == 2
                assert year[what]["mean"] == pytest.approx(np.mean(given))
                assert (year[what]["least"], year[what]["greatest"]) == (min(given), max(given))


def test_a_run_again_gives_the_same_and_replaces_the_old(school, tmp_path):
    out, _ = school
    again = tmp_path / "again"
    done("simulate", "school", *SMALL, "--seed", 3, "--out", again)
    assert all((again / name).read_bytes() == (out / name).read_bytes() for name in ("table.csv", "results.json"))
    done("simulate", "school", "--rounds", 2, "--people", 60, "--repeats", 1, "--no-animation", "--out", again)
    assert names(again) == FILES - {"school.gif"}
    assert json.loads((again / "results.json").read_text(encoding="utf-8"))["settings"]["rounds"] == 2


def test_quick_runs_say_so(tmp_path):
    quick = ("--quick", *SMALL[2:], "--rounds", 2, "--no-animation")
    assert "A quick run" in done("simulate", "school", *quick, "--out", tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["quick"] for row in rows} == {"True"}
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["quick"] is True


def test_other_files_are_not_written_over(tmp_path):
    (tmp_path / "table.csv").write_text("mine")
    small = ("--rounds", 2, "--people", 60, "--repeats", 1, "--no-animation", "--out", tmp_path)
    assert "holds other files (table.csv)" in failed("simulate", "school", *small)
    assert names(tmp_path) == {"table.csv"}
    done("simulate", "school", *small, "--force")
    assert names(tmp_path) == FILES - {"school.gif"}
    assert "holds other files" in failed("simulate", "batchnorm", "--out", tmp_path)  # of another scenario


def test_an_unknown_scenario_is_refused_with_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = failed("simulate", "shool")
    assert "scenario: must be one of 'school', 'credit', 'batchnorm', got 'shool'. Did you mean 'school'?" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("credit", "--model", "softmax"), "--model: does nothing for the scenario credit, which knows --rounds"),
        (("batchnorm", "--rounds", 5), "--rounds: does nothing for the scenario batchnorm, which knows --people"),
        (("school", "--rounds", 1), "--rounds: must be a whole number of at least 2, got 1"),
        (("school", "--share", 2), "--share: must be a share from 0 to 1"),
        (("school", "--model", "softmx"), "Did you mean 'softmax'?"),
        (("school", "--budget", "nan"), "--budget: must be a number"),
    ],
)
def test_bad_settings_are_one_clear_line_and_leave_nothing(arguments, complaint, tmp_path):
    said = failed("simulate", *arguments, "--out", tmp_path / "out")
    assert complaint in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(told, quick):
        raise KeyboardInterrupt

    monkeypatch.setattr("oar_stories.files.csv_text", lambda rows: interrupted(rows, False))
    small = ("--rounds", 2, "--people", 60, "--repeats", 1, "--no-animation", "--out", tmp_path / "a" / "b")
    result = run("simulate", "school", *small)
    assert result.exit_code == 130
    assert "interrupted; nothing was written" in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_help_has_an_example_of_a_scenario_that_is_there():
    shown = done("simulate", "--help")
    example = re.search(r"Example: oar simulate (\w+) ", shown).group(1)
    assert example in SCENARIOS
    for name in SCENARIOS:
        assert f"{name}:" in shown
