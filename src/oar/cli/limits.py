"""`oar limits`: what may be done to the columns of a table, drafted from what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oar.cli import options as given
from oar.cli.endings import clear_endings
from oar.cli.schema import read_features
from oar.cli.tabling import check_file
from oar.cli.writing import Writing


@given.reads
def limits(
    file: Annotated[Path, typer.Argument(help="A .csv, .tsv, .parquet or .xlsx file.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="The column that a model predicts, which is no feature.", show_default=False)
    ] = None,
    name: given.Name = None,
    leave_out: given.LeftOut = None,
    feature: given.Features = None,
    weights: given.Weights = None,
    schema: given.SchemaFile = None,
    output: Annotated[
        Path | None, typer.Option(help="TOML file to write the limits to, to be edited.", show_default=False)
    ] = None,
    force: given.Force = False,
    written: Writing = given.WRITTEN,
) -> None:
    """Draft what may be done to each column: within what was observed, with the reasons as comments.

    oar plan keeps to these limits also without the file. Edit it, and plan with --limits FILE. Rows with missing values
    count with the columns that they have.
    """
    with clear_endings():
        from oar.actions.observed import drafted
        from oar.files import replace_atomically
        from oar.people import Schema
        from oar.people.missing import without_missing

        check_file(output, force, endings=(), option="output")
        _, features = read_features(written, file, target, name, leave_out, feature, weights, schema)
        known = Schema.infer(features) if schema is None else Schema.load(schema)
        # A gap is filled in with what is usual, which lies within every range.
        text = drafted(without_missing(features, known, "impute", []), known)
        if output is not None:
            with replace_atomically(output) as opened:
                opened.write(text.encode())
    typer.echo(text if output is None else f"Done. Edit {output}, and plan with --limits {output}")
