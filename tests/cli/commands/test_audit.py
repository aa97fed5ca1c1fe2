"""`oar audit` of every kind of goal, of names that look like numbers, and of limits on what happens to others."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from support.commands import TOLD, audited, done, failed, found_in, numbers, people, values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """people.csv with three answers, homes.csv, and points.csv."""
    folder = tmp_path_factory.mktemp("audit")
    frame = people().drop(columns="town")
    frame["approved"] = np.where(frame["income"] > 3000, "at once", frame["approved"])
    frame.to_csv(folder / "people.csv", index=False)
    values().to_csv(folder / "homes.csv", index=False)
    numbers(40).to_csv(folder / "points.csv", index=False)
    return folder


REFUSED = ("approved", "people.csv", "1")


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (REFUSED, ["--goal", "yes", "--goal", "at once"]),
        (REFUSED, ["--not", "no"]),
        (REFUSED, ["--goal", "yes", "--probability", "0.6"]),
        (("approved", "people.csv", "1,4,6"), ["--goal", "yes", "--several", "worst", "--share", "0.5"]),
        (("price", "homes.csv", "3"), ["--goal", "60..80"]),
    ],
)
def test_a_goal_in_words_is_said_again(folder, tmp_path, kind, asked):
    target, data, query = kind
    common = [folder / data, "--target", target, "--query", query]
    more = ["--model", "ridge"] if target == "price" else []
    done("plan", *common, *asked, *more, "--budget", "0.3", "--out", tmp_path / "plan")
    card, moves = tmp_path / "plan" / "plan.json", tmp_path / "plan" / "moves.csv"
    done("audit", card, *common, *asked, "--moves", moves, "--out", tmp_path / "audit.json")
    theirs, ours = json.loads((tmp_path / "audit.json").read_text())["outcome"], audited(tmp_path / "plan")["outcome"]
    assert theirs["loss"] == pytest.approx(ours["loss"], rel=TOLD)
    assert theirs["success"] == ours["success"]
    assert theirs["violations"] == []
    assert "--goal: must be said again" in failed("audit", card, *common)
    other = ["--goal", "10..20"] if target == "price" else ["--goal", "at once"]
    assert "--goal: must be what the card is for" in failed("audit", card, *common, *other)


def test_who_asks_may_answer_too(folder, tmp_path):
    common = [folder / "people.csv", "--target", "approved", "--query", "1,4,6", "--goal", "yes"]
    done("plan", *common, "--budget", "0.3", "--out", tmp_path / "plan")
    movers = []
    for more in ([], ["--move-too"]):
        said = done("audit", tmp_path / "plan" / "plan.json", *common, *more)
        movers.append(int(re.search(r"acts +(\d+) members move", said)[1]))
    assert movers[1] > movers[0]


def test_a_single_goal_is_the_cards(folder, tmp_path):
    common = [folder / "people.csv", "--target", "approved", "--query", "1"]
    done("plan", *common, "--goal", "yes", "--budget", "0.3", "--out", tmp_path / "plan")
    card = tmp_path / "plan" / "plan.json"
    assert done("audit", card, *common) == done("audit", card, *common, "--goal", "yes")
    assert "must be what the card is for, 'yes', got 'no'" in failed("audit", card, *common, "--goal", "no")
    assert "best:5" not in failed("audit", card, *common, "--participants", "best:5")


def test_who_answered_is_said(folder, tmp_path):
    common = [folder / "people.csv", "--target", "approved", "--query", "1"]
    done("plan", *common, "--goal", "yes", "--budget", "0.3", "--participants", "30%", "--out", tmp_path / "plan")
    card = tmp_path / "plan" / "plan.json"
    assert "here 89 of 90 people answered it" in done("audit", card, *common)
    assert "people answered it" not in done("audit", card, *common, "--moves", tmp_path / "plan" / "moves.csv")
    said = done("audit", card, *common, "--participants", "purpose=car")
    some = int((pd.read_csv(folder / "people.csv").drop(index=1)["purpose"] == "car").sum())
    assert f"here {some} of 90 people answered it" in said


def test_what_happens_to_others_can_be_limited(folder, tmp_path):
    common = [folder / "people.csv", "--target", "approved", "--query", "1"]
    asked = ["--goal", "yes", "--budget", "0.6", "--participants", "50%"]
    done("plan", *common, *asked, "--out", tmp_path / "plan")
    card, moves = tmp_path / "plan" / "plan.json", tmp_path / "plan" / "moves.csv"
    found = found_in(tmp_path / "plan")["collateral"]["bystanders"]
    share = found["changed"] / found["people"]
    assert share > 0.02
    loose = done("audit", card, *common, "--moves", moves, "--participants", "50%", "--changed", share + 0.01)
    tight = done("audit", card, *common, "--moves", moves, "--participants", "50%", "--changed", share - 0.01)
    assert "another prediction" not in loose
    assert loose != tight
    assert tight.startswith("success      no")


def test_names_stay_texts(tmp_path):
    frame = people(40).drop(columns="town")
    frame.insert(0, "name", [f"{number:03d}" for number in range(40)])
    frame.to_csv(tmp_path / "people.csv", index=False)
    common = [tmp_path / "people.csv", "--target", "approved", "--id", "name", "--query", "004"]
    done("plan", *common, "--goal", "no", "--budget", "0.5", "--out", tmp_path / "plan")
    moves = pd.read_csv(tmp_path / "plan" / "moves.csv", dtype=str)
    assert set(moves["person"]) <= set(frame["name"])
    assert pd.read_parquet(tmp_path / "plan" / "moves.parquet")["person"].tolist() == moves["person"].tolist()
    for name in ("moves.csv", "moves.parquet"):
        done(
            "audit", tmp_path / "plan" / "plan.json", *common, "--moves", tmp_path / "plan" / name,
            "--out", tmp_path / f"{name}.json",
        )  # fmt: skip
        found = json.loads((tmp_path / f"{name}.json").read_text())["outcome"]
        assert found["loss"] == pytest.approx(audited(tmp_path / "plan")["outcome"]["loss"], rel=TOLD)
    assert "query: must be a value of 'name'" in failed(
        "plan", *common[:-1], "4", "--goal", "no", "--budget", "0.5", "--out", tmp_path / "other"
    )


def test_plain_models_are_not_scaled_and_have_a_card(folder, tmp_path):
    from sklearn.linear_model import LogisticRegression

    common = [folder / "points.csv", "--target", "kind", "--query", "3"]
    asked = ["--goal", "1", "--budget", "0.5", "--plain", "--model", "softmax"]
    done("plan", *common, *asked, "--out", tmp_path / "plan")
    facts = found_in(tmp_path / "plan")
    assert facts["card"]["written"]
    assert "scaled" not in facts["asked"]["model"]
    done("audit", tmp_path / "plan" / "plan.json", *common, "--moves", tmp_path / "plan" / "moves.csv")
    frame = pd.read_csv(folder / "points.csv")
    rows = frame[["x", "y"]].to_numpy()
    fit = LogisticRegression(C=1 / (1e-2 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows, frame["kind"])
    chance = fit.predict_proba(rows[[3]])[0, 1]
    assert facts["outcome"]["goal_probability_before"] == pytest.approx(chance, rel=TOLD)


def test_several_may_ask_of_plain_centroids_and_the_card_is_audited(folder, tmp_path):
    common = [folder / "points.csv", "--target", "kind", "--query", "0,1", "--goal", "1"]
    model = ["--plain", "--model", "nearest-centroid", "--budget", "0.6"]
    done("plan", *common, *model, "--out", tmp_path / "plan")
    done("audit", tmp_path / "plan" / "plan.json", *common, "--out", tmp_path / "audit.json")
    theirs, ours = json.loads((tmp_path / "audit.json").read_text())["outcome"], audited(tmp_path / "plan")
    assert theirs["loss"] == pytest.approx(ours["card"]["loss"], rel=TOLD)
    assert theirs["success"] == ours["card"]["success"]
