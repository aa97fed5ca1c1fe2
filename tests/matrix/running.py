"""One cell after another, each with a limit of time: what came of it, in a word and a sentence."""

from __future__ import annotations

import signal
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from matrix.kinds import KINDS
from matrix.verbs import VERBS, Cell
from oar.errors import OARError

ANSWERED, REFUSED, LATE, CRASHED = "answered", "refused", "late", "crashed"


class Outcome(NamedTuple):
    """What came of a cell: one of the four words above, the seconds that it took, and what was said."""

    kind: str
    verb: str
    word: str
    seconds: float
    said: str


class TooLong(BaseException):
    """A cell's time is over."""


def outcomes(kind: str, verbs: Iterable[str], limit: float) -> Iterator[Outcome]:
    """Ask a kind of problem all verbs; what one has computed, the next may use, as in a session of work."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cell = Cell(KINDS[kind](Path(folder)), Path(folder))
        except OARError as refused:
            yield from (Outcome(kind, verb, REFUSED, 0.0, f"problem: {refused}") for verb in verbs)
            return
        for verb in verbs:
            yield _outcome(kind, verb, cell, limit)


def _outcome(kind: str, verb: str, cell: Cell, limit: float) -> Outcome:
    def over(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit)
    began = time.perf_counter()
    try:
        word, said = ANSWERED, repr(VERBS[verb](cell))
    except OARError as refused:
        word, said = REFUSED, str(refused)
    except TooLong:
        word, said = LATE, f"no answer in {limit:g} s"
    except Exception as crashed:
        word, said = CRASHED, f"{type(crashed).__name__}: {crashed}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return Outcome(kind, verb, word, time.perf_counter() - began, " ".join(said.split())[:300])
