"""The driver finds campaigns, counts what they say, and does not take silence for success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .__main__ import campaigns, run, table
from .tally import Tally

ENDINGS = {
    "good": ("print('good: tried 5, failed 0')", True),
    "found": ("print('found: tried 5, failed 2'); sys.exit(1)", False),
    "silent": ("pass", False),
    "idle": ("print('idle: tried 0, failed 0')", False),
    "torn": ("print('torn: tried 5, failed 0'); sys.exit(3)", False),
    "other": ("print('good: tried 5, failed 0')", False),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_only_a_campaign_that_tried_and_found_nothing_holds(name: str, tmp_path: Path) -> None:
    script, holds = ENDINGS[name]
    (tmp_path / f"{name}.py").write_text(f"import sys\ndef main(arguments):\n    {script}\nmain(sys.argv)\n")
    (tmp_path / "helper.py").write_text("def other(): pass\n")
    (tmp_path / "aimless").mkdir()
    assert campaigns(tmp_path) == [name]
    package = tmp_path / "attacks"
    package.mkdir()
    (tmp_path / f"{name}.py").rename(package / f"{name}.py")
    outcome = run(name, seed=3, minutes=1, package="attacks", folder=tmp_path)
    assert outcome.held is holds
    assert name in table([outcome])


def test_a_tally_stops_at_its_number_and_fails_with_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("some", number=3)
    while tally.goes_on():
        tally.note(tally.tried != 1, f"case {tally.tried}")
    assert tally.close() == 1
    assert capsys.readouterr().out == "some: FAILED case 1\nsome: tried 3, failed 1\n"
    assert not Tally("late", minutes=0).goes_on()
    assert sys.modules[Tally.__module__].CLOSING.match("some: tried 3, failed 1\n")
