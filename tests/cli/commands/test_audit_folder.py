"""`oar audit FOLDER DATA`: a plan is audited by its folder alone, and what was altered in it is named."""

import csv
import hashlib
import hmac
import json
import shutil

import pandas as pd
import pytest
from support.commands import TOLD, audited, done, failed, numbers, people, run

LIMITS = 'links = ["change(income) <= 1000"]\n[columns.age]\nimmutable = true\n'


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """people.csv, and a plan for a table with limits from a file and a query from another."""
    place = tmp_path_factory.mktemp("folder")
    frame = people().drop(columns="town")
    frame.to_csv(place / "people.csv", index=False)
    frame.drop(columns="approved").iloc[[1]].to_csv(place / "me.csv", index=False)
    (place / "limits.toml").write_text(LIMITS)
    said = done(
        "plan", place / "people.csv", "--target", "approved", "--query", place / "me.csv", "--goal", "yes",
        "--budget", "0.5", "--limits", place / "limits.toml", "--worse", "0.2", "--out", place / "plan",
    )  # fmt: skip
    for name in ("me.csv", "limits.toml"):  # what was asked is in the folder
        (place / name).unlink()
    return place, said


@pytest.fixture
def copy(world, tmp_path):
    shutil.copytree(world[0] / "plan", tmp_path / "plan")
    return tmp_path / "plan"


def test_a_folder_says_itself_what_was_asked(world, tmp_path):
    place, said = world
    found = done("audit", place / "plan", place / "people.csv", "--out", tmp_path / "found.json")
    plan, outcome = audited(place / "plan"), json.loads((tmp_path / "found.json").read_text())
    assert outcome["outcome"]["loss"] == pytest.approx(plan["outcome"]["loss"], rel=TOLD)
    assert outcome["outcome"]["success"] == plan["outcome"]["success"]
    assert outcome["card"]["loss"] == pytest.approx(plan["card"]["loss"], rel=TOLD)
    assert outcome["differs"] == []
    assert outcome["same_data"] is True
    assert f"plan id  {plan['plan']}" in found
    assert plan["plan"] in said
    assert plan["plan"] in (place / "plan" / "report.html").read_text()
    for told in ("as they were delivered", "the file that the plan was made of", "goal     'yes'", "0.5 each, norm 1"):
        assert told in found
    assert "accuracy" in found
    assert "collateral" in found


def test_peoples_own_values_can_be_read_by_the_organiser_alone(world):
    folder = world[0] / "plan"
    own = {path.name for path in folder.iterdir() if not path.stat().st_mode & 0o077}
    assert own == {"moves.csv", "moves.parquet", "private.json"}


def test_no_published_file_tells_whether_a_guess_at_the_data_is_right(world):
    place, _ = world
    guess = (place / "people.csv").read_bytes()
    digests = [
        hashlib.new(kind, (place / name).read_bytes()).hexdigest()
        for kind in ("sha256", "sha1", "md5", "blake2b")
        for name in ("people.csv", "plan/moves.csv", "plan/moves.parquet")
    ]
    for name in ("plan.json", "member.html", "report.html", "audit.json", "manifest.json"):
        text = (place / "plan" / name).read_text()
        assert not [digest for digest in digests if digest in text]
    private = json.loads((place / "plan" / "private.json").read_text())
    key = bytes.fromhex(private["key"])
    assert len(key) == 32
    expected = hmac.new(key, hashlib.sha256(guess).hexdigest().encode(), "sha256").hexdigest()
    assert private["data"]["hmac"] == expected
    listed = {entry["name"]: entry for entry in json.loads((place / "plan" / "manifest.json").read_text())["files"]}
    assert set(listed["moves.csv"]) == {"name", "hmac"}  # the size tells how many digits values have


def floats(value):
    """Yield all numbers that are no whole ones."""
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from floats(part)
    if isinstance(value, float):
        yield value


def test_what_was_found_has_few_digits_where_it_is_published(world):
    """Whoever knows all values but one could find that one from a loss to the last digit."""
    content = json.loads((world[0] / "plan" / "audit.json").read_text())
    assert content["asked"]["budget"] == 0.5
    found = list(floats({name: part for name, part in content.items() if name not in ("asked", "repeat")}))
    assert len(found) > 20
    assert all(float(f"{number:.4g}") == number for number in found)


