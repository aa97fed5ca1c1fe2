"""Tables in a terminal, and the same as files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from oar.errors import OptionError
from oar.files import replace_atomically

if TYPE_CHECKING:
    from oar.problem import Problem


def lined(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are as wide as they must be.

    >>> print(lined(("group", "people"), [("a", "10"), ("others", "2")]))
    group   people
    a       10
    others  2
    """
    every = [tuple(header), *map(tuple, rows)]
    widths = [max(len(row[place]) for row in every) for place in range(len(header))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )


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


def write_text(path: Path, text: str) -> None:
    """Write a text that is whole, or not there."""
    with replace_atomically(path) as file:
        file.write(text.encode())


def tell_limits(problem: Problem) -> None:
    """Say in one line, beside the answer, what keeps columns where they may be."""
    from oar.report.plan.facts import limits_told

    told = limits_told(problem)
    if told is not None:
        typer.echo(f"\nLimits: {told}", err=True)
