"""The architecture page describes the house as it is: its rooms, its files, its figures."""

import re
import subprocess
import sys

import pytest
from support.pages import ROOT, page, section

PAGE = page("architecture")
SOURCE = ROOT / "src" / "oar"


def test_the_picture_is_of_the_present_rooms():
    pytest.importorskip("grimp")  # which import-linter brings along
    checked = subprocess.run([sys.executable, ROOT / "tools" / "house.py", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "](figures/house.svg)" in PAGE


def test_every_room_has_its_paragraph():
    rooms = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_") and path.suffix in ("", ".py")}
    described = set(re.findall(r"`(\w+)(?:/|\.py|`)", section("architecture", "The rooms")))
    assert sorted(rooms - described) == []


def test_all_files_that_it_names_are_there():
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", section("architecture", "One call"))
    beside = "", "solvers/descent/"  # the loop's own files are named without their folder
    assert len(named) > 15
    assert [name for name in named if not any((SOURCE / folder / name).exists() for folder in beside)] == []


def test_the_table_has_all_figures():
    rows = re.findall(r"^\| .* \| [\d,.]+ \| [\d,.]+ \| [\d,.]+ \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 15
