"""Output and endings of commands: errors in one line, a clean Ctrl-C, progress, and tables.

Progress is on stderr: at once on a terminal, and elsewhere in a line every ten seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from oar.cli.error_words import in_own_options
from oar.errors import OARError, OptionError
from oar.files import write_text
from oar.progress import INTERRUPTED, being_tried

if TYPE_CHECKING:
    from oar.problem import Problem

ENDINGS = ("SIGTERM", "SIGHUP")  # what a command is told to end with, beside Ctrl-C
Stage = Callable[..., None]
EVERY = 10.0  # seconds between lines where stderr is no terminal


@contextmanager
def progress_bar(total: int | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield what shows what is done, how many of how many, in a bar on stderr; only if both outputs are terminals."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    shown = console.is_terminal and sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        bar = progress.add_task("loading", total=total)
        yield lambda what, done, of: progress.update(bar, description=what, completed=done, total=of)


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
                said = ": ".join([doing[0], *being_tried()])
                stream.write(f"{said} … ({time.monotonic() - began:.0f} s)\n")
                stream.flush()

    thread = threading.Thread(target=tell, args=(sys.stderr,), daemon=True)
    thread.start()
    try:
        yield stage
    finally:
        done.set()
        thread.join(EVERY)


def output(
    path: Path | None, force: bool, endings: tuple[str, ...] = (".csv", ".json"), option: str = "out"
) -> tuple[Path, ...]:
    """Return the file to write to, if there is one, in a tuple.

    Raise for a file that is there already or ends otherwise, and for a --force that forces nothing.
    """
    if path is None:
        if force:
            raise OptionError(f"--force: is for a file that is written, and none is; leave it out, or add --{option}.")
        return ()
    if endings and path.suffix.lower() not in endings:
        raise OptionError(f"{option}: must end in {' or '.join(endings)}, got {path.name!r}.")
    if os.path.exists(path) and not force:
        raise OptionError(f"{option}: {path} is there already; choose another name, or add --force.")
    return (path,)


def tell_written(files: tuple[Path, ...]) -> None:
    """Say what was written, in a line at the end."""
    for path in files:
        typer.echo(f"\nDone. Written to {path}")


def save_rows(rows: Sequence[dict[str, Any]], files: tuple[Path, ...]) -> None:
    """Write rows as CSV or JSON, as each file's name says."""
    from oar.people.tables.spreadsheet import harmless_csv

    for path in files:
        if path.suffix.lower() == ".json":
            text = json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        else:
            import pandas

            text = harmless_csv(pandas.DataFrame(rows))
        write_text(path, text)


def tell_limits(problem: Problem) -> None:
    """Say in one line, beside the answer, what keeps columns where they may be."""
    from oar.report.plan.facts import limits_told

    told = limits_told(problem)
    if told is not None:
        typer.echo(f"\nLimits: {told}", err=True)
