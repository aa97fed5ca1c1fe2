"""`oar reproduce --quick`, run once as a user would, and everything that it wrote."""

import json
import re
import subprocess
import sys

import pytest

from oar.report.files.text_formats import json_text
from oar_paper.reproduce import STAGES, find, reproduce, results
from oar_paper.settings import reproduction_settings

OAR = [sys.executable, "-c", "from oar.cli import main; main()"]
FIGURES = ("figure1", "figure2", "strip")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return what the command said, and the folder that it filled."""
    out = tmp_path_factory.mktemp("reproduction") / "out"
    run = subprocess.run([*OAR, "reproduce", "--out", str(out), "--quick"], capture_output=True, text=True, check=False)
    return run, out


@pytest.fixture(scope="module")
def numbers(finished):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads((finished[1] / "results.json").read_text(encoding="utf-8"), parse_constant=refuse)


def test_the_command_succeeds_and_says_little(finished):
    run, out = finished
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert run.stdout == f"Done. Open {out / 'summary.md'}\n"


def test_every_file_is_there_and_no_other(finished):
    names = {path.name for path in finished[1].iterdir()}
    assert names == {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg", "pdf")} | {
        "results.json",
        "summary.md",
    }
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for name in FIGURES:
        for kind, start in starts.items():
            assert (finished[1] / f"{name}.{kind}").read_bytes().startswith(start)


def test_the_results_say_what_they_are(numbers):
    assert (numbers["schema"], numbers["schema_version"]) == ("oar-reproduction", 1)
    assert (numbers["quick"], numbers["seed"]) == (True, 0)
    assert {"numpy", "scipy", "scikit-learn", "matplotlib"} <= set(numbers["packages"])
    assert re.fullmatch(r"3\.\d+\.\d+\S*", numbers["python"])
    expected = {
        "settings",
        "figure1",
        "figure2",
        "comparison",
        "accuracy",
        "questions",
        "strip",
        "class_names",
        "alpha",
    }
    assert expected <= set(numbers)


def test_shapes_agree(numbers):
    for name, pairs in (("iris", 6), ("mnist", 12)):
        data, budgets = numbers["figure2"][name], numbers["settings"][f"{name}_budgets"]
        assert data["curves"]["budgets"] == data["pairs"]["budgets"] == budgets
        for way in ("individual", "collective", "joint"):
            assert len(data["curves"]["curves"][way]["losses"]) == len(budgets)
            assert [len(row) for row in data["pairs"]["losses"][way]] == [len(budgets)] * pairs
        assert len(data["shares"]["curves"]["collective"]["losses"]) == len(numbers["settings"]["shares"])
        assert len(data["shares"]["pair_break_even"]) == pairs


def test_the_claims_hold(numbers):
    for name in ("iris", "mnist"):
        claim, data = numbers["comparison"][name], numbers["figure2"][name]
        assert claim["never_worse"]
        assert claim["strict_pairs"] == claim["pairs"]
        for alone, together in zip(
            *(data["pairs"]["losses"][way] for way in ("individual", "collective")), strict=True
        ):
            assert all(low <= high + 1e-9 for low, high in zip(together, alone, strict=True))
        for way, difference in data["pairs"]["sample"]["largest_difference"].items():
            assert difference < 1e-6, way
        for curve in data["curves"]["curves"].values():
            assert max(abs(a - b) for a, b in zip(curve["losses"], curve["claimed"], strict=True)) < 1e-12
    picture = numbers["figure1"]["picture"]
    assert picture["together"]["success"]
    assert not picture["alone"]["success"]
    assert numbers["strip"]["success"]


def test_the_summary_shows_every_figure_and_every_verdict(finished, numbers):
    text = (finished[1] / "summary.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert shown == [f"{name}.png" for name in FIGURES]
    assert "QUICK RUN" in text
    assert "**holds**" in text
    assert "**differs**" in text
    for value in ("92.67%", "96.00%", "85.33%", f"{numbers['figure1']['individual_minimum']:.4f}"):
        assert value in text
    assert "nan" not in text.lower().replace("dominance", "")
    assert "None" not in text
    # Every row of every table has as many cells as its header.
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_same_seed_same_results(finished):
    stages = []
    again = find(reproduction_settings(quick=True), lambda *stage: stages.append(stage))
    assert json_text(results(again)) == (finished[1] / "results.json").read_text(encoding="utf-8")
    assert [what for what, _, _ in stages] == list(STAGES[:-1])
    assert [done for _, done, _ in stages] == list(range(len(STAGES) - 1))


def test_a_full_run_is_finer_than_a_quick_one():
    full, quick = reproduction_settings(), reproduction_settings(quick=True)
    assert len(full.mnist_budgets) > len(quick.mnist_budgets)
    assert full.mnist_pairs is None
    assert {0.5, 1.0, 2.0} <= set(full.iris_budgets)
    assert 0.3 in full.mnist_budgets


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0"])
def test_bad_seeds_are_refused_before_anything_is_made(tmp_path, seed):
    with pytest.raises(ValueError, match="seed: must be a whole number"):
        reproduce(tmp_path / "out", seed=seed)
    assert not list(tmp_path.iterdir())
