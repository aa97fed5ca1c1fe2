"""`oar respond`: a member's own move, from the card and its own row."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout, column_of, word
from oar.cli.options import option
from oar.cli.terminal import clear_endings, output
from oar.errors import DataError, OptionError
from oar.people.tables.encoding import LARGEST, LARGEST_WHOLE
from oar.people.wording import counted, nearest, shown

if TYPE_CHECKING:
    import pandas

    from oar.plans import Card

MOST_DOUBTS = 10
TRUTHS = {"true": True, "false": False}


@given.reads
def respond(
    card: Annotated[Path, typer.Argument(metavar="CARD", help="The plan's card, plan.json.", show_default=False)],
    mine: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS",
            help="A file with your row, or several: the card's columns and your label.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str, option(help="The column of labels.  [default: the column not on the card that has such labels]")
    ] = "",
    keep: Annotated[
        list[str] | None, option(help="A column that you cannot or will not change; may be repeated.")
    ] = None,
    budget: Annotated[
        float | None, option(help="How far you are willing to move.  [default: the card's budget]")
    ] = None,
    round: Annotated[int, option(help="Of a card for several rounds: the round in which you hand in your data.")] = 0,
    name: given.Name = "",
    out: Annotated[Path | None, option(help="CSV file to write the changes to.")] = None,
    force: given.Force = False,
    written: FileDialect = given.WRITTEN,
) -> None:
    """Tell each member in a file what to change, in raw units. Nothing is sent anywhere.

    Rows are identified by their number, from 0 without the header, or by --id. Rows without a response are named, and
    the exit code is then 1; all others are computed.
    """
    with clear_endings():
        from oar.plans import Card
        from oar.plans.moves.changes_table import write_csv
        from oar.report.files.output_folder import check_settled

        check_settled(card.parent)
        files = output(out, force, endings=())
        loaded = Card.load(card).of(round)
        written.check(mine)
        frame = Layout(written, name="".join(given.by_place([name])), of_card=True).read(mine)
        label = label_column(loaded, frame, target)
        changes, unanswered, doubts = answers(loaded, frame, label, keep or [], budget)
        if len(unanswered) == len(frame):
            others = f" (The {len(frame) - 1:,} other rows cannot be answered either.)" if len(frame) > 1 else ""
            raise DataError(unanswered[0][1] + others)
        for path in files:
            write_csv(changes, path)
    typer.echo(_told(frame, changes, {person for person, _ in unanswered}))
    spare = len(frame.columns) - len(columns_of(loaded)) - 1
    if spare and not target:
        ignored = counted(spare, "other column is ignored", "other columns are ignored")
        typer.echo(f"Labels are those of column {shown(label)}, or name --target; {ignored}.", err=True)
    if unanswered:
        typer.echo("\n".join(f"no answer for {why}" for _, why in unanswered), err=True)
        some = f"{len(frame) - len(unanswered):,} of {len(frame):,} rows"
        typer.echo(f"Answered {some}; correct the others.", err=True)
    for doubt in doubts[:MOST_DOUBTS]:
        typer.echo(f"\n{doubt}", err=True, nl=False)
    if doubts:
        more = len(doubts) - MOST_DOUBTS
        typer.echo(f"\n{more:,} more values may be mistakes, too." if more > 0 else "", err=True)
    if loaded.participants == "selected":
        typer.echo("\nThis card is for those who were asked to take part: everybody else stays.", err=True)
    for path in files:
        typer.echo(f"Done. Written to {path}")
    if unanswered:
        raise SystemExit(1)


def answers(
    card: Card, frame: pandas.DataFrame, label: str, keep: Sequence[str], budget: float | None
) -> tuple[pandas.DataFrame, list[tuple[Any, str]], list[str]]:
    """Return everyone's changes (person, column, before, after), whose rows cannot be answered, and likely mistakes.

    A card has nobody's values, and none that could stand in for a gap: who has one, or a value that cannot be, is told
    which column it is.
    """
    import pandas

    columns = columns_of(card)
    for name in keep:
        if name not in columns:
            raise OptionError(f"keep: must be a column of the card, got {name!r}.{nearest(name, columns)}")
    _check_budget(card, budget)
    rows: list[tuple[Any, ...]] = []
    unanswered, doubts = [], list[str]()
    for person, row in zip(frame.index, frame.to_dict("records"), strict=True):
        gaps = [name for name in (*columns, label) if row[name] is None or row[name] != row[name]]
        if gaps:
            each = "column" if len(gaps) == 1 else "columns"
            listed = ", ".join(map(shown, gaps))
            unanswered.append((person, f"row {person}: {each} {listed}: must have a value, got an empty cell."))
            continue
        try:
            mine = {name: _value(card, name, row[name]) for name in columns}
            with warnings.catch_warnings():  # which are told once for all rows
                warnings.simplefilter("ignore")
                told = card.changes(mine, _class(card, row[label]), budget, tuple(keep))
        except DataError as error:
            unanswered.append((person, f"row {person}: {str(error).removeprefix('features: ')}"))
            continue
        doubts += [f"row {person}: {doubt}" for doubt in card.doubts(mine)]
        rows += [(person, *change) for change in told]
    return pandas.DataFrame(rows, columns=["person", "column", "before", "after"], dtype=object), unanswered, doubts


def _check_budget(card: Card, budget: float | None) -> None:
    """Raise for a budget that no row could be answered with."""
    from oar.actions.perturb import check_budget

    if budget is None and card.budget is None:
        raise OptionError("budget: must say how far you are willing to go, because the card does not, got none.")
    if budget is not None:
        check_budget(budget, "budget")
        if budget > card.most:
            raise OptionError(f"budget: must be at most the plan's own {card.most:g}, got {budget:g}.")


def columns_of(card: Card) -> tuple[str, ...]:
    """Return the columns that a card is about."""
    names = card.schema.names if card.schema else card.features
    if not names:
        raise DataError("card: has no column names, so no file can be matched to it; use oar.results.Card in Python.")
    return names


def label_column(card: Card, frame: pandas.DataFrame, target: str) -> str:
    """Return the column of labels: the only one that is not on the card, or the only one with a label of the card's.

    Other columns are ignored, as the plan did without them: row numbers, names, dates and the like.
    """
    from oar.people.tables.files import called_by_place
    from oar.people.tables.identities import identities

    columns = columns_of(card)
    others = [name for name in frame.columns if name not in columns]
    for name in columns:
        if name not in frame.columns:
            hint = nearest(name, others)
            raise DataError(f"ROWS: must have every column of the card, got none called {shown(name)}.{hint}")
    if target:
        column_of(frame, target, "target")
        return target
    if len(others) > 1 and card.classes:
        known, spare = {word(each) for each in card.classes}, identities(frame[others])
        some = [name for name in others if name not in spare and not called_by_place(name)]
        others = [name for name in some if frame[name].map(word).isin(known).any()] or others
    if len(others) != 1:
        found = ", ".join(map(shown, others)) or "none"
        raise DataError(f"target: one column must be the label and not on the card, got {found}; name --target.")
    return str(others[0])


def _class(card: Card, label: Any) -> Any:
    """Return a label as the card has it."""
    if card.outputs:
        return label
    known = {word(each): each for each in card.classes or ()}
    if word(label) not in known:
        raise DataError(f"label: must be one of {', '.join(map(shown, known))}, got {shown(label)}.")
    return known[word(label)]


def _value(card: Card, name: str, value: Any) -> Any:
    """Return a cell as its column has it: one text among numbers makes texts of all that are read with it."""
    kind = card.schema[name].kind if card.schema else "number"
    if kind in ("category", "ordinal"):
        return value if isinstance(value, str) else word(value)
    known = TRUTHS.get(value.strip().lower(), value) if kind == "boolean" and isinstance(value, str) else value
    try:
        number = float(known)
    except (TypeError, ValueError):
        number = math.nan
    fits, wanted = {
        "boolean": (number in (0, 1), "true or false"),
        "integer": (abs(number) < LARGEST_WHOLE and number == math.floor(number), "a whole number below 2^53"),
    }.get(kind, (abs(number) <= LARGEST, "a number" if math.isnan(number) else f"at most {LARGEST:g}"))
    if not fits:
        raise DataError(f"column {shown(name)}: must be {wanted}, got {shown(value)}; correct it.")
    return known if not isinstance(known, str) else int(number) if number.is_integer() else number


def _told(frame: pandas.DataFrame, changes: pandas.DataFrame, without: set[Any]) -> str:
    """Return everyone's changes as a table, and who stays; nothing of those without an answer."""
    from oar.people.wording import lined_up
    from oar.plans.cards.table.terms import said

    rows = [("row", "column", "now", "then")]
    rows += [(str(p), str(c), said(b), said(a)) for p, c, b, a in changes.itertuples(index=False)]
    moving = set(changes["person"]) | without
    rows += [(str(person), "stay as you are", "", "") for person in frame.index if person not in moving]
    return lined_up(rows)
