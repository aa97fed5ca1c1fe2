"""Long work that shows how far it has come, that keeps to a limit of time, and that a signal ends.

**Steps** are shown in a line on stderr, which on a terminal is gone when the work is done. Whoever tries one thing
after another says what it is trying (`trying`), and a search that narrows its answer down what it knows (`know`): the
line says so too, and Ctrl-C tells what was known when it ended the search.

**Limits of time** are set around searches (`limited_time`), which begin nothing more when the time is over. Whoever
judges what they found, such as the audit, looks at no clock.

**Signals** end a command, also where somebody swallows them, and never in the middle of an import.

Python runs a signal's handler between any two steps, and what the handler raises goes to whoever is at work just then.
That may be a callback of the garbage collector (JAX has one), of a weak reference or of compiled code, where exceptions
are printed or dropped, and work goes on as if nobody had asked. So that a signal was heard is remembered: it is sent
again where Python says that an exception of it came to nothing, and long loops look at every step.

It may also be a compiled module that is just being set up, from within which other modules are imported: some of them,
jaxlib's among them, end the process with an abort where an exception comes out of that. So nothing is raised while
modules are being imported; the signal is sent again until that is over, or has taken longer than anybody waits.

Before the command listens, while its modules are imported, there is nothing to be cleaned up: Ctrl-C ends it at once.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

QUIET = 1.0  # seconds before anything is shown, so that short solves show nothing
OnStep = Callable[[int, float, float], None]
"""Called after every accepted step with its number, the loss and the gap there."""
Progress = bool | OnStep | None
"""Whether steps are shown on stderr (None: on a terminal), or a listener of one's own."""
AGAIN = 0.02  # seconds after which a signal is sent again: whoever swallowed it has come to an end by then
INTERRUPTED = 128 + signal.SIGINT  # what shells report for a command that Ctrl-C ended
LONGEST_IMPORT = 30.0  # seconds for which a signal waits for imports
_IMPORTING = "importlib._bootstrap"
_heard: list[int] = []
_first_heard = [0.0]
_imports_around = [0]
_tried: list[str] = []  # what is being tried, the innermost last; for whoever shows it, from any thread
_known: ContextVar[list[str] | None] = ContextVar("known", default=None)  # of the answer that is looked for, in order
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # of the monotonic clock
_on_its_way: set[str] = set()  # not more than one, or what the first has ended would be interrupted by the next


def silent(number: int, loss: float, gap: float) -> None:
    """The listener where nothing is to be shown."""


def is_shown(progress: Any, others: str = "True, False or None (on a terminal)") -> bool:
    """Return whether steps are shown on stderr: yes, no, or (None) where it is a terminal; raise for anything else."""
    if progress is None:
        return sys.stderr.isatty()
    if progress is True or progress is False:
        return progress
    from oar.errors import DataError  # here, for this module is imported before Ctrl-C is heard

    raise DataError(f"progress: must be {others}, got {progress!r}.")


@contextmanager
def step_line(title: str, shown: Progress) -> Iterator[OnStep]:
    """Yield what a solver should call after each step; `title` says what is being done."""
    if callable(shown):
        yield shown
        return
    if not is_shown(shown, "True, False, None (on a terminal) or a function of step, loss and gap"):
        yield silent
        return
    with live_line() as tell:
        count = 0

        def on_step(number: int, loss: float, gap: float) -> None:
            nonlocal count
            count += 1
            certified = f", gap {gap:.1e}" if math.isfinite(gap) else ""  # not every step looks for one
            known = [f"{words} so far" for words in (_known.get() or [])[-1:]]
            doing = "; ".join([*being_tried(), *known, f"step {count}"])
            tell(f"{title}: {doing}, goal loss {loss:.6g}{certified}")

        yield on_step


def know(words: str) -> None:
    """Say what a search has found out so far, such as "at most 61 members"; outside a `telling` nobody hears it."""
    known = _known.get()
    if known is not None:
        known.append(words)


@contextmanager
def telling(title: str) -> Iterator[None]:
    """Have Ctrl-C in a `with` block carry a note of what is known so far of the answer that is looked for there."""
    known: list[str] = []
    before = _known.set(known)
    try:
        yield
    except KeyboardInterrupt as stopped:
        for words in known[-1:]:
            stopped.add_note(f"{title}: {words} was known when it was interrupted.")
        raise
    finally:
        _known.reset(before)


@contextmanager
def trying(words: str) -> Iterator[None]:
    """Say in plain words what is being tried in a `with` block, for lines of progress; "" says nothing."""
    before = len(_tried)
    _tried.extend([f"trying {words}"] if words else [])
    try:
        yield
    finally:
        del _tried[before:]


