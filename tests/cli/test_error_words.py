"""Hints: what a command advises, that command can do; and an argument is called as the command calls it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from support.commands import done, people, run

pytestmark = pytest.mark.usefixtures("least_effort")

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def mixed(values, *, size=90):
    return [values[place % len(values)] for place in range(size)]


# What is wrong with a table, of which people.csv is the sound one.
BAD = {
    "row numbers without a name": lambda frame: frame.reset_index(names=""),
    "row numbers": lambda frame: frame.assign(number=range(1, 91)),
    "names": lambda frame: frame.assign(who=[f"p{place:03}" for place in range(90)]),
    "texts": lambda frame: frame.assign(note=[f"said {place * 7919 % 97}" for place in range(90)]),
    "dates": lambda frame: frame.assign(day=pd.date_range("2024-01-01", periods=90).strftime("%Y-%m-%d")),
    "gaps": lambda frame: frame.assign(income=frame["income"].where(frame.index % 5 > 0)),
    "gaps in every row": lambda frame: frame.assign(
        income=frame["income"].where(frame.index % 2 > 0), age=frame["age"].where(frame.index % 2 == 0)
    ),
    "a column of gaps": lambda frame: frame.assign(empty=np.nan),
    "numbers and a word": lambda frame: frame.assign(income=[*frame["income"][:-1], "unknown"]),
    "numbers and a mark": lambda frame: frame.assign(income=[*frame["income"][:-1], "?"]),
    "thousands": lambda frame: frame.assign(income=[f"{value:,.0f}" for value in frame["income"]]),
    "decimal commas": lambda frame: frame.assign(income=[str(value).replace(".", ",") for value in frame["income"]]),
    "truths in other words": lambda frame: frame.assign(owner=mixed(["True", "False", "yes"])),
    "one name twice": lambda frame: frame.rename(columns={"age": "income"}),
    "no labels": lambda frame: frame.assign(approved=np.nan),
    "a gap in the labels": lambda frame: frame.assign(approved=frame["approved"].where(frame.index > 0)),
    "endless": lambda frame: frame.assign(income=[*frame["income"][:-1], np.inf]),
    "huge": lambda frame: frame.assign(income=[*frame["income"][:-1], 1e300]),
    "other columns": lambda frame: frame.rename(columns={"income": "earnings"}),
    "other levels": lambda frame: frame.assign(purpose=mixed(["moon", "car", "home"])),
    "one level": lambda frame: frame.assign(purpose="car"),
    "nobody": lambda frame: frame.iloc[:0],
}  # fmt: skip
ASKED = ("--target", "approved", "--query", "1")
PLANNED = (*ASKED, "--goal", "yes", "--budget", "0.1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A card, and a file for everything that can be wrong."""
    where = tmp_path_factory.mktemp("hints")
    people().drop(columns="town").to_csv(where / "people.csv", index=False)
    done("plan", where / "people.csv", *PLANNED, "--out", where / "plan")
    for name, made in BAD.items():
        made(people().drop(columns="town")).to_csv(where / f"{name}.csv", index=False)
    return where


# Every command that reads a table, as it is typed.
COMMANDS = {
    "schema": ("DATA", "--target", "approved"),
    "limits": ("DATA", "--target", "approved"),
    "respond": ("CARD", "DATA", "--target", "approved"),
    "audit": ("CARD", "DATA", *ASKED),
    "plan": ("DATA", *PLANNED, "--out", "OUT"),
    "questions": ("DATA", *PLANNED),
    "leverage": ("DATA", *PLANNED, "--group", "purpose"),
}


def typed(command, folder, data):
    place = {"DATA": folder / data, "CARD": folder / "plan" / "plan.json", "OUT": folder / "out"}
    return [command, *(place.get(each, each) for each in COMMANDS[command])]


@pytest.mark.parametrize("command", COMMANDS)
def test_hints_name_options_that_the_command_has(folder, command):
    known = set(OPTION.findall(run(command, "--help").output))
    hints = 0
    for name in BAD:
        said = run(*typed(command, folder, f"{name}.csv")).stderr
        named = set(OPTION.findall(said))
        assert named <= known, (name, said)
        assert not re.search(r"  |[,;] *\.|\boar\.\w", said), said  # a hint that was left out leaves nothing behind
        hints += bool(named)
    assert hints > 3 or command == "respond"  # which needs no hint for most of them


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("plan", ("--lost", "2"), "--lost: must"),
        ("plan", ("--changed", "2"), "--changed: must"),
        ("plan", ("--probability", "2"), "--probability: must"),
        ("plan", ("--leave-out", "nothing"), "--leave-out: must be a column"),
        ("plan", ("--feature", "nothing"), "--feature: must be a column"),
        ("plan", ("--held-out", "DATA"), "--held-out: must be people"),
        ("plan", ("--id", "purpose"), "--id: every person must have a name of its own"),
        ("plan", ("--group", "nothing"), "--group: must be a column"),
        ("plan", ("--participants", "some"), "--participants: must be"),
        ("plan", ("--model", "forest"), "--model: must be"),
        ("plan", ("--share", "2"), "--share: "),
        ("plan", ("--out", "HERE"), "--out: "),
        ("schema", ("--output", "DATA"), "--output: "),
        ("limits", ("--output", "DATA"), "--output: "),
        ("respond", ("--keep", "nothing"), "--keep: must be a column of the card"),
        ("respond", ("--budget", "9"), "--budget: must be at most"),
        ("respond", ("--out", "DATA"), "--out: "),
        ("audit", ("--out", "DATA"), "--out: "),
        ("audit", ("--leave-out", "nothing"), "--leave-out: must be a column"),
    ],
)
def test_an_argument_is_called_as_it_is_typed(folder, command, given, said):
    place = {"DATA": folder / "people.csv", "HERE": folder}
    result = run(*typed(command, folder, "people.csv"), *(place.get(each, each) for each in given))
    assert result.stderr.startswith(f"oar: {said}"), result.stderr


def test_an_audit_asks_for_a_file_and_for_no_example(folder):
    assert "--example" not in run("audit", folder / "plan" / "plan.json").stderr
