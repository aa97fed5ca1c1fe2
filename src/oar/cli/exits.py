"""The ends of commands: errors in one line, Ctrl-C without a mess, and a progress bar that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from oar.cli.error_words import in_own_options
from oar.errors import OARError
from oar.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from rich.progress import Progress

ENDINGS = ("SIGTERM", "SIGHUP")  # what a command is told to end with, beside Ctrl-C


def progress_bar() -> Progress:
    """Return a progress bar on stderr, silent unless both outputs are terminals."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    shown = console.is_terminal and sys.stdout.isatty()
    return Progress(*columns, console=console, transient=True, disable=not shown)


@contextmanager
def clear_endings(
    interrupted: str = "nothing was written", in_words: Callable[[str], str] = in_own_options
) -> Iterator[None]:
    """Turn errors raised on purpose into one line and exit code 1, and Ctrl-C into exit code 130.

    `in_words` puts what an error says into the words of the command.
    """
    try:
        yield
    except OARError as error:
        typer.echo(f"oar: {in_words(str(error))}", err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        typer.echo(f"oar: interrupted; {interrupted}.", err=True)
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def left_at_once() -> Iterator[None]:
    """Leave without Python's own end where a signal ended the command, after everything has been cleaned up.

    JAX's threads may still compute then, and would crash on what Python's end takes away from under them.
    """
    try:
        yield
    except SystemExit as ending:
        told: list[Any] = [128 + getattr(signal, name) for name in ENDINGS if hasattr(signal, name)]
        if ending.code not in (INTERRUPTED, *told):
            raise
        scratch = sys.modules.get("oar.streaming.scratch")  # which cleans up where Python ends, and only then
        if scratch is not None:
            scratch.clear_all()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # a pipe that nobody reads any more
                stream.flush()
        os._exit(int(ending.code or 0))
