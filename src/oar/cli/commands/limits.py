"""`oar limits`: what may be done to the columns of a table, drafted from what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.people import TableInput
from oar.cli.tables import output, write_text

Draft = Annotated[
    Path | None,
    typer.Option("--output", help="TOML file to write the limits to, to be edited.", show_default=False),
]


@given.looks
def limits(
    table: TableInput,
    schema: given.SchemaFile = None,
    draft: Annotated[
        Path | None,
        typer.Option("--output", help="TOML file to write the limits to, to be edited.", show_default=False),
    ] = None,
    force: given.Force = False,
) -> None:
    """Draft what may be done to each column: within what was observed, with the reasons as comments.

    oar plan keeps to these limits also without the file. Edit it, and plan with --limits FILE. Rows with missing values
    count with the columns that they have.
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
