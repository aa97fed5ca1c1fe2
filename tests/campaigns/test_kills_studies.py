"""Kills of the study command, in short: one story of every signal that can be heard is told by tests/studies."""

import json
import random
import signal
import sqlite3
from contextlib import closing

from . import kills_studies


def test_a_study_that_is_told_to_end_gives_back_what_it_was_at(tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    table = kills_studies.finished(kills_studies.made(tmp_path / "whole"))
    monkeypatch.setattr(kills_studies, "SIGNALS", (signal.SIGHUP,))
    monkeypatch.setattr(kills_studies, "MOST_KILLS", 1)
    wrong = kills_studies.story(random.Random(1), kills_studies.made(tmp_path / "killed"), 3.0, table)
    assert wrong is None, wrong


def test_only_cells_of_the_process_itself_count_as_not_given_back(tmp_path):
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        connection.execute("CREATE TABLE cells (status TEXT, claim TEXT)")
        of_others = [("running", json.dumps({"pid": 7})), ("done", None), ("pending", None)]
        connection.executemany("INSERT INTO cells VALUES (?, ?)", [("running", json.dumps({"pid": 8})), *of_others])
        connection.commit()
    assert kills_studies.leased(tmp_path / "study.db", 8) == 1
    assert kills_studies.leased(tmp_path / "study.db", 9) == 0
