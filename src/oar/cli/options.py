"""Options that several commands have, with the same words in each."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout, TableInput
from oar.cli.inputs.problem import ProblemArguments

WRITTEN = FileDialect()
OF_CARD = ("data", "example", "feature", "schema", "plain", "budget", "norm", "model", "relabel", "withhold")
ROWS = "Rows are counted from 0, the header not among them; with --id they are called by that column's value."

Data = Annotated[
    Path | None,
    typer.Argument(help="A .csv (also .csv.gz), .tsv, .parquet or .xlsx file, one row a person.", metavar="DATA"),
]
Example = Annotated[
    str,
    typer.Option(help="Data that ship with the package, in place of DATA: german-credit.", show_default=False),
]
Target = Annotated[str, typer.Option(help="The column that the model predicts.", show_default=False)]
Queries = Annotated[
    str,
    typer.Option(
        metavar="ROW|FILE",
        help=f"Who asks: a row of DATA (several with commas between them), or a file of rows. {ROWS} A row of DATA "
        "stays in the training data as it is, and does not take part.",
        show_default=False,
    ),
]
Goal = Annotated[
    list[str] | None,
    typer.Option(
        help="The prediction that is wanted: a value of the target (repeat it where any of several will do); for ridge "
        "a number, or a range such as 10..20.",
        show_default=False,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="How far each member may go: in standard deviations of numbers, flips and switches, or as --limits says; "
        "with --plain in the columns' own units.",
        show_default=False,
    ),
]
NormName = Annotated[
    str,
    typer.Option("--norm", help="How costs add up: 1, 2 or inf.  [default: 1; with --plain 2]", show_default=False),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help="What is retrained: softmax, nearest-centroid, ridge, svm, naive-bayes or mlp; on standardised columns, "
        "the scaler being refitted too; with --plain on the columns as they are.",
    ),
]
LimitsFile = Annotated[
    Path | None,
    typer.Option(
        "--limits",
        metavar="FILE|none",
        help="TOML file that says what may be done to columns; others stay within what was observed (oar limits drafts "
        "the file). none lifts all limits.",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="TOML file that says what the columns are (see oar schema).", show_default=False),
]
Missing = Annotated[str, typer.Option(help="What to do about missing values: refuse, drop or impute.")]
Participants = Annotated[
    str,
    typer.Option(
        metavar="everyone|20%|best:50|COLUMN=VALUE",
        help="Who takes part: everyone, a random share (see --seed), the most useful, or a column's group.",
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of all random draws: shares of people, an mlp's weights, and parts of a plan.")
]
Group = Annotated[
    str,
    typer.Option(
        help="A column of DATA by whose values burden and side effects are told; small groups are put together.",
        show_default=False,
    ),
]
Several = Annotated[
    str,
    typer.Option(help="With several queries, what counts: mean, worst or share.  [default: mean]", show_default=False),
]
Barred = Annotated[
    list[str] | None,
    typer.Option(
        "--not",
        help="In place of --goal: any prediction but this will do; may be repeated.",
        show_default=False,
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        help="With several queries: the share of them that must get the goal for a success.  [default: 1]",
        show_default=False,
    ),
]
MoveToo = Annotated[
    bool,
    typer.Option(
        "--move-too",
        help="Who asks are rows of DATA that take part, if --participants lets them: they are judged where their own "
        "moves take them.",
    ),
]
Probability = Annotated[
    float | None,
    typer.Option(help="The goal's probability must come to this at least, too.", show_default=False),
]
Within = Annotated[
    float | None,
    typer.Option(help="With ridge: how near to the goal is near enough.", show_default=False),
]
Relabelled = Annotated[
    int | None, typer.Option("--relabel", min=1, help="Let so many labels change, at most.", show_default=False)
]
Withheld = Annotated[
    int | None, typer.Option("--withhold", min=1, help="Let so many members leave, at most.", show_default=False)
]
Changed = Annotated[
    float | None,
    typer.Option(
        help="Of those who do nothing, at most this share may get another prediction, such as 0.02.", show_default=False
    ),
]
Lost = Annotated[
    float | None,
    typer.Option(
        help="Of those who have the goal's prediction, at most this share may lose it, such as 0.02: of the members "
        "who move, where their moves take them, and of those who do nothing.",
        show_default=False,
    ),
]
Worse = Annotated[
    float | None,
    typer.Option(help="The model's accuracy may fall by so much at most, such as 0.01.", show_default=False),
]
Name = Annotated[
    str,
    typer.Option("--id", help="A column of names of people, which is no feature; 004 is not 4.", show_default=False),
]
LeftOut = Annotated[
    list[str] | None,
    typer.Option("--leave-out", help="A column that the model does not see; may be repeated.", show_default=False),
]
Weights = Annotated[str, typer.Option(help="A column of training weights.", show_default=False)]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="Columns are numbers that are measured together in their own units, and the model sees them so, without a "
        "scaler; no schema and no limits. Then plans for nearest-centroid are proved optimal.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        help="A column that is a feature although it looks like row numbers or names; may be repeated.",
        show_default=False,
    ),
]
Sep = Annotated[
    str,
    typer.Option(
        help="What is between cells.  [default: a comma, or what the whole header has instead; a tab in .tsv]",
        show_default=False,
    ),
]
Encoding = Annotated[
    str, typer.Option(help="How letters are bytes, such as latin-1.  [default: utf-8]", show_default=False)
]
Decimal = Annotated[
    str, typer.Option(help="The decimal mark, such as a comma.  [default: a point]", show_default=False)
]
Thousands = Annotated[str, typer.Option(help="The mark between thousands, as in 1,200 or 1'200.", show_default=False)]
Na = Annotated[
    list[str] | None,
    typer.Option(
        "--na",
        help="A word that stands for a missing value, such as unknown or ?, beside NA, NaN and empty cells; may be "
        "repeated.",
        show_default=False,
    ),
]
TableFile = Annotated[Path, typer.Argument(help="A .csv, .tsv, .parquet or .xlsx file.", show_default=False)]
NoFeature = Annotated[
    str,
    typer.Option("--target", help="The column that a model predicts, which is no feature.", show_default=False),
]
Sheet = Annotated[str, typer.Option(help="The sheet of an .xlsx file.  [default: the first]", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Write over what is there already.")]


def about_files(
    sep: Sep = "",
    encoding: Encoding = "",
    decimal: Decimal = "",
    thousands: Thousands = "",
    na: Na = None,
    sheet: Sheet = "",
) -> FileDialect:
    """Return how files are written; its arguments are the options of every command that reads a table."""
    return FileDialect(sep, encoding, decimal, thousands, tuple(na or ()), sheet)


def about_table(
    file: TableFile,
    target: NoFeature = "",
    name: Name = "",
    leave_out: LeftOut = None,
    feature: Features = None,
    weights: Weights = "",
    written: FileDialect = WRITTEN,
) -> TableInput:
    """Return a table and what its columns are for; its arguments are the options of commands that look at a table."""
    return TableInput(
        file, Layout(written, target, "".join(by_place([name])), by_place(leave_out), by_place(feature), weights)
    )


def about_people(
    data: Data = None,
    target: Target = "",
    name: Name = "",
    leave_out: LeftOut = None,
    feature: Features = None,
    weights: Weights = "",
    schema: SchemaFile = None,
    missing: Missing = "refuse",
    plain: Plain = False,
    written: FileDialect = WRITTEN,
    example: Example = "",
    query: Queries = "",
    goal: Goal = None,
    barred: Barred = None,
    budget: Budget = None,
    norm: NormName = "",
    model: ModelName = "softmax",
    limits: LimitsFile = None,
    participants: Participants = "everyone",
    relabel: Relabelled = None,
    withhold: Withheld = None,
    several: Several = "",
    share: Share = None,
    move_too: MoveToo = False,
    probability: Probability = None,
    within: Within = None,
    changed: Changed = None,
    lost: Lost = None,
    worse: Worse = None,
    seed: Seed = 0,
) -> ProblemArguments:
    """Return what is asked; its arguments are the options of every command that asks about people."""
    called, out, seen = "".join(by_place([name])), by_place(leave_out), by_place(feature)
    return ProblemArguments(
        data=data,
        layout=Layout(written, target, called, out, seen, weights, schema, missing, plain),
        example=example,
        query=query,
        goal=tuple(goal or ()),
        barred=tuple(barred or ()),
        budget=budget,
        norm=norm,
        model=model,
        limits=limits,
        participants=participants,
        relabel=relabel,
        withhold=withhold,
        several=several,
        share=share,
        move_too=move_too,
        probability=probability,
        within=within,
        changed=changed,
        lost=lost,
        worse=worse,
        seed=seed,
    )


def by_place(names: list[str] | None) -> tuple[str, ...]:
    """Return columns as they are called here: pandas' name of one that has none is its place.

    >>> by_place(["Unnamed: 0", "age"])
    ('column 1', 'age')
    """
    return tuple(re.sub(r"^Unnamed: (\d+)$", lambda place: f"column {int(place[1]) + 1}", name) for name in names or ())


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that has an argument `asked` the options of `about_people` in its place."""
    return reads(_composed(command, "asked", about_people))