def differing(*arguments):
    """Run the command, which must end with exit code 1; return all that it says."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    return result.output


def edited(path, change):
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def budget_raised(folder):
    edited(folder / "plan.json", lambda card: card | {"budget": 5.0})
    return "plan.json is altered", "plan.json lets members go 5 far, and the plan 0.5"


def link_removed(folder):
    edited(folder / "plan.json", lambda card: card | {"links": []})
    return ("plan.json is altered",)


def cell_altered(folder):
    moves = pd.read_csv(folder / "moves.csv")
    row = moves.index[moves["column"] == "income"][0]
    before, after = moves.loc[row, ["before", "after"]].astype(float)
    moves["after"] = moves["after"].astype(object)
    moves.loc[row, "after"] = (before + after) / 2
    moves.to_csv(folder / "moves.csv", index=False)
    return ("moves.csv is altered",)


def rows_deleted(folder):
    pd.read_csv(folder / "moves.csv").iloc[30:].to_csv(folder / "moves.csv", index=False)
    return ("moves.csv is altered",)


def twice_about_one_cell(folder):
    moves = pd.read_csv(folder / "moves.csv")
    pd.concat([moves, moves.iloc[:1]]).to_csv(folder / "moves.csv", index=False)
    return "moves.csv is altered", "is the second about"


def report_gone(folder):
    (folder / "report.html").unlink()
    return ("report.html is missing",)


def file_added(folder):
    (folder / "more.csv").write_text("")
    return ("more.csv is no file of this plan",)


def id_blanked(folder):
    plan = json.loads((folder / "manifest.json").read_text())["plan"]
    for name in ("report.html", "audit.json"):
        (folder / name).write_text((folder / name).read_text().replace(plan, "-".join(["0000"] * 8)))
    return "report.html is altered", "audit.json is altered"


def file_hidden(folder):
    name = ".oar-unfinished-0000000000000000a6b98d490fafbfbe"  # as hidden folders of unfinished plans are called
    (folder / name).write_text("")
    return (f"{name} is no file of this plan",)


def key_changed(folder):
    edited(folder / "private.json", lambda private: private | {"key": "00" * 32})
    return "private.json is altered", "moves.csv is altered"


@pytest.mark.parametrize(
    "tamper",
    [
        budget_raised, link_removed, cell_altered, rows_deleted, twice_about_one_cell, report_gone, file_added,
        key_changed, id_blanked, file_hidden,
    ],
)  # fmt: skip
def test_what_was_altered_is_named(world, copy, tamper):
    told = tamper(copy)
    said = differing("audit", copy, world[0] / "people.csv")
    for each in told:
        assert each in said


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("query", 3, 'field "asked.query" must be a text, got 3'),
        ("query", ["a"], 'field "asked.query" must be a text, got a list of 1'),
        ("query", {"file": 3}, 'field "asked.query.file" must be a text, got 3'),
        ("query", {"file": "q.csv", "content": "?"}, "what was asked cannot be read"),
        ("query", {"file": "q" * 999, "content": ""}, "what was asked cannot be read"),
        ("participants", 0, 'field "asked.participants" must be a text, got 0'),
        ("participants", ["zz"], 'field "asked.participants" must be a text, got a list of 1'),
        ("goal", [[]], 'field "asked.goal" must be a list of texts, got a list of 1'),
        ("goal", [{"a": 1}], 'field "asked.goal" must be a list of texts, got a list of 1'),
        ("budget", "much", 'field "asked.budget" must be a finite number'),
        ("seed", -1, 'field "asked.seed" must be a whole number'),
        ("move_too", 1, 'field "asked.move_too" must be true or false, got 1'),
        ("limits", "/etc/passwd", "what was asked cannot be read"),
        ("layout", [], 'field "asked.layout" must be a mapping of names to values'),
        ("layout", {"schema": 3}, 'field "asked.layout.schema" must be a mapping'),
        ("card_goal", 1, "field 'card_goal' is not known"),
        ("more", 1, "field 'more' is not known"),
        ("model", "forest", "model: must be one of"),
    ],
)
def test_a_damaged_private_file_ends_in_one_line_that_says_it_was_altered(world, copy, field, value, message):
    edited(copy / "private.json", lambda private: private | {"asked": private["asked"] | {field: value}})
    said = failed("audit", copy, world[0] / "people.csv")
    assert "private.json is altered; " in said
    assert message in said


def test_a_manifest_that_was_made_anew_has_another_id(world, copy):
    from oar.report.files.manifest import MANIFEST, check, seal

    cell_altered(copy)
    old = json.loads((copy / MANIFEST).read_text())["plan"]
    (copy / MANIFEST).unlink()
    for name in ("report.html", "audit.json"):
        (copy / name).write_text((copy / name).read_text().replace(old, "-".join(["0000"] * 8)))
    seal(copy, bytes.fromhex(json.loads((copy / "private.json").read_text())["key"]))
    checked = check(copy)
    assert checked.told == ()
    assert checked.plan != old


def test_a_card_is_held_against_the_manifest_beside_it(world, copy):
    budget_raised(copy)
    asked = [world[0] / "people.csv", "--target", "approved", "--query", "1"]
    assert "plan.json is altered" in differing("audit", copy / "plan.json", *asked)


def test_other_data_are_told(world, tmp_path):
    place, _ = world
    frame = pd.read_csv(place / "people.csv")
    frame.to_csv(tmp_path / "people.csv", index=False, quoting=csv.QUOTE_ALL)
    assert "DATA is another file than it was made of" in differing("audit", place / "plan", tmp_path / "people.csv")
    frame["income"] += 1.0
    frame.to_csv(tmp_path / "people.csv", index=False)
    assert "are the moves for another version of the data?" in failed("audit", place / "plan", tmp_path / "people.csv")
    assert "says itself what was asked" in failed("audit", place / "plan", tmp_path / "people.csv", "--sep", ";")


@pytest.mark.parametrize("plain", [True, False])
def test_labels_and_leavers_are_audited_from_their_files(tmp_path, plain):
    numbers(20).to_csv(tmp_path / "points.csv", index=False)
    more = ["--plain"] if plain else []
    done(
        "plan", tmp_path / "points.csv", "--target", "kind", "--query", "2", "--goal", "1", "--budget", "0.2",
        "--relabel", "2", "--withhold", "1", *more, "--out", tmp_path / "plan",
    )  # fmt: skip
    done("audit", tmp_path / "plan", tmp_path / "points.csv", "--out", tmp_path / "found.json")
    ours, theirs = audited(tmp_path / "plan")["outcome"], json.loads((tmp_path / "found.json").read_text())["outcome"]
    assert theirs["relabelled"] + theirs["leavers"] > 0
    for name in ("relabelled", "leavers", "movers", "success", "violations"):
        assert theirs[name] == ours[name]
    assert theirs["loss"] == pytest.approx(ours["loss"], rel=TOLD)


def test_the_example_needs_no_data(tmp_path):
    done("plan", "--example", "german-credit", "--participants", "best:20", "--out", tmp_path / "plan")
    said = done("audit", tmp_path / "plan")
    assert "the file that the plan was made of" in said
    assert "all kept" in said


def test_a_plan_of_ones_own_needs_its_data(tmp_path):
    frame = people().drop(columns="town")
    frame.reset_index(names="").to_csv(tmp_path / "people.csv", index=False)
    asked = ("--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.3, "--leave-out", "column 1")
    done("plan", tmp_path / "people.csv", *asked, "--out", tmp_path / "plan")
    said = failed("audit", tmp_path / "plan")
    assert "DATA: must be the file that the plan was made of, got none; name it after the folder." in said
    found = done("audit", tmp_path / "plan", tmp_path / "people.csv")
    frame.to_csv(tmp_path / "copy.csv", index=False)  # what was left out is no part of what is audited
    result = run("audit", tmp_path / "plan", tmp_path / "copy.csv")
    assert "DATA is another file than it was made of" in result.stderr
    assert result.stdout.split("The moves of moves.csv:")[1] == found.split("The moves of moves.csv:")[1]
