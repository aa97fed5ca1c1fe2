"""`oar reproduce`, `oar embed-mnist` and `oar outside`: the paper, end to end, and what it leaves to others."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from oar.cli.options import option
from oar.cli.terminal import clear_endings, progress_bar

Out = Annotated[Path, option(help="Output folder; made if it does not exist.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]


def reproduce(
    out: Out,
    quick: Annotated[bool, typer.Option("--quick", help="Coarse grids, in seconds; every output says so.")] = False,
    seed: Seed = 0,
    extended: Annotated[
        bool, typer.Option("--extended", help="Also Figure 2 for every other model (needs JAX; takes minutes).")
    ] = False,
) -> None:
    """Recompute the paper's figures and tables, with every number behind them.

    Writes figure1, figure2 and strip (.png, .svg, .pdf), summary.md and results.json. It takes about half a minute on
    two idle cores; with --extended, which adds extended (.png, .svg, .pdf), about ten minutes. Nothing appears in the
    folder before everything is done.
    """
    with clear_endings(), progress_bar() as on_stage:
        from oar_paper.reproduce import reproduce as run

        run(out, quick=quick, seed=seed, extended=extended, on_stage=on_stage)
    typer.echo(f"Done. Open {out / 'summary.md'}")


def embed_mnist(
    out: Out,
    folder: Annotated[
        Path | None,
        option(
            help="Folder with MNIST's four idx files, zipped or not.  [default: mnist in the folder that OAR_DATA "
            "names, else the user's cache, else a download]"
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How long to train; the paper's number is the default.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, order and noise.")] = 0,
    checkpoint: Annotated[
        Path | None, option(help="File to save to and to resume from.  [default: checkpoint.npz in --out]")
    ] = None,
) -> None:
    """Train the paper's autoencoder and embed MNIST with it (needs JAX; about twenty minutes on two idle cores).

    A run that was stopped goes on from its checkpoint when it is started again, and ends with the same bytes.
    """
    with clear_endings("start it again to go on from the last checkpoint"), progress_bar(epochs) as on_stage:
        from oar_paper.embedding.embed import embed_mnist as run
        from oar_paper.embedding.vae import VAESettings

        provenance = run(
            out,
            folder=folder,
            checkpoint=checkpoint,
            settings=VAESettings(epochs=epochs, seed=seed),
            on_epoch=lambda epoch, loss: on_stage(f"loss {loss:.2f} nats", epoch, epochs),
            command=shlex.join(["oar", *sys.argv[1:]]),
        )
    accuracy = provenance["nearest_centroid_accuracy"]["train"]
    typer.echo(f"Done. Nearest centroid gets {accuracy:.2%} of the training images right. Files are in {out}")


def outside(
    out: Out,
    quick: Annotated[bool, typer.Option("--quick", help="Few people and trainings; every output says so.")] = False,
    seed: Seed = 0,
    refits: Annotated[int, typer.Option(min=2, help="True trainings that a search may use.")] = 40,
    adult: Annotated[
        Path | None, option(help="Folder with UCI's Adult files; left out of the study unless given.")
    ] = None,
) -> None:
    """Measure how much of a collective's power remains if the operator's model is a black box.

    Plans for logistic regression, an MLP, nearest neighbours, a random forest and XGBoost, by whoever knows the model,
    by surrogates and by searching with true trainings, are all judged by the model's own training. Writes outside
    (.png, .svg, .pdf), summary.md, table.csv and results.json. It needs JAX and XGBoost, and takes some 25
    minutes on one core (--quick: some minutes). Nothing appears in the folder before everything is done.
    """
    with clear_endings(), progress_bar() as on_stage:
        from oar_paper.black_boxes.files import study_outside
        from oar_paper.black_boxes.study import outside_settings

        study_outside(out, outside_settings(quick, seed, refits, adult), on_stage=on_stage)
    typer.echo(f"Done. Open {out / 'summary.md'}")
