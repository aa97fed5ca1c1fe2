"""The command `oar`: parse, call the library, print. No logic lives here."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oar.errors import OARError
from oar.version import __version__

if TYPE_CHECKING:
    from rich.progress import Progress

INTERRUPTED = 130  # what shells report for a command that Ctrl-C ended

app = typer.Typer(
    help="Online algorithmic recourse by collective action.",
    epilog="Example: oar reproduce --out reproduction --quick",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command. Being told to end (SIGTERM) leaves as little behind as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with _clear_endings():
        app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oar {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Online algorithmic recourse by collective action."""


@app.command(short_help="Recompute the paper's figures.", epilog="Example: oar reproduce --out reproduction --seed 0")
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Coarse grids, in seconds; every output says so.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 0,
    extended: Annotated[
        bool, typer.Option("--extended", help="Also Figure 2 for every other model (needs JAX; takes minutes).")
    ] = False,
) -> None:
    """Recompute the paper's figures and tables, with every number behind them.

    Writes figure1, figure2 and strip (.png, .svg, .pdf), summary.md and results.json. It takes about half a minute on
    two idle cores; with --extended, which adds extended (.png, .svg, .pdf), about ten minutes. Nothing appears in the
    folder before everything is done.
    """
    with _clear_endings(), _progress() as progress:
        from oar.paper.reproduce import reproduce as run

        bar = progress.add_task("loading", total=None)
        run(
            out,
            quick=quick,
            seed=seed,
            extended=extended,
            on_stage=lambda what, done, of: progress.update(bar, description=what, completed=done, total=of),
        )
    typer.echo(f"Done. Open {out / 'summary.md'}")


@app.command(
    short_help="Embed MNIST as the paper does.", epilog="Example: oar embed-mnist --folder mnist --out embedding"
)
def embed_mnist(
    out: Annotated[Path, typer.Option(help="Folder to write to; made if it is not there.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder with MNIST's four idx files, zipped or not.  [default: mnist in the folder that OAR_DATA "
            "names, else the user's cache, else a download]",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How long to train; the paper's number is the default.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, order and noise.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File to save to and to go on from.  [default: checkpoint.npz in --out]", show_default=False),
    ] = None,
) -> None:
    """Train the paper's autoencoder and embed MNIST with it (needs JAX; about twenty minutes on two idle cores).

    A run that was stopped goes on from its checkpoint when it is started again, and ends with the same bytes.
    """
    with _clear_endings("start it again to go on from the last checkpoint"), _progress() as progress:
        from oar.paper.embed import embed_mnist as run
        from oar.paper.vae import VAESettings

        bar = progress.add_task("loading", total=epochs)
        provenance = run(
            out,
            folder=folder,
            checkpoint=checkpoint,
            settings=VAESettings(epochs=epochs, seed=seed),
            on_epoch=lambda epoch, loss: progress.update(bar, completed=epoch, description=f"loss {loss:.2f} nats"),
            command=shlex.join(["oar", *sys.argv[1:]]),
        )
    accuracy = provenance["nearest_centroid_accuracy"]["train"]
    typer.echo(f"Done. Nearest centroid gets {accuracy:.2%} of the training images right. Files are in {out}")


@app.command(
    short_help="Show what the columns of a table are.",
    epilog="Example: oar schema people.csv --target approved --output schema.toml",
)
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
    with _clear_endings():
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


def _progress() -> Progress:
    """Return a progress bar on stderr, silent unless both outputs are terminals."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    shown = console.is_terminal and sys.stdout.isatty()
    return Progress(*columns, console=console, transient=True, disable=not shown)


@contextmanager
def _clear_endings(interrupted: str = "nothing was written") -> Iterator[None]:
    """Turn errors raised on purpose into one line and exit code 1, and Ctrl-C into exit code 130."""
    try:
        yield
    except OARError as error:
        typer.echo(f"oar: {error}", err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        typer.echo(f"oar: interrupted; {interrupted}.", err=True)
        raise SystemExit(INTERRUPTED) from None
