"""`oar limits`: what may be done to the columns of a table, drafted from what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.people import TableInput
from oar.cli.tables import check_file


@given.looks
def limits(
    table: TableInput,
    schema: given.SchemaFile = None,
    output: Annotated[
        Path | None, typer.Option(help="TOML file to write the limits to, to be edited.", show_default=False)
    ] = None,
    force: given.Force = False,
) -> None:
    """Draft what may be done to each column: within what was observed, with the reasons as comments.

    oar plan keeps to these limits also without the file. Edit it, and plan with --limits FILE. Rows with missing values
    count with the columns that they have.
    """
    with clear_endings():
        from oar.actions.limits.observed import drafted
        from oar.files import replace_atomically
        from oar.people import Schema

        check_file(output, force, endings=(), option="output")
        _, features = table.read(schema)
        known = Schema.infer(features) if schema is None else Schema.load(schema)
        text = drafted(features, known)
        if output is not None:
            with replace_atomically(output) as opened:
                opened.write(text.encode())
    typer.echo(text if output is None else f"Done. Edit {output}, and plan with --limits {output}")
