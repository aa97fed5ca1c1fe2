"""Kills of the study command, in short: one story of every signal that can be heard is told by tests/studies."""

import random
import signal

from . import kills_studies


def test_a_study_that_is_told_to_end_gives_back_what_it_was_at(tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    table = kills_studies.finished(kills_studies.made(tmp_path / "whole"))
    monkeypatch.setattr(kills_studies, "SIGNALS", (signal.SIGHUP,))
    monkeypatch.setattr(kills_studies, "MOST_KILLS", 1)
    wrong = kills_studies.story(random.Random(1), kills_studies.made(tmp_path / "killed"), 3.0, table)
    assert wrong is None, wrong
