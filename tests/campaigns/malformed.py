"""Damaged inputs at every door: each is read, or ends in one clear line; none hangs or fills the memory."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from oar.errors import OARError, StorageError

from . import damages
from .doors import Door, doors
from .tally import Tally, parser

ROOM = 700  # megabytes that reading a damaged input may take beyond what the process has
PATIENCE = 40  # seconds of processor time for one input,
ASLEEP = 120  # and on the clock, for a reader that waits and computes nothing
LONGEST = 1_500  # characters of a message
LINES = 2


class Hanging(BaseException):
    """A reader that does not come back."""


def _alarm(*_: Any) -> None:
    raise Hanging


def judged(door: Door, path: Path) -> str | None:
    """Return what is wrong with how a damaged input ended; None where nothing is."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _alarm)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    signal.alarm(ASLEEP)
    try:
        found = door.enter(path)
        if door.commands:
            return _command(found, path)
    except OARError as error:
        return _told(str(error), path, isinstance(error, StorageError))
    except Hanging:
        return "hangs"
    except MemoryError:
        return f"takes more than {ROOM} MB"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _where(error)
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/oar/" in frame.filename]
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{at}: {str(error)[:100]}"


def _command(found: Any, path: Path) -> str | None:
    """Judge how a command ended."""
    if isinstance(found.exception, MemoryError):
        return f"takes more than {ROOM} MB"
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        return _where(found.exception)
    if found.exit_code == 0:
        return None
    if found.exit_code != 1:
        return f"ends with code {found.exit_code}: {found.stderr[-200:]}"
    return _told(found.stderr, path, named=False)


def _told(message: str, path: Path, named: bool) -> str | None:
    """Judge a message: short, and with the file's name where the file cannot be read, rather than what it says."""
    lines = message.strip().splitlines()
    if not lines or len(lines) > LINES or len(message) > LONGEST:
        return f"says {len(lines)} lines of {len(message)} characters: {message[:100]!r}"
    return (
        None
        if not named or str(path.parent) in message or path.name in message
        else f"does not name the file: {message[:200]!r}"
    )


def _all(door: Door, rng: np.random.Generator, number: int) -> Any:
    """Return the damages of a door: what stands in its place, and then its bytes and what it holds by turns."""
    yield from damages.in_its_place()
    others = door.more(rng, number)
    for damage in damages.bytes_damaged(door.good, rng, number):
        yield damage
        yield from itertools.islice(others, 2)
    yield from others


def attack(tally: Tally, seed: int, number: int, only: str = "", room: int | None = ROOM) -> None:
    """Damage the inputs of all doors in turn, so many bytes each, until the tally has enough."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning from within is a line that nobody understands
        known = [door for door in doors(Path(folder)) if only in door.name]
        for door in known:
            _put(Path(folder) / "case", door, damages.written(door.good))
            wrong = judged(door, Path(folder) / "case" / door.file)
            tally.note(wrong is None, f"{door.name}, as it is: {wrong}")
        if room is not None:
            _bound(room)
        waiting = [(door, iter(_all(door, rng, number))) for door in known]
        while waiting and tally.goes_on():
            for turn in list(waiting):
                door, left = turn
                some = list(itertools.islice(left, 20))
                if not some:
                    waiting.remove(turn)
                for what, damage in some:
                    if not tally.goes_on():
                        return
                    path = _put(Path(folder) / "case", door, damage)
                    began = time.monotonic()
                    faulthandler.dump_traceback_later(2 * ASLEEP, exit=True)  # deaf to the alarm, in somebody's C
                    wrong = judged(door, path)
                    faulthandler.cancel_dump_traceback_later()
                    tally.note(wrong is None, f"{door.name}, {what}: {wrong}")
                    if time.monotonic() - began > 2:
                        print(f"{door.name}, {what}: took {time.monotonic() - began:.1f} s", flush=True)


def _put(folder: Path, door: Door, damage: Any) -> Path:
    """Return a door's file in a folder of its own, damaged."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / door.file
    if door.name.startswith("study"):
        shutil.copy(folder.parent / "people.csv", folder)
    damage(path)
    return path


def _bound(megabytes: int) -> None:
    """Let this process take so much more than it has."""
    gc.collect()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (megabytes << 20), resource.RLIM_INFINITY))


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    parsing = parser("malformed", __doc__)
    parsing.add_argument("--only", default="", help="only doors whose name has this in it")
    asked = parsing.parse_args(arguments)
    tally = Tally("malformed", minutes=asked.minutes, number=asked.number)
    attack(tally, asked.seed, 60 if asked.number is None else 20, asked.only)
    for text, count in Counter(one.split(",", 1)[0] for one in tally.failures).most_common():
        print(f"  {text}: {count}")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
