"""Halves of characters (lone surrogates): JSON and Python have them, and no file and no terminal can."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support.commands import done, failed, people

import oar
from oar.report.files.output_folder import is_ours

pytestmark = pytest.mark.usefixtures("least_effort")

ASKED = ("--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.3)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("half")
    people().drop(columns="town").to_csv(folder / "people.csv", index=False)
    people().drop(columns="town")[:1].to_csv(folder / "me.csv", index=False)
    done("plan", folder / "people.csv", *ASKED, "--out", folder / "plan")
    return folder


@pytest.mark.parametrize("whole", ['"car"', '"income"', '"yes"'])
def test_a_card_with_half_a_character_is_refused(planned, tmp_path, whole):
    card = tmp_path / "plan.json"
    card.write_text((planned / "plan" / "plan.json").read_text().replace(whole, '"h\\ud800lf"'))
    assert "half a character, '\\ud800'" in failed("respond", card, planned / "me.csv", "--target", "approved")
    assert "half a character" in failed("audit", card, planned / "people.csv", "--target", "approved", "--query", 1)


def test_a_manifest_with_half_a_character_is_damaged(planned):
    from oar.report.files.manifest import check

    path = planned / "plan" / "manifest.json"
    text = path.read_text()
    try:
        path.write_text(text.replace('"version"', '"\\ud800"'))
        assert check(planned / "plan").told == ("manifest.json is damaged",)
    finally:
        path.write_text(text)


def test_files_with_other_names_may_lie_beside_a_plan():
    assert not is_ours(os.fsdecode(b"p\xff.csv"))


@pytest.mark.parametrize("where", ["column", "level", "label"])
def test_people_have_no_halves(where):
    frame = pd.DataFrame({"a": np.arange(6.0), "b": pd.Series(list("xyxyxy"), dtype=object)})
    frame["t"] = pd.Series(["yes", "no"] * 3, dtype=object)
    if where == "column":
        frame.columns = pd.Index(["a\ud800", "b", "t"], dtype=object)
    else:
        name = {"level": "b", "label": "t"}[where]
        frame[name] = pd.Series([f"{value}\ud800" for value in frame[name]], dtype=object)
    with pytest.raises(oar.errors.DataError, match="half a character"):
        oar.Population.from_frame(frame, target="t")


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are bytes on Linux")
def test_arguments_must_be_utf_8(tmp_path):
    command = [sys.executable, "-m", "oar", "plan", b"p\xff.csv", "--target", "y"]
    ended = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert ended.stderr.decode().splitlines() == [
        "oar: arguments: must be Unicode, got half a character in 'p\\udcff.csv'; rename the file, or type it again in "
        "UTF-8."
    ]
