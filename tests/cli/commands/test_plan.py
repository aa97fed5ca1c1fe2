"""`oar plan`, end to end: what it writes is what a refit of somebody else's finds."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from support.commands import LEVELS, TOLD, applied, approval, audited, done, found_in, numbers, people, values

import oar
from oar.cli.inputs.problem import model_called
from oar.pictures.numbers import number, percent

FILES = [
    "audit.json",
    "manifest.json",
    "member.html",
    "moves.csv",
    "moves.parquet",
    "plan.json",
    "private.json",
    "report.html",
]
LIMITS = """
[columns.age]
immutable = true

[columns.income]
direction = "up"
upper = 9000
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A plan for a table: the folder, the frame, and what the command printed."""
    folder = tmp_path_factory.mktemp("table")
    frame = people()
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "limits.toml").write_text(LIMITS)
    row = int(np.flatnonzero(frame["approved"] == "no")[0])
    arguments = ["--target", "approved", "--query", row, "--goal", "yes", "--budget", 0.6, "--leave-out", "town"]
    said = done(
        "plan", folder / "people.csv", *arguments, "--limits", folder / "limits.toml", "--group", "town",
        "--out", folder / "plan",
    )  # fmt: skip
    return folder / "plan", frame, row, said


def test_everything_is_delivered(world):
    folder, _, _, said = world
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert said.splitlines()[0] == found_in(folder)["answer"]
    assert all(name in said.splitlines()[-1] for name in FILES)


def test_numbers_are_those_of_another_refit(world):
    folder, frame, row, _ = world
    found = found_in(folder)["outcome"]
    after = applied(frame, folder)
    assert found["goal_probability_before"] == pytest.approx(approval(frame, row), rel=TOLD)
    assert found["goal_probability"] == pytest.approx(approval(after, row), rel=TOLD)
    assert found["success"] == (approval(after, row) > 0.5)
    report, published = (folder / "report.html").read_text(), audited(folder)["outcome"]
    for name in ("goal_probability_before", "goal_probability"):
        assert abs(published[name] - found[name]) <= 0.1  # of 90 people
        assert percent(published[name]) in report


def test_burdens_add_up_from_the_moves(world):
    folder, frame, row, _ = world
    facts, moves = found_in(folder), pd.read_csv(folder / "moves.csv")
    # What a change costs by default: standard deviations of numbers, and 1 for a flip or a switch.
    spread = {name: frame[name].std(ddof=0) for name in ("income", "age")}
    cost = [
        abs(float(move.after) - float(move.before)) / spread[move.column] if move.column in spread else 1.0
        for move in moves.itertuples()
    ]
    effort = pd.Series(cost).groupby(moves["person"]).sum().reindex(frame.index, fill_value=0.0)
    assert row not in set(moves["person"])
    assert facts["outcome"]["movers"] == moves["person"].nunique() == (effort > 0).sum()
    assert facts["outcome"]["effort"] == pytest.approx(effort.sum(), rel=TOLD)
    assert effort.max() <= 0.6 * (1 + 1e-9)
    for column in facts["columns"]:
        inside = moves["column"] == column["column"]
        assert column["movers"] == inside.sum()
        assert column["effort"] == pytest.approx(np.sum(np.array(cost)[inside.to_numpy()]), rel=TOLD)
    for name in ("approved", "town"):
        for group in facts["burden"][name]:
            inside = frame[name] == group["group"]
            assert group["members"] == inside.sum()
            assert group["movers"] == (effort[inside] > 0).sum()
            if group["effort"] is not None:
                assert group["effort"] == pytest.approx(effort[inside].sum(), rel=TOLD)
    told = [group for groups in facts["burden"].values() for group in groups if group["effort"] is not None]
    assert len(told) > 2  # others are about few people
    report = (folder / "report.html").read_text()
    assert number(audited(folder)["outcome"]["effort"]) in report


def test_limits_are_kept_in_raw_units(world):
    folder, _, _, _ = world
    moves = pd.read_csv(folder / "moves.csv")
    assert "age" not in set(moves["column"])
    income = moves[moves["column"] == "income"].astype({"before": float, "after": float})
    assert (income["after"] > income["before"]).all()
    assert set(moves[moves["column"] == "purpose"]["after"]) <= set(LEVELS)


def test_parquet_says_what_the_csv_says(world):
    folder, _, _, _ = world
    table, text = (
        pd.read_parquet(folder / "moves.parquet"),
        pd.read_csv(folder / "moves.csv", dtype={"before": str, "after": str}),
    )
    assert table["person"].tolist() == text["person"].tolist()
    assert table["column"].tolist() == text["column"].tolist()
    for side in ("before", "after"):
        assert table[side].tolist() == text[side].astype(str).tolist()
        values = table[table["column"] == "income"]
        assert values[f"{side}_number"].tolist() == values[side].astype(float).tolist()


def test_the_card_is_the_plans(world):
    folder, frame, _, _ = world
    card = oar.results.Card.load(folder / "plan.json")
    assert (card.goal, card.budget, card.participants) == ("yes", 0.6, "everyone")
    text = (folder / "plan.json").read_text()
    assert not [income for income in frame["income"] if str(income) in text]


def test_the_cards_worth_is_said_at_the_end(world, tmp_path):
    folder, _, row, said = world
    worth = found_in(folder)["card"]["worth"]
    assert worth in said
    assert audited(folder)["card"]["worth"] in (folder / "report.html").read_text()
    data = folder.parent / "people.csv"
    common = ["--target", "approved", "--query", row, "--leave-out", "town", "--limits", folder.parent / "limits.toml"]
    done("audit", folder / "plan.json", data, *common, "--out", tmp_path / "audit.json")
    found = json.loads((tmp_path / "audit.json").read_text())["outcome"]
    assert audited(folder)["card"]["loss"] == found["loss"]
    assert found_in(folder)["card"]["success"] == found["success"]


def test_no_published_file_confirms_a_guess_at_a_cell(world):
    """A digest of the data is an oracle: of somebody who knows all cells but one, it tells which guess is right."""
    folder, _, _, _ = world
    for name in ("plan.json", "member.html", "audit.json", "report.html"):
        assert not re.findall("[0-9a-fA-F]{32,}", (folder / name).read_text()), name


def test_it_can_be_repeated(world, tmp_path):
    folder, frame, row, _ = world
    facts = found_in(folder)["repeat"]
    assert facts["data"]["rows"] == len(frame)
    assert facts["versions"]["oar"] == oar.__version__
    source = folder.parent
    done(
        "plan", source / "people.csv", "--target", "approved", "--query", row, "--goal", "yes", "--budget", 0.6,
        "--leave-out", "town", "--limits", source / "limits.toml", "--group", "town", "--out", tmp_path / "again",
    )  # fmt: skip
    for name in ("moves.csv", "plan.json", "member.html"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    first, again = ((place / "report.html").read_text() for place in (folder, tmp_path / "again"))
    assert again.replace(audited(tmp_path / "again")["plan"], audited(folder)["plan"]) == first  # an id is a delivery's


def test_plain_numbers_and_nearest_centroid_are_exact(tmp_path):
    frame = numbers()
    frame.to_csv(tmp_path / "points.csv", index=False)
    (tmp_path / "me.csv").write_text("x,y\n1.0,1.0\n")
    done(
        "plan", tmp_path / "points.csv", "--target", "kind", "--query", tmp_path / "me.csv", "--goal", 1,
        "--budget", 0.5, "--plain", "--model", "nearest-centroid", "--out", tmp_path / "plan",
    )  # fmt: skip
    facts = found_in(tmp_path / "plan")
    assert facts["certificate"]["exact"]
    after = applied(frame, tmp_path / "plan")
    assert np.linalg.norm(after[["x", "y"]] - frame[["x", "y"]], axis=1).max() <= 0.5 * (1 + 1e-9)
    distances = [np.linalg.norm(after[after["kind"] == kind][["x", "y"]].mean() - 1.0) for kind in (0, 1)]
    assert facts["outcome"]["success"] == (distances[1] < distances[0])
    likely = np.exp(-np.array(distances))
    assert facts["outcome"]["goal_probability"] == pytest.approx(likely[1] / likely.sum(), rel=TOLD)


def test_values_are_regressed(tmp_path):
    from sklearn.linear_model import Ridge

    frame = values()
    frame.to_csv(tmp_path / "homes.csv", index=False)
    done(
        "plan", tmp_path / "homes.csv", "--target", "price", "--query", 3, "--goal", 70, "--within", 8, "--budget", 0.3,
        "--model", "ridge", "--out", tmp_path / "plan",
    )  # fmt: skip
    facts, after = found_in(tmp_path / "plan"), applied(frame, tmp_path / "plan")
    rows = after[["rooms", "metres"]].to_numpy(float)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    predicted = Ridge(alpha=1e-2 * len(rows)).fit(scaled, after["price"]).predict(scaled[[3]])[0]
    assert facts["outcome"]["prediction"] == pytest.approx(predicted, rel=TOLD)
    assert facts["outcome"]["success"] == (abs(predicted - 70) <= 8)
    assert facts["outcome"]["goal_probability"] is None


def test_labels_may_change_and_members_leave(tmp_path):
    people().drop(columns="town").to_csv(tmp_path / "people.csv", index=False)
    said = done(
        "plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--relabel", 3,
        "--withhold", 2, "--out", tmp_path / "plan",
    )  # fmt: skip
    facts, moves = found_in(tmp_path / "plan"), pd.read_csv(tmp_path / "plan" / "moves.csv")
    assert facts["outcome"]["relabelled"] == (moves["column"] == "approved").sum() <= 3
    assert facts["outcome"]["leavers"] == (moves["after"] == "withheld").sum() <= 2
    assert not (tmp_path / "plan" / "plan.json").exists()
    assert "no card" in said
    assert "There is no card" in (tmp_path / "plan" / "report.html").read_text()


def test_who_takes_part(tmp_path):
    frame = people().drop(columns="town")
    frame.index = [f"P{number}" for number in range(len(frame))]
    frame.to_csv(tmp_path / "people.csv", index_label="name")
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--goal", "yes", "--budget", 0.3, "--id", "name"]
    done(*common, "--query", "P4", "--participants", "purpose=car", "--out", tmp_path / "group")
    moved = set(pd.read_csv(tmp_path / "group" / "moves.csv")["person"])
    assert moved <= set(frame.index[frame["purpose"] == "car"]) - {"P4"}
    done(*common, "--query", "P4", "--participants", "20%", "--seed", 3, "--group", "age", "--out", tmp_path / "share")
    ages = found_in(tmp_path / "share")
    assert len(ages["burden"]["age"]) == 4  # quarters
    assert sum(row["members"] for row in ages["burden"]["age"]) == len(frame)
    assert len(ages["collateral"]["by_group"]) == 4
    done(*common, "--query", "P4", "--participants", "20%", "--seed", 4, "--out", tmp_path / "other")
    shares = [set(pd.read_csv(tmp_path / name / "moves.csv")["person"]) for name in ("share", "other")]
    assert all(0 < len(share) <= 18 for share in shares)
    assert shares[0] != shares[1]
    done(*common, "--query", "P4", "--participants", "best:5", "--out", tmp_path / "best")
    best = set(pd.read_csv(tmp_path / "best" / "moves.csv")["person"])
    assert 0 < len(best) <= 5
    assert "P4" not in best


def test_the_example_needs_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = done("plan", "--example", "german-credit")
    assert said.startswith("Yes: ")
    assert sorted(path.name for path in (tmp_path / "oar-plan").iterdir()) == FILES
    moves = pd.read_csv("oar-plan/moves.csv")
    loans = oar.datasets.german_credit().frame
    for move in moves.sample(50, random_state=0).itertuples():
        assert str(loans.loc[move.person, move.column]) == str(move.before)


def test_several_who_ask(tmp_path):
    frame = people().drop(columns="town")
    frame.to_csv(tmp_path / "people.csv", index=False)
    asking = [int(row) for row in np.flatnonzero(frame["approved"] == "no")[:3]]
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--goal", "yes", "--budget", 0.4]
    for several in ("mean", "worst", "share"):
        rows = ",".join(map(str, asking))
        said = done(*common, "--query", rows, "--several", several, "--out", tmp_path / several)
        facts, after = found_in(tmp_path / several), applied(frame, tmp_path / several)
        likely = [approval(after, row) for row in asking]
        assert [one["probability"] for one in facts["outcome"]["queries"]] == pytest.approx(likely, rel=TOLD)
        losses = -np.log(likely)
        combined = {"mean": losses.mean(), "worst": losses.max(), "share": np.mean(np.array(likely) <= 0.5)}
        assert facts["outcome"]["loss"] == pytest.approx(combined[several], rel=TOLD)
        assert not set(asking) & set(pd.read_csv(tmp_path / several / "moves.csv")["person"])
        assert "of the 3 who ask" in said
    frame.drop(columns="approved").iloc[asking].to_csv(tmp_path / "asking.csv", index=False)
    done(*common, "--query", tmp_path / "asking.csv", "--out", tmp_path / "file")
    assert found_in(tmp_path / "file")["asked"]["asking"] == 3


def test_other_goals(tmp_path):
    frame = people().drop(columns="town")
    frame["approved"] = np.where(frame["income"] > 3000, "at once", frame["approved"])
    frame.to_csv(tmp_path / "people.csv", index=False)
    row = int(np.flatnonzero(frame["approved"] == "no")[0])
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--query", row, "--budget", 0.3]
    done(*common, "--goal", "yes", "--goal", "at once", "--out", tmp_path / "any")
    facts = found_in(tmp_path / "any")
    assert "'at once' or 'yes'" in facts["asked"]["goal"]
    assert facts["outcome"]["success"] == (facts["outcome"]["prediction"] != "no")
    done(*common, "--goal", "yes", "--probability", 0.9, "--out", tmp_path / "sure")
    found = found_in(tmp_path / "sure")["outcome"]
    assert found["success"] == (found["goal_probability"] >= 0.9)
    values().to_csv(tmp_path / "homes.csv", index=False)
    homes = ["plan", tmp_path / "homes.csv", "--target", "price", "--query", 3, "--budget", 0.3, "--model", "ridge"]
    done(*homes, "--goal", "60..80", "--out", tmp_path / "range")
    found = found_in(tmp_path / "range")["outcome"]
    assert found["success"] == (60 <= found["prediction"] <= 80)


@pytest.mark.parametrize("model", ["softmax", "nearest-centroid", "svm", "naive-bayes"])
def test_every_model_by_its_name(tmp_path, model):
    people(40).drop(columns=["town", "purpose"]).to_csv(tmp_path / "people.csv", index=False)
    done(
        "plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.2,
        "--model", model, "--participants", "50%", "--out", tmp_path / "plan",
    )  # fmt: skip
    facts = found_in(tmp_path / "plan")
    assert facts["outcome"]["loss"] <= facts["outcome"]["loss_before"] + 1e-9
    assert (facts["outcome"]["goal_probability"] is None) == (model == "svm")


def test_networks_have_a_name_too():
    assert model_called("mlp", plain=False, seed=3) == oar.models.Scaled(oar.models.MLP(seed=3))


def test_gaps_weights_and_people_who_are_held_out(tmp_path):
    from sklearn.linear_model import LogisticRegression

    frame = people(120).drop(columns=["town", "purpose"])
    frame.loc[5, "income"] = None
    frame["weight"] = np.linspace(0.5, 2.0, 120)
    frame[:90].to_csv(tmp_path / "people.csv", index=False)
    frame[90:].to_csv(tmp_path / "others.csv", index=False)
    said = done(
        "plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.3,
        "--missing", "drop", "--weights", "weight", "--held-out", tmp_path / "others.csv", "--out", tmp_path / "plan",
    )  # fmt: skip
    assert re.search(r"accuracy, held out +[\d.]+ % → [\d.]+ % about ", said)
    facts = found_in(tmp_path / "plan")
    kept = frame[:90].dropna()
    assert facts["asked"]["people"] == len(kept) == 89
    assert facts["repeat"]["data"]["rows"] == 90
    weights = kept["weight"] / kept["weight"].mean()

    def scaled(rows):
        numbers = rows[["income", "age"]].to_numpy(float)
        centre = np.average(kept[["income", "age"]], axis=0, weights=weights)
        spread = np.sqrt(np.average((kept[["income", "age"]] - centre) ** 2, axis=0, weights=weights))
        return np.c_[(numbers - centre) / spread, rows["owner"].astype(float)]

    model = LogisticRegression(C=1 / (1e-2 * len(kept)), tol=1e-10, max_iter=10_000)
    model.fit(scaled(kept), kept["approved"], sample_weight=weights)
    others = frame[90:]
    assert facts["collateral"]["held_out"][0] == pytest.approx(
        model.score(scaled(others), others["approved"]), rel=TOLD
    )
    chance = model.predict_proba(scaled(kept.loc[[1]]))[0, 1]
    assert facts["outcome"]["goal_probability_before"] == pytest.approx(chance, rel=TOLD)


def test_without_pyarrow_there_is_a_csv_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("oar.plans.moves.changes_table.has_pyarrow", lambda: False)
    people(40).to_csv(tmp_path / "people.csv", index=False)
    said = done(
        "plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.3,
        "--out", tmp_path / "plan",
    )  # fmt: skip
    assert "moves.parquet" in said
    assert "pip install 'oar-recourse[parquet]'" in said
    assert not (tmp_path / "plan" / "moves.parquet").exists()
    assert (tmp_path / "plan" / "moves.csv").exists()


def test_side_effects_are_kept_small(tmp_path):
    people().drop(columns="town").to_csv(tmp_path / "people.csv", index=False)
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.6]
    done(*common, "--participants", "30%", "--changed", 0.02, "--worse", 0.01, "--out", tmp_path / "plan")
    facts = found_in(tmp_path / "plan")
    found = facts["collateral"]
    assert facts["outcome"]["violations"] == []
    assert found["bystanders"]["changed"] <= 0.02 * found["bystanders"]["people"]
    assert found["own"][1] >= found["own"][0] - 0.01 - 1e-9


def test_members_who_have_the_goal_keep_it(tmp_path):
    people().drop(columns="town").to_csv(tmp_path / "people.csv", index=False)
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 2]
    said = done(*common, "--lost", 0, "--out", tmp_path / "kept")
    facts = found_in(tmp_path / "kept")
    assert facts["asked"]["keep"] == {"changed": None, "lost": 0.0, "worse": None}
    assert facts["outcome"]["violations"] == []
    assert facts["collateral"]["actors"]["away"] == facts["collateral"]["bystanders"]["away"] == 0
    assert "0 lose the prediction 'yes' and" in said
    assert "and had the goal, lose it" in (tmp_path / "kept" / "report.html").read_text()


def test_members_are_told_what_the_audit_found(tmp_path, monkeypatch):
    people().drop(columns="town").to_csv(tmp_path / "people.csv", index=False)
    asked = ["plan", tmp_path / "people.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.6]
    done(*asked, "--whom", "Ann asks, who was refused.", "--out", tmp_path / "plan")
    page, found = (tmp_path / "plan" / "member.html").read_text(), found_in(tmp_path / "plan")
    assert "Ann asks, who was refused." in page
    others = found["card"]["collateral"]
    rows = others["by_outcome"]
    assert sum(row["people"] for row in rows) == others["actors"]["people"]
    assert sum(row["away"] for row in rows) == others["actors"]["away"]
    for row in rows:
        assert f"Of {row['people']} members who take part whose own outcome is \\u201c{row['group']}\\u201d" in page
    assert found["robustness"]["draws"] == 20
    monkeypatch.chdir(tmp_path)
    assert "Done. Files in oar-plan: " in done(*asked)
    assert "This page does not say who that is." in (tmp_path / "oar-plan" / "member.html").read_text()


def test_anything_but_one_answer(tmp_path):
    frame = people().drop(columns="town")
    frame["approved"] = np.where(frame["income"] > 3000, "at once", frame["approved"])
    frame.to_csv(tmp_path / "people.csv", index=False)
    row = int(np.flatnonzero(frame["approved"] == "no")[0])
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--query", row, "--budget", 0.4]
    done(*common, "--not", "no", "--out", tmp_path / "but")
    done(*common, "--goal", "yes", "--goal", "at once", "--out", tmp_path / "set")
    but, chosen = found_in(tmp_path / "but")["outcome"], found_in(tmp_path / "set")["outcome"]
    assert but["loss"] == chosen["loss"]
    assert but["success"] == (but["prediction"] in {"yes", "at once"})
    assert (tmp_path / "but" / "member.html").exists()


def test_who_asks_may_move_too(tmp_path):
    frame = people().drop(columns="town")
    frame.to_csv(tmp_path / "people.csv", index=False)
    asking = [int(row) for row in np.flatnonzero(frame["approved"] == "no")[:4]]
    rows = ",".join(map(str, asking))
    common = ["plan", tmp_path / "people.csv", "--target", "approved", "--goal", "yes", "--budget", 0.4]
    done(*common, "--query", rows, "--share", 0.5, "--move-too", "--out", tmp_path / "plan")
    facts, after = found_in(tmp_path / "plan"), applied(frame, tmp_path / "plan")
    assert set(asking) & set(pd.read_csv(tmp_path / "plan" / "moves.csv")["person"])
    likely = np.array([approval(after, row) for row in asking])
    assert [one["probability"] for one in facts["outcome"]["queries"]] == pytest.approx(list(likely), rel=TOLD)
    assert facts["outcome"]["success"] == ((likely > 0.5).mean() >= 0.5)
