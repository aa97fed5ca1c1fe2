"""Progress of a long command, on stderr: at once on a terminal, and elsewhere in a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Stage = Callable[..., None]
EVERY = 10.0  # seconds between lines where stderr is no terminal


@contextmanager
def stages() -> Iterator[Stage]:
    """Yield a function that is told what begins; `own_line=True` where that shows its own progress."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        with _lines() as line:
            yield line
        return
    from rich.console import Console

    status = Console(stderr=True).status("")

    def stage(name: str, own_line: bool = False) -> None:
        status.update(f"{name} …")
        if own_line:
            status.stop()
        else:
            status.start()

    try:
        yield stage
    finally:
        status.stop()


@contextmanager
def _lines() -> Iterator[Stage]:
    """Yield the same, which writes what is being done and for how long, a line every now and then."""
    began, doing, done = time.monotonic(), ["starting"], threading.Event()

    def stage(name: str, own_line: bool = False) -> None:
        doing[0] = name

    def tell(stream: Any) -> None:
        while not done.wait(EVERY):
            with suppress(ValueError, OSError):  # whoever read it has gone
                stream.write(f"{doing[0]} … ({time.monotonic() - began:.0f} s)\n")
                stream.flush()

    thread = threading.Thread(target=tell, args=(sys.stderr,), daemon=True)
    thread.start()
    try:
        yield stage
    finally:
        done.set()
        thread.join(EVERY)
