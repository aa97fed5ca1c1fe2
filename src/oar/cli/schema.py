"""`oar schema`: what the columns of a table seem to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.endings import clear_endings
from oar.cli.reading import Layout, column_of
from oar.errors import OptionError


def schema(
    file: Annotated[Path, typer.Argument(help="A .csv (also .csv.gz), .tsv or .parquet file.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="The column that a model predicts, which is no feature.", show_default=False)
    ] = None,
    name: given.Name = None,
    leave_out: given.LeftOut = None,
    weights: given.Weights = None,
    output: Annotated[
        Path | None, typer.Option(help="TOML file to write the schema to, to be edited.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
) -> None:
    """Show what the columns of a table seem to be: numbers, integers, booleans, ordered levels or categories.

    Correct what was guessed wrong in the file that --output writes, and read the table with it:
    oar.Population.read("people.csv", "approved", schema="schema.toml").
    """
    with clear_endings():
        from oar.people import Schema
        from oar.people.framing import features_of

        frame = Layout(sep, encoding, name=name).read(file)
        for column in leave_out or ():
            column_of(frame, column, "leave-out")
        frame = frame.drop(columns=leave_out or [])
        inferred = Schema.infer(features_of(frame, target, weights))
        if output is None and force:
            raise OptionError("--force: is for a file that is written, and none is; leave it out, or add --output.")
        if output is not None:
            inferred.save(output, overwrite=force)
    typer.echo(inferred)
    gaps = int(frame.isna().any(axis=1).sum())
    if gaps:
        typer.echo(f"{gaps:,} of {len(frame):,} rows have missing values: choose missing='drop' or missing='impute'.")
    if output is not None:
        typer.echo(f"Done. Edit {output}")