def asks_of_card(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the same, but for its own DATA and for what a card says itself."""
    return reads(_composed(command, "asked", about_people, without=OF_CARD))


def looks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that has an argument `table` the options of `about_table` in its place."""
    return reads(_composed(command, "table", about_table))


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that has an argument `written` the options of `about_files` in its place."""
    return _composed(command, "written", about_files)


def _composed(
    command: Callable[..., None], name: str, maker: Callable[..., Any], without: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Return a command with a maker's options, `without` some, in place of the argument that it makes."""
    made = [part for part in inspect.signature(maker).parameters.values() if part.name not in without]
    own = list(inspect.signature(command).parameters.values())
    place = [part.name for part in own].index(name)

    @functools.wraps(command)
    def parsed(**values: Any) -> None:
        command(**{name: maker(**{part.name: values.pop(part.name) for part in made})}, **values)

    # Typer reads options off the signature and the annotations.
    hints = get_type_hints(maker, include_extras=True) | get_type_hints(command, include_extras=True)
    every = [
        part.replace(kind=part.KEYWORD_ONLY, annotation=hints[part.name])
        for part in (*own[:place], *made, *own[place + 1 :])
    ]
    parsed.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    parsed.__annotations__ = {part.name: hints[part.name] for part in every}
    del parsed.__wrapped__  # whose signature is another
    return parsed