def being_tried() -> list[str]:
    """Return what is being tried just now, in words: nothing, or one phrase."""
    return _tried[-1:]


@contextmanager
def limited_time(seconds: float | None) -> Iterator[None]:
    """Set after how many seconds searches in a `with` block begin nothing more; an earlier end that is set stays."""
    before = _deadline.set(min(_deadline.get(), time.monotonic() + check_time_limit(seconds)))
    try:
        yield
    finally:
        _deadline.reset(before)


def check_time_limit(seconds: float | None) -> float:
    """Return a limit in seconds, infinite where there is none; raise for what is no time."""
    if seconds is None:
        return math.inf
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        from oar.errors import DataError  # here, for this module is imported before Ctrl-C is heard

        raise DataError(f"time_limit: must be a number of seconds ≥ 0, or None, got {seconds!r}.")
    return seconds


def deadline(seconds: float = math.inf) -> float:
    """Return the reading of the monotonic clock at which a search ends that may take so many seconds itself."""
    return min(_deadline.get(), time.monotonic() + seconds)


@contextmanager
def shared_time(parts: int) -> Iterator[None]:
    """Set, where the time is limited, that searches in a `with` block may take one of so many equal parts of it."""
    left = max(0.0, (_deadline.get() - time.monotonic()) / parts)
    with limited_time(left if math.isfinite(left) else None):
        yield


def is_late() -> bool:
    """Report whether the time for searches is over."""
    return time.monotonic() > _deadline.get()


@contextmanager
def live_line(between: float = 0.0) -> Iterator[Callable[[str], None]]:
    """Yield what shows a line on stderr; without a terminal lines stay, `between` them at least so many seconds."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    live, began, last = Live(console=console, transient=True, auto_refresh=False), time.monotonic(), -math.inf

    def tell(line: str) -> None:
        nonlocal last
        now = time.monotonic()
        if not console.is_terminal:
            if now - last >= between:
                console.print(line, soft_wrap=True)
                last = now
        elif now - began >= QUIET:
            live.start()
            live.update(line, refresh=True)

    try:
        yield tell
    finally:
        live.stop()


def end_at_once() -> None:
    """Have Ctrl-C end the command in one line until it listens; a process that is not the command is left alone."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _is_command() -> bool:
    """Report whether Python was started as `oar` or as `python -m oar`, and not as one of its workers."""
    given = sys.orig_argv
    if sys.argv[:1] == ["-m"]:  # as long as runpy looks for the module
        return "-m" in given and given[given.index("-m") + 1 :][:1] == ["oar"]
    return sys.argv[:1] != [] and sys.argv[0] in given and os.path.splitext(os.path.basename(sys.argv[0]))[0] == "oar"


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"oar: interrupted; nothing was written.\n")
    os._exit(INTERRUPTED)


def listen(names: Iterable[str]) -> None:
    """Have these signals end the command: Ctrl-C by KeyboardInterrupt, others by SystemExit(128 + number).

    Signals that are ignored, as nohup has it, or that the system lacks, stay as they are.
    """
    _imports_around[0] = _imports(sys._getframe())  # of a script that is itself imported: these do not end before it
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _hear)
    tell, sys.unraisablehook = sys.unraisablehook, lambda lost: None if _was_one(lost) else tell(lost)


def check_interrupted() -> None:
    """Raise again where a signal was heard and what it raised was swallowed; for loops that take long."""
    if _heard:
        raise _raised(_heard[-1])


def _hear(number: int, frame: FrameType | None) -> None:
    if not _heard:
        _first_heard[0] = time.monotonic()
    _heard.append(number)
    if _imports(frame) > _imports_around[0] and time.monotonic() - _first_heard[0] < LONGEST_IMPORT:
        _send_again()
    else:
        _on_its_way.clear()
        raise _raised(number)


def _imports(frame: FrameType | None) -> int:
    """Return how many frames from this one outwards are Python's own, of importing."""
    found = 0
    while frame is not None:
        found += frame.f_globals.get("__name__") == _IMPORTING
        frame = frame.f_back
    return found


def _raised(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _was_one(lost: Any) -> bool:
    """Send a signal again whose exception came to nothing; report whether it was one."""
    if not _heard or not issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
        return False
    _send_again()
    return True


def _send_again() -> None:
    if not _on_its_way:
        _on_its_way.add("signal")
        again = threading.Timer(AGAIN, _sent)
        again.daemon = True
        again.start()


def _sent() -> None:
    if _on_its_way:  # unless another one has raised meanwhile
        _on_its_way.clear()
        os.kill(os.getpid(), _heard[-1])
