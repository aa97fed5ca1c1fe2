"""A line that says how far a long solve has come: on stderr, and on a terminal gone when it is done."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oar.errors import DataError

QUIET = 1.0  # seconds before anything is shown, so that short solves show nothing
OnStep = Callable[[int, float, float], None]
"""Called after every accepted step with its number, the loss and the gap there."""
Progress = bool | OnStep | None
"""Whether steps are shown on stderr (None: on a terminal), or a listener of one's own."""


@contextmanager
def step_line(title: str, shown: Progress) -> Iterator[OnStep | None]:
    """Yield what a solver should call after each step; None where nothing is to be shown.

    Args:
        title: what is being done.
        shown: True, False, None for "if stderr is a terminal", or the caller's own listener.
    """
    if callable(shown):
        yield shown
        return
    if shown is not None and not isinstance(shown, bool):
        raise DataError(
            f"progress: must be True, False, None (on a terminal) or a function of step, loss and gap, got {shown!r}."
        )
    if not (sys.stderr.isatty() if shown is None else shown):
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    live, began, count = Live(console=console, transient=True, auto_refresh=False), time.monotonic(), 0

    def on_step(number: int, loss: float, gap: float) -> None:
        nonlocal count
        count += 1
        certified = f", gap {gap:.1e}" if math.isfinite(gap) else ""  # not every step looks for one
        line = f"{title}: step {count}, goal loss {loss:.6g}{certified}"
        if not console.is_terminal:
            console.print(line)
        elif time.monotonic() - began >= QUIET:
            live.start()
            live.update(line, refresh=True)

    try:
        yield on_step
    finally:
        live.stop()
