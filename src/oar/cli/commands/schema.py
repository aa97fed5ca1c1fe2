"""`oar schema`: the inferred types of a table's columns. `oar limits`: their limits as observed in the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.inputs.people import TableInput
from oar.cli.options import option
from oar.cli.terminal import clear_endings, output
from oar.files import write_text


@given.looks
def schema(
    table: TableInput,
    draft: Annotated[Path | None, option("--output", help="TOML file to write the schema to, to be edited.")] = None,
    force: given.Force = False,
) -> None:
    """Show the inferred types of a table's columns: numbers, integers, booleans, ordered levels or categories.

    Correct wrong types in the file that --output writes, and read the table with it:
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


@given.looks
def limits(
    table: TableInput,
    schema: given.SchemaFile = None,
    draft: Annotated[Path | None, option("--output", help="TOML file to write the limits to, to be edited.")] = None,
    force: given.Force = False,
) -> None:
    """Draft the limits of each column as observed in the data, with the reasons as comments.

    oar plan uses these limits by default, without the file. Edit the file, and plan with --limits FILE. Rows with
    missing values count with the columns that they have.
    """
    with clear_endings():
        from oar.actions.limits.observed import drafted
        from oar.people import Schema

        files = output(draft, force, endings=(), option="output")
        _, features = table.read(schema)
        known = Schema.infer(features) if schema is None else Schema.load(schema)
        text = drafted(features, known)
        for path in files:
            write_text(path, text)
    said = [f"Done. Edit {path}, and plan with --limits {path}" for path in files]
    typer.echo("".join(said) or text)
