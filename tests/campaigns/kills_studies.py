"""Kills of studies: by SIGKILL, SIGTERM, SIGINT and SIGHUP, at random moments, alone or in company, again and again.

After every kill the store can be read and no cell has failed; a signal that can be heard ends the command with its own
code, one line, and nothing under way; nobody whom it started lives on. The study that is gone on with in the end gives
the same table, to the last byte, as one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import oar

from .tally import Tally, parser

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 300.0  # seconds for a run that nobody disturbs
MOST_KILLS = 4  # of one study
STUDY = """data = "people.csv"
target = "kind"
goal = "yes"
query = 0
budget = 0.5
solver = "projected-gradient"
[axes]
budgets = [0.1, 0.2, 0.3, 0.4]
participation = [0.5, 1.0]
models = ["nearest-centroid", "softmax"]
seeds = [0, 1]
"""


def made(folder: Path) -> Path:
    """Write a study of few people into a folder."""
    from support.study_problems import people

    everyone = people(20)
    lines = [f"{x!r},{y!r},{kind}" for (x, y), kind in zip(everyone.features.tolist(), everyone.labels, strict=True)]
    (folder / "people.csv").write_text("\n".join(["x,y,kind", *lines]) + "\n")
    (folder / "study.toml").write_text(STUDY)
    return folder


def started(folder: Path, workers: int, *more: str) -> subprocess.Popen[str]:
    """Start the command, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "oar", "study", "study.toml", "--workers", str(workers), *more],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(folder: Path) -> bytes:
    """Run a study to its end, and return its table."""
    with started(folder, 1, "--export", "cells.csv", "--force") as process:
        try:
            said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0, said
    return (folder / "cells.csv").read_bytes()


def helpers(number: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [int(each) for each in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    except OSError:
        return []


def lives(number: int) -> bool:
    """Report whether a process is there, and no mere memory of one."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def listens(number: int) -> bool:
    """Report whether a process has a way of its own to end: before that it is loading, and ends as Python does."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def ended(process: subprocess.Popen[str], by: signal.Signals, store: Path) -> str | None:
    """Send a signal and look at what is left; return what is wrong."""
    started_by_it = helpers(process.pid)
    listening = listens(process.pid)
    process.send_signal(by)
    said, complaint = process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while any(map(lives, started_by_it)):
        if time.monotonic() > deadline:
            return f"{by.name}: whom it started lives on"
        time.sleep(0.05)
    codes = {-by, 128 + by} if by == signal.SIGKILL or not listening else {128 + by}
    if process.returncode not in codes | {0}:
        return f"{by.name}: ended with {process.returncode}: {complaint[-2000:]}"
    if listening and "Traceback" in complaint:
        return f"{by.name}: a traceback: {complaint[-2000:]}"
    if not store.exists() or not store.stat().st_size:
        return None
    try:
        counts = oar.results.Study.open(store).counts
    except oar.errors.StorageError as error:
        return None if "is empty; run the study first" in str(error) else f"{by.name}: {error}"
    if counts["failed"]:
        return f"{by.name}: {counts['failed']} cells failed"
    if by != signal.SIGKILL and listening and (kept := leased(store, process.pid)):
        return f"{by.name}: {kept} cells were not given back"
    return None


def leased(store: Path, number: int) -> int:
    """Return how many cells a process has under way; others may be of one that was killed before, and are still its."""
    with closing(sqlite3.connect(store)) as connection:
        claims = connection.execute("SELECT claim FROM cells WHERE status = 'running'").fetchall()
    return sum(json.loads(claim)["pid"] == number for (claim,) in claims)


def story(draw: random.Random, folder: Path, takes: float, table: bytes) -> str | None:
    """Kill a study some times, finish it, and compare."""
    for _ in range(draw.randint(1, MOST_KILLS)):
        with started(folder, draw.choice((1, 2))) as process:
            try:
                begins = time.monotonic() + 0.8 * takes
                if draw.random() < 0.8:  # loading takes longest, and is not what is asked about
                    while not (folder / "study.db").exists() and process.poll() is None and time.monotonic() < begins:
                        time.sleep(0.02)
                time.sleep(draw.random() * 0.5 * takes)
                wrong = ended(process, draw.choice(SIGNALS), folder / "study.db")
            finally:
                process.kill()
        if wrong is not None:
            return wrong
    if finished(folder) != table:
        return "the table is another"
    left = sorted(each.name for each in folder.iterdir())
    known = ["cells.csv", "people.csv", "study.db", "study.toml"]
    return None if left == known else f"left behind: {left}"


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    options = parser("kills_studies", __doc__ or "").parse_args(arguments)
    minutes = 2.0 if options.minutes is None and options.number is None else options.minutes
    tally = Tally("kills_studies", minutes=minutes, number=options.number)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="oar-kills-") as place:
        whole = Path(place) / "whole"
        whole.mkdir()
        began = time.monotonic()
        table = finished(made(whole))
        takes = time.monotonic() - began
        while tally.goes_on():
            folder = Path(place) / str(tally.tried)
            folder.mkdir()
            wrong = story(draw, made(folder), takes, table)
            tally.note(wrong is None, f"story {tally.tried} of seed {options.seed}: {wrong}")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
