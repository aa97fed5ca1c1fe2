"""`oar study`: a grid of cells, kept in a file that survives a kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.options import Search, option
from oar.cli.terminal import clear_endings, output, tell_limits
from oar.errors import OptionError

TABLES, PICTURES = (".parquet", ".csv"), (".png", ".svg", ".pdf")
DATABASE = b"SQLite format 3\0"  # how such a file begins
MOST_COLUMNS = 10  # budgets in the table that is printed
# A line with \\b keeps the lines of a paragraph as they are.
EXAMPLE = """\b
Example: oar study study.toml --workers 2 --time-limit 60 --export cells.parquet --figure phase.png
with study.toml:
    example = "german-credit"             # or: data = "people.csv", target = "approved"
    goal = "good"                         # this, and all keys up here, as options of oar plan
    [axes]
    budgets = [0.1, 0.25, 0.5]
    participation = [0.25, 0.5, 1.0]      # shares of everyone, drawn at random
    queries = [1, 4]                      # rows of the data, or files
    models = ["softmax", "naive-bayes"]
    seeds = [0, 1]                        # of the draws
    # most = [5, 10]                      # with relabel or withhold above: labels or leavers
"""


@given.bounds_cells
def study(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="A TOML file; or the store of a study, to make only a table and a figure."
        ),
    ],
    search: Search,
    store: Annotated[Path | None, option("--store", help="The SQLite file of the study.  [default: STUDY.db]")] = None,
    workers: Annotated[
        int | None, option(min=1, help="The number of processes.  [default: as many as cores, where that saves time]")
    ] = None,
    export: Annotated[Path | None, option(help="Write the table of cells to a .parquet or .csv file.")] = None,
    figure: Annotated[Path | None, option("--figure", help="Draw the phase diagram: .png, .svg or .pdf.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing table or figure.")] = False,
) -> None:
    """Plan and audit every combination of budgets, shares, queries, models and seeds, and store the results.

    Cells are solved in parallel and written one by one to an SQLite file. After an interruption, a kill included, the
    same command resumes there. Several processes may work on one file at the same time. A file of another problem is
    refused.
    """
    kept = "what is done is kept; run the same command again to go on"
    with clear_endings(kept, in_words=str):  # a study's words are its file's
        if force and not (export or figure):
            raise OptionError("--force: is for files that are written; leave it out, or add --export or --figure.")
        tables = output(export, force and bool(export), TABLES, "--export")
        pictures = output(figure, force and bool(figure), PICTURES, "--figure")
        toml = file.suffix.lower() == ".toml"
        found, problems = _run(file, store, workers, search) if toml else _opened(file, store, workers, search)
        for path in pictures:  # first, because of a study without an answer there is a table, but no figure
            found.figure(path)
        for path in tables:
            (found.to_parquet if path.suffix.lower() == ".parquet" else found.to_csv)(path)
    typer.echo(_summary(found, [*tables, *pictures]))
    for problem in problems:
        tell_limits(problem)


def _run(file: Path, store: Path | None, workers: int | None, search: Search) -> tuple[Any, list[Any]]:
    """Return a study as its file says, with all its cells done, and its problem."""
    import oar
    from oar.cli.inputs.study_file import in_its_own_words, read_study

    with in_its_own_words():
        said = read_study(file)
        problem, arguments = said.problem, said.arguments
    if all(model.plain_means for model in arguments["models"].values()):
        search.check_has_effect(problem)
    arguments |= {"effort": search.level, "time_limit": search.time_limit}
    return oar.study(problem, **arguments, store=store or said.store, workers=workers), [problem]


def _opened(file: Path, store: Path | None, workers: int | None, search: Search) -> tuple[Any, list[Any]]:
    """Return a study as its store has it, and no problem."""
    import oar

    said = [f"--{name.replace('_', '-')}" for name in search.said]
    for name, is_given in (("--store", store), ("--workers", workers), *((name, True) for name in said)):
        if is_given:
            raise OptionError(f"{name}: is for a study that is run, and {file.name} is a store; leave it out.")
    first = b""
    if os.path.isfile(file):
        with file.open("rb") as opened:
            first = opened.read(len(DATABASE))
    if first not in (b"", DATABASE):  # empty is what a kill may leave of one
        raise OptionError(
            f"STUDY: must be a TOML file that says what to ask, or a study's store, got {file.name}, which is "
            'neither; name data in a TOML file, as data = "…" (oar study --help has an example).'
        )
    return oar.results.Study.open(file), []


def _summary(found: Any, written: list[Path]) -> str:
    """Return what is said at the end: how often the goal is reached, and where everything is."""
    import math

    from oar.people.wording import lined_up
    from oar.pictures.numbers import number
    from oar.studies.result import TO_COME, extent, panels_of, rates_of

    table, counts, said = found.table(), found.counts, []
    across, panels = panels_of(table)
    coming = table[table["status"].isin(TO_COME)]
    for model, cells in panels:
        some = rates_of(cells)
        budgets = sorted(some[across].astype(float).unique())
        shown = budgets[:: -(-len(budgets) // MOST_COLUMNS) or 1]
        far = ("–" if math.isnan(budget) else number(float(budget)) for budget in shown)
        lines = [(f"take part \\ {across}", *far)]
        open_squares = set(_squares(cells[cells["status"].isin(TO_COME)], across))
        reached = dict(zip(_squares(some, across), some["rate"], strict=True))
        for share in sorted(some["participation"].unique(), reverse=True):
            squares = [(_place(share), _place(budget)) for budget in shown]
            rate = [f"{reached[one]:.0%}" if one in reached else "" for one in squares]
            line = [told + "…" * (one in open_squares) for one, told in zip(squares, rate, strict=True)]
            lines.append(("as given" if math.isnan(share) else f"{100 * share:.4g} %", *line))
        if len(some):
            said += [f"{model}: how often the goal is reached, over {extent(cells)}", lined_up(lines), ""]
    if len(coming):
        said.append("…: more of its cells are to come.")
    stood = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    ended = "Done." if counts["done"] == sum(counts.values()) else "Not done:"
    files = "".join(f"; written to {path}" for path in written)
    if counts["failed"]:
        said.append("Cells that failed say why in the table's column `error`.")
    return "\n".join([*said, f"{ended} {stood} in {found.path}{files}"])


def _squares(rows: Any, across: str) -> list[tuple[Any, Any]]:
    """Return in which square each row of a table is."""
    return [
        (_place(share), _place(far))
        for share, far in zip(rows["participation"], rows[across].astype(float), strict=True)
    ]


def _place(budget: float) -> Any:
    return None if budget != budget else budget
