"""`oar questions` and `oar leverage`: answers are the library's."""

import json

import pandas as pd
import pytest
from support.commands import TOLD, done, failed, found_in, numbers, people

import oar


@pytest.fixture
def points(tmp_path):
    numbers().to_csv(tmp_path / "points.csv", index=False)
    (tmp_path / "me.csv").write_text("x,y\n1.0,1.0\n")
    common = ["--target", "kind", "--query", tmp_path / "me.csv", "--goal", 1, "--budget", 0.5]
    return [tmp_path / "points.csv", *common, "--plain", "--model", "nearest-centroid"]


def test_the_three_questions(points, tmp_path):
    said = done("questions", *points, "--out", tmp_path / "answers.json")
    frame = numbers()
    crowd = oar.Population(frame[["x", "y"]], frame["kind"])
    problem = oar.Problem(crowd, oar.NearestCentroid(), oar.Query([1.0, 1.0], 1), oar.Perturb(0.5))
    far, many = oar.minimal_budget(problem), oar.minimal_coalition(problem)
    assert [line.split("?")[0] for line in said.splitlines()[:3]] == ["how far", "how many", "break-even"]
    assert far.explanation in said
    assert many.explanation in said
    written = json.loads((tmp_path / "answers.json").read_text())
    assert written[0]["value"] == pytest.approx(far.value)
    assert written[1]["value"] == many.size


def test_leverage_of_groups_and_shares(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    asked = [tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.5]
    asked += ["--leave-out", "town"]
    said = done("leverage", *asked, "--group", "town", "--out", tmp_path / "towns.csv")
    towns = pd.read_csv(tmp_path / "towns.csv").set_index("group")
    frame = people()
    assert towns["members"].to_dict() == frame["town"].drop(1).value_counts().to_dict()
    assert (towns["loss"] <= towns["loss_before"] + 1e-9).all()
    done("plan", *asked, "--participants", "town=Basel", "--out", tmp_path / "plan")
    alone = found_in(tmp_path / "plan")["outcome"]
    assert towns.loc["Basel", "loss"] == pytest.approx(alone["loss"], rel=TOLD)
    assert said.splitlines()[0].split()[:2] == ["town", "members"]
    done("leverage", *asked, "--shares", "10%,100%", "--out", tmp_path / "shares.json")
    shares = json.loads((tmp_path / "shares.json").read_text())
    assert [row["members"] for row in shares] == [9, 89]
    assert shares[1]["loss"] < shares[0]["loss"]


def test_bad_input(points, tmp_path):
    assert "both were given" in failed("leverage", *points, "--group", "x", "--shares", "10%")
    assert "use --group or --shares" in failed("leverage", *points, "--participants", "10%")
    assert "must end in .csv or .json" in failed("leverage", *points, "--out", tmp_path / "a.txt")
    assert "at most 50 different values" in failed("leverage", *points, "--group", "x")
    (tmp_path / "there.csv").write_text("")
    assert "--force" in failed("questions", *points, "--out", tmp_path / "there.csv")
