"""`oar schema`: what the columns of a table seem to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.endings import clear_endings
from oar.cli.reading import Layout, column_of
from oar.cli.writing import Writing
from oar.errors import OptionError


@given.reads
def schema(
    file: Annotated[Path, typer.Argument(help="A .csv, .tsv, .parquet or .xlsx file.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="The column that a model predicts, which is no feature.", show_default=False)
    ] = None,
    name: given.Name = None,
    leave_out: given.LeftOut = None,
    feature: given.Features = None,
    weights: given.Weights = None,
    output: Annotated[
        Path | None, typer.Option(help="TOML file to write the schema to, to be edited.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
    written: Writing = given.WRITTEN,
) -> None:
    """Show what the columns of a table seem to be: numbers, integers, booleans, ordered levels or categories.

    Correct what was guessed wrong in the file that --output writes, and read the table with it:
    oar.Population.read("people.csv", "approved", schema="schema.toml").
    """
    with clear_endings():
        from oar.people import Schema

        frame, features = read_features(written, file, target, name, leave_out, feature, weights)
        inferred = Schema.infer(features)
        if output is None and force:
            raise OptionError("--force: is for a file that is written, and none is; leave it out, or add --output.")
        if output is not None:
            inferred.save(output, overwrite=force)
    typer.echo(inferred)
    gaps = int(frame.isna().any(axis=1).sum())
    if gaps:
        typer.echo(f"{gaps:,} of {len(frame):,} rows have missing values: choose --missing drop or --missing impute.")
    if output is not None:
        typer.echo(f"Done. Edit {output}")


def read_features(
    written: Writing,
    file: Path,
    target: str | None,
    name: str | None,
    leave_out: list[str] | None,
    feature: list[str] | None,
    weights: str | None,
    schema: Path | None = None,
) -> tuple[Any, Any]:
    """Return a file as a frame without what is left out, and its features."""
    from oar.people.framing import features_of

    called = given.by_place([name])[0] if name else None
    layout = Layout(written, target, called, given.by_place(leave_out), given.by_place(feature), weights, schema)
    written.check(file)
    frame = layout.read(file)
    for option, columns in (("leave-out", layout.left_out), ("feature", layout.features)):
        for column in columns:
            column_of(frame, column, option)
    frame = frame.drop(columns=list(layout.left_out))
    features = features_of(frame, target, weights)
    layout.check_features(features)
    return frame, features
