"""`oar schema`: what the columns of a table seem to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli.endings import clear_endings


def schema(
    file: Annotated[Path, typer.Argument(help="A .csv (also .csv.gz), .tsv or .parquet file.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="The column that a model predicts, which is no feature.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="TOML file to write the schema to, to be edited.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
    sep: Annotated[
        str | None, typer.Option(help="What is between cells.  [default: a comma; a tab in .tsv]", show_default=False)
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="How letters are bytes, such as latin-1.  [default: utf-8]", show_default=False)
    ] = None,
) -> None:
    """Show what the columns of a table seem to be: numbers, integers, booleans, ordered levels or categories.

    Correct what was guessed wrong in the file that --output writes, and read the table with it:
    oar.Population.read("people.csv", "approved", schema="schema.toml").
    """
    with clear_endings():
        from oar.people import Schema, read_table
        from oar.people.framing import features_of

        # Shells hand '\\t' on as two characters.
        given = {"sep": "\t" if sep == r"\t" else sep, "encoding": encoding}
        frame = read_table(file, **{name: value for name, value in given.items() if value is not None})
        inferred = Schema.infer(features_of(frame, target))
        if output is not None:
            inferred.save(output, overwrite=force)
    typer.echo(inferred)
    gaps = int(frame.isna().any(axis=1).sum())
    if gaps:
        typer.echo(f"{gaps:,} of {len(frame):,} rows have missing values: choose missing='drop' or missing='impute'.")
    if output is not None:
        typer.echo(f"Done. Edit {output}")
