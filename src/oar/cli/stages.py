"""What a long command is doing, on stderr, and only where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stage = Callable[..., None]


@contextmanager
def stages() -> Iterator[Stage]:
    """Yield a function that is told what begins; `own_line=True` where that shows its own progress."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield lambda name, own_line=False: None
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
