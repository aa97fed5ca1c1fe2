"""Signals that end a command, also where somebody swallows them.

Python runs a signal's handler between any two steps, and what the handler raises goes to whoever is at work just then.
That may be a callback of the garbage collector (JAX has one), of a weak reference or of compiled code, where exceptions
are printed or dropped, and work goes on as if nobody had asked. So that a signal was heard is remembered: it is sent
again where Python says that an exception of it came to nothing, and long loops look at every step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any

AGAIN = 0.02  # seconds after which a swallowed signal is sent again: whoever swallowed it has come to an end by then
_heard: list[int] = []


def listen(names: Iterable[str]) -> None:
    """Have these signals end the command: Ctrl-C by KeyboardInterrupt, others by SystemExit(128 + number).

    Signals that are ignored, as nohup has it, or that the system lacks, stay as they are.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _hear)
    tell, sys.unraisablehook = sys.unraisablehook, lambda lost: None if _sent_again(lost) else tell(lost)


def check_interrupted() -> None:
    """Raise again where a signal was heard and what it raised was swallowed; for loops that take long."""
    if _heard:
        raise _raised(_heard[-1])


def _hear(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    raise _raised(number)


def _raised(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _sent_again(lost: Any) -> bool:
    """Send a signal again whose exception came to nothing; report whether it was one."""
    if not _heard or not issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
        return False
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), _heard[-1]))
    again.daemon = True
    again.start()
    return True
