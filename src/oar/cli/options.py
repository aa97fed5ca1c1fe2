"""Options that several commands have, with the same words in each.

How long a command may search is one of them (`searches`): it holds for all that the command computes, whichever
function of the library does it.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout, TableInput
from oar.cli.inputs.problem import ProblemArguments
from oar.cli.terminal import clear_endings
from oar.errors import OptionError

WRITTEN = FileDialect()
ASKED = tuple(field.name for field in fields(ProblemArguments))
OF_CARD = ("data", "example", "feature", "schema", "plain", "budget", "norm", "model", "relabel", "withhold")
ROWS = "Rows are counted from 0 without the header; with --id they are named by that column's value."


def option(*names: str, **settings: Any) -> Any:
    """Return an option whose default is not shown: its help says what happens without it, where that is not plain."""
    return typer.Option(*names, show_default=False, **settings)


SchemaFile = Annotated[Path | None, option("--schema", help="TOML file of the columns' types (see oar schema).")]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of all random draws: shares of people, an mlp's weights, and parts of a plan.")
]
Group = Annotated[
    str, option(help="A column of DATA by whose values burden and side effects are reported; small groups are merged.")
]
Name = Annotated[str, option("--id", help="A column of people's names, which is not a feature; 004 is not 4.")]
LeftOut = Annotated[
    list[str] | None, option("--leave-out", help="A column that the model does not see; may be repeated.")
]
Weights = Annotated[str, option(help="A column of training weights.")]
Features = Annotated[
    list[str] | None,
    option(
        "--feature", help="A column that is a feature although it looks like row numbers or names; may be repeated."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


@dataclass(frozen=True)
class Search:
    """How much a command may search; None and "" where nothing is said."""

    effort: str = ""
    time_limit: float | None = None

    @property
    def level(self) -> str | None:
        """The effort as the library takes it."""
        return self.effort or None

    @property
    def said(self) -> dict[str, Any]:
        """The options that were given, by the names of settings."""
        return {name: value for name, value in vars(self).items() if value not in ("", None)}

    @contextmanager
    def bounding(self) -> Iterator[None]:
        """Let solvers make this effort, and end in this time."""
        if not self.said:  # nor is anything imported for it
            yield
            return
        from oar.progress import limited_time
        from oar.solvers.registry import default_effort

        with default_effort(self.level), limited_time(self.time_limit):
            yield

    def check_has_effect(self, problem: Any) -> None:
        """Refuse options of a search where nothing is searched."""
        from oar.questions.least.trials import has_closed_form

        for name in self.said if has_closed_form(problem) else ():
            raise OptionError(
                f"--{name.replace('_', '-')}: does nothing here, because for nearest-centroid with --plain answers are "
                "computed, not searched; leave it out."
            )

    def told(self, what: str) -> str | None:
        """Return a sentence where the time is over by now, and `what` may be the poorer for it."""
        from oar.progress import is_late

        if not is_late():
            return None
        return f"the {self.time_limit:g} s of --time-limit were over before {what}; more time may find more"


@contextmanager
def share_of_time(parts: int) -> Iterator[None]:
    """Leave what is begun in a `with` block one of so many parts of the time that is left, where that is limited."""
    import time

    from oar.progress import deadline, limited_time

    with limited_time(max(deadline() - time.monotonic(), 0.0) / parts):
        yield


Effort = Annotated[
    str,
    option(
        help="How much is searched: quick, normal, or thorough, which takes several times as long.  [default: normal]"
    ),
]


def about_search(
    effort: Effort = "",
    time_limit: Annotated[
        float | None,
        option(
            "--time-limit",
            metavar="SECONDS",
            help="Seconds from the start of the command after which no search begins anything more: the best so far is "
            "audited, and the output says so. What is begun goes on, and audits take their own time.",
        ),
    ] = None,
) -> Search:
    """Return how much is searched; its arguments are the options of every command that searches."""
    from oar.checks import choose
    from oar.progress import check_time_limit

    if effort:
        choose("effort", effort, ("quick", "normal", "thorough"))
    check_time_limit(time_limit)
    return Search(effort, time_limit)


def about_cells(
    effort: Effort = "",
    time_limit: Annotated[
        float | None,
        option(
            "--time-limit",
            metavar="SECONDS",
            help="Seconds for each cell after which its search begins nothing more: the best so far is audited, and "
            "its outcome in the table says how it stands.",
        ),
    ] = None,
) -> Search:
    """Return the same for each cell of a study."""
    return about_search(effort, time_limit)


def about_files(
    sep: Annotated[
        str,
        option(help="The separator between cells.  [default: a comma, or what the header has instead; a tab in .tsv]"),
    ] = "",
    encoding: Annotated[str, option(help="The character encoding, such as latin-1.  [default: utf-8]")] = "",
    decimal: Annotated[str, option(help="The decimal mark, such as a comma.  [default: a point]")] = "",
    thousands: Annotated[str, option(help="The mark between thousands, as in 1,200 or 1'200.")] = "",
    na: Annotated[
        list[str] | None,
        option(
            "--na",
            help="A word for a missing value, such as unknown or ?, in addition to NA, NaN and empty cells; may be "
            "repeated.",
        ),
    ] = None,
    sheet: Annotated[str, option(help="The sheet of an .xlsx file.  [default: the first]")] = "",
) -> FileDialect:
    """Return how files are written; its arguments are the options of every command that reads a table."""
    return FileDialect(sep, encoding, decimal, thousands, tuple(na or ()), sheet)


def about_table(
    file: Annotated[Path, typer.Argument(help="A .csv, .tsv, .parquet or .xlsx file.", show_default=False)],
    target: Annotated[str, option("--target", help="The column that a model predicts, which is not a feature.")] = "",
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
    data: Annotated[
        Path | None,
        typer.Argument(help="A .csv (also .csv.gz), .tsv, .parquet or .xlsx file, one row a person.", metavar="DATA"),
    ] = None,
    target: Annotated[str, option(help="The column that the model predicts.")] = "",
    name: Name = "",
    leave_out: LeftOut = None,
    feature: Features = None,
    weights: Weights = "",
    schema: SchemaFile = None,
    missing: Annotated[str, typer.Option(help="What to do about missing values: refuse, drop or impute.")] = "refuse",
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Columns are plain numbers in their own units, for budget and model alike, without schema, limits and "
            "scaler. Plans for nearest-centroid are then proved optimal.",
        ),
    ] = False,
    written: FileDialect = WRITTEN,
    example: Annotated[str, option(help="Data that ship with the package, in place of DATA: german-credit.")] = "",
    query: Annotated[
        str,
        option(
            metavar="ROW|FILE",
            help=f"The query subject: a row of DATA (several with commas between them), or a file of rows. {ROWS} A "
            "row of DATA stays in the training data unchanged, and does not take part.",
        ),
    ] = "",
    goal: Annotated[
        list[str] | None,
        option(
            help="The goal, which is the desired prediction: a value of the target (repeat the option if any of "
            "several will do); for ridge a number, or a range such as 10..20."
        ),
    ] = None,
    barred: Annotated[
        list[str] | None, option("--not", help="In place of --goal: any prediction but this one; may be repeated.")
    ] = None,
    budget: Annotated[
        float | None,
        option(
            help="How far each member may move: in standard deviations of numbers, flips and switches, or in the costs "
            "of --limits; with --plain in the columns' own units."
        ),
    ] = None,
    norm: Annotated[
        str, option("--norm", help="The norm that combines costs: 1, 2 or inf.  [default: 1; with --plain 2]")
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The operator's model: softmax, nearest-centroid, ridge, svm, naive-bayes or mlp; on standardised "
            "columns with a scaler that is refitted too; with --plain on the columns as they are.",
        ),
    ] = "softmax",
    limits: Annotated[
        Path | None,
        option(
            "--limits",
            metavar="FILE|none",
            help="TOML file of the columns' limits; other columns keep the limits observed in the data (oar limits "
            "drafts the file). none removes all limits.",
        ),
    ] = None,
    participants: Annotated[
        str,
        typer.Option(
            metavar="everyone|20%|best:50|COLUMN=VALUE",
            help="Who takes part: everyone, a random share (see --seed), the most useful, or a column's group.",
        ),
    ] = "everyone",
    relabel: Annotated[
        int | None, option("--relabel", min=1, help="The largest number of labels that may change.")
    ] = None,
    withhold: Annotated[
        int | None, option("--withhold", min=1, help="The largest number of members who may leave.")
    ] = None,
    several: Annotated[
        str, option(help="The goal loss of several queries: mean, worst or share.  [default: mean]")
    ] = "",
    share: Annotated[
        float | None,
        option(help="With several queries: the share that must reach the goal for a success.  [default: 1]"),
    ] = None,
    move_too: Annotated[
        bool,
        typer.Option(
            "--move-too",
            help="The query subjects are rows of DATA that take part, if --participants includes them, and are "
            "predicted at their own moved features.",
        ),
    ] = False,
    probability: Annotated[float | None, option(help="The goal must also have at least this probability.")] = None,
    within: Annotated[float | None, option(help="With ridge: the tolerance within which the goal is reached.")] = None,
    changed: Annotated[
        float | None, option(help="Largest share of those who do nothing whose prediction may change, such as 0.02.")
    ] = None,
    lost: Annotated[
        float | None,
        option(
            help="Largest share of those with the goal's prediction who may lose it, such as 0.02: of members who "
            "move, predicted at their moved features, and of those who do nothing."
        ),
    ] = None,
    worse: Annotated[float | None, option(help="Largest fall of the model's accuracy, such as 0.01.")] = None,
    seed: Seed = 0,
) -> ProblemArguments:
    """Return what is asked; its arguments are the options of every command that asks about people."""
    said = {key: value for key, value in locals().items() if key in ASKED}
    called, out, seen = "".join(by_place([name])), by_place(leave_out), by_place(feature)
    layout = Layout(written, target, called, out, seen, weights, schema, missing, plain)
    return ProblemArguments(layout=layout, **said | {"goal": tuple(goal or ()), "barred": tuple(barred or ())})


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


def searches(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that has an argument `search` the options of `about_search` in its place, and run it in these."""

    @functools.wraps(command)
    def bounded(*, search: Search, **values: Any) -> None:
        with search.bounding():
            command(search=search, **values)

    return _composed(bounded, "search", about_search)


def bounds_cells(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that has an argument `search` the options of `about_search`, to be used for each of its cells."""
    return _composed(command, "search", about_cells)


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
        with clear_endings():  # what an option must be is told before the command begins
            found = maker(**{part.name: values.pop(part.name) for part in made})
        command(**{name: found}, **values)

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
