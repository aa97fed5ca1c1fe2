"""`oar schema`: what the columns of a table seem to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.people import TableInput
from oar.cli.tables import output

Draft = Annotated[
    Path | None,
    typer.Option("--output", help="TOML file to write the schema to, to be edited.", show_default=False),
]


@given.looks
def schema(
    table: TableInput,
    draft: Annotated[
        Path | None,
        typer.Option("--output", help="TOML file to write the schema to, to be edited.", show_default=False),
    ] = None,
    force: given.Force = False,
) -> None:
    """Show what the columns of a table seem to be: numbers, integers, booleans, ordered levels or categories.

    Correct what was guessed wrong in the file that --output writes, and read the table with it:
    oar.Population.read("people.csv", "approved", schema="schema.toml").
    """
    with clear_endings():
        from oar.people import Schema

        files = output(draft, force, endings=(), option="output")
        frame, features = table.read()
        inferred = Schema.infer(features)
        for path in files:
            inferred.save(path)
    typer.echo(inferred)
    gaps = int(frame.isna().any(axis=1).sum())
    if gaps:
        typer.echo(
            f"{gaps:,} of {len(frame):,} rows have missing values: plan with --missing drop or --missing impute."
        )
    for path in files:
        typer.echo(f"Done. Edit {path}")
