"""Tables of changes (person, column, before and after): made of plans, written, and read as moves, labels and leavers.

Rows are as `plan.changes()` gives them and as files of moves hold them, in the caller's own words. A label that changes
is a row of the target's column, and who leaves has a row of the column "all data", from "given" to "withheld".
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import FREE
from oar.checks import is_flag, is_number, is_whole
from oar.errors import DataError
from oar.files import replace_atomically, write_text
from oar.people.tables.encoding import Encoding
from oar.people.tables.schema import Column, Schema
from oar.people.tables.spreadsheet import harmless_csv
from oar.people.wording import nearest, shown
from oar.problem import Problem

if TYPE_CHECKING:
    import pandas

    from oar.people import Population
    from oar.plans.plan import Plan

Array = NDArray[np.float64]
QUERY = "query"  # who it is in a table of changes
LABEL = "label"  # the column of labels, where the target has no name
LEAVER = "all data", "given", "withheld"  # column, before and after of somebody who leaves
COLUMNS = ("person", "column", "before", "after")
NEEDED = ("person", "column", "after")  # `before` is compared with the data where it is told
SAME = 1e-9  # share of a number: files may have fewer digits
NOT_HERE = "before, and in these data it is not; are the moves for another version of the data?"
TRUTHS = {"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0}


@dataclass(eq=False)
class ChangesTable:
    """The changes that rows state: moves (n, d) and (d,); by name also "targets" (n, k), and leavers, "away" (n,)."""

    each: Array
    query_move: Array
    levers: dict[str, NDArray[Any]] = field(default_factory=dict)


def is_long(columns: Any) -> bool:
    """Report whether a table's columns are those of changes."""
    return set(NEEDED) <= {str(name) for name in columns}


def read_changes(problem: Problem, rows: pandas.DataFrame) -> ChangesTable:
    """Return what a table of changes says about these people.

    Raises:
        DataError: for a person, a column or a value that these people do not have, also before the move, and for two
            rows about one value.
    """
    reading = _Reading(problem, rows)
    places, columns = reading.places(), reading.rows["column"].map(str)
    for name, some in columns.groupby(columns, sort=False).groups.items():
        reading.read(str(name), np.asarray(some), places[some])
    return reading.found


class _Reading:
    def __init__(self, problem: Problem, rows: pandas.DataFrame) -> None:
        self.problem, self.people = problem, problem.people
        missing = [name for name in NEEDED if name not in rows.columns]
        if missing:
            raise DataError(f"moves: must have the columns {', '.join(COLUMNS)}, got none called {missing[0]!r}.")
        self.rows = rows.reset_index(drop=True)
        self.columns, self.target = columns_of(self.people), target_of(self.people)
        self.names = self.columns.schema.names
        self.before = np.asarray(self.people.features, dtype=np.float64)
        self.found = ChangesTable(np.zeros_like(self.before), np.zeros(self.people.dimensions))

    def read(self, name: str, lines: NDArray[np.intp], who: NDArray[np.intp]) -> None:
        """Read the rows that are about one column."""
        if name in self.names:
            self._move(name, who, lines)
        elif name == self.target:
            self._relabel(who, lines)
        elif name == LEAVER[0]:
            self._leave(who, lines)
        else:
            known = (*self.names, self.target, LEAVER[0])
            self._refuse(lines[0], f"must name a feature, got {shown(name)}.{nearest(name, known)}")

    def places(self) -> NDArray[np.intp]:
        """Return whose row each is; −1 for the query."""
        known = {QUERY: -1} | {_word(name): place for place, name in enumerate(self.people.row_names)}
        places = self.rows["person"].map(lambda name: known.get(_word(name)))
        unknown = np.flatnonzero(places.isna())
        if unknown.size:
            who = self.rows["person"].iloc[unknown[0]]
            self._refuse(int(unknown[0]), f"is about {shown(who)}, who is not among these people.")
        twice = self.rows.assign(person=places, column=self.rows["column"].map(str)).duplicated(["person", "column"])
        if twice.any():
            line = int(np.argmax(twice))
            who, what = self.rows.loc[line, "person"], self.rows.loc[line, "column"]
            self._refuse(line, f"is the second about {shown(what)} of {shown(who)}; leave one of them out.")
        return places.to_numpy(np.intp)

    def _refuse(self, line: int, what: str) -> None:
        raise DataError(f"moves: row {line} {what}")

    def _move(self, name: str, who: NDArray[np.intp], lines: NDArray[np.intp]) -> None:
        place = self.columns.places[name]
        after = self._coordinates(name, "after", lines)
        members = who >= 0
        stood = np.where(members[:, None], self.before[who, place], self.problem.first_query[place])
        if "before" in self.rows:
            told = self._coordinates(name, "before", lines)
            other = ~np.isclose(told, stood, rtol=SAME, atol=0.0).all(axis=1)
            if other.any():
                line = int(lines[np.argmax(other)])
                person, value = self.rows.loc[line, "person"], self.rows.loc[line, "before"]
                self._refuse(line, f"says that {shown(name)} of {shown(person)} is {shown(value)} {NOT_HERE}")
        self.found.each[who[members], place] = (after - stood)[members]
        if not members.all():
            self.found.query_move[place] = (after - stood)[~members][0]

    def _coordinates(self, name: str, side: str, lines: NDArray[np.intp]) -> Array:
        """Return a column's values, in the table's words, as coordinates (m, w)."""
        column, values = self.columns.schema[name], [self.rows.loc[line, side] for line in lines]
        kind, levels = column.kind, [_word(level) for level in column.levels]

        def coordinate(value: Any) -> Any:
            if kind == "category":
                return np.eye(len(levels))[levels.index(_word(value))]
            if kind == "ordinal":
                return [levels.index(_word(value))]
            return [TRUTHS[str(value).lower()] if kind == "boolean" else _finite(value)]

        found = []
        for line, value in zip(lines, values, strict=True):
            try:
                found.append(coordinate(value))
            except (ValueError, KeyError, TypeError):
                self._refuse(int(line), f"puts {shown(value)} into {shown(name)}, which it cannot hold.")
        return np.array(found, dtype=np.float64)

    def _relabel(self, who: NDArray[np.intp], lines: NDArray[np.intp]) -> None:
        values = self.problem.regresses
        before = self.people.target_rows(values)
        targets = before.copy()
        for place, line in zip(who, lines, strict=True):
            if place < 0:
                self._refuse(int(line), "gives the query a label, and it has none.")
            targets[place] = self._label(int(line), "after")
            if "before" in self.rows:
                told = self._label(int(line), "before")
                if not np.allclose(told, before[place], rtol=SAME, atol=SAME):
                    self._refuse(int(line), f"says that the label is {shown(self.rows.loc[line, 'before'])} {NOT_HERE}")
        self.found.levers["targets"] = targets

    def _label(self, line: int, side: str) -> Array:
        """Return a label as shares (k,), or as a value (1,)."""
        value = self.rows.loc[line, side]
        try:
            if self.problem.regresses:
                return np.array([_finite(value)])
            words = [_word(each) for each in self.people.classes]
            if isinstance(value, str) and value.startswith("{") and value not in words:
                value = ast.literal_eval(value)
            shares = value if isinstance(value, dict) else {value: 1.0}
            found = np.zeros(len(words))
            for label, share in shares.items():
                found[words.index(_word(label))] = _finite(share)
            return found
        except (ValueError, TypeError, SyntaxError):
            known = "" if self.problem.regresses else nearest(value, list(map(str, self.people.classes)))
            self._refuse(line, f"gives the label {shown(value)}, which is none of these people's.{known}")
            raise

    def _leave(self, who: NDArray[np.intp], lines: NDArray[np.intp]) -> None:
        away = np.zeros(self.people.size, dtype=bool)
        for place, line in zip(who, lines, strict=True):
            if place < 0 or str(self.rows.loc[line, "after"]) != LEAVER[2]:
                self._refuse(int(line), f"must have a member's data {LEAVER[2]}, got {self.rows.loc[line, 'after']!r}.")
            away[place] = True
        self.found.levers["away"] = away


def _word(value: Any) -> str:
    """Return a value as it would be typed: 17 also where gaps made it 17.0."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _finite(value: Any) -> float:
    number = np.nan if np.iscomplexobj(value) else float(value)
    if not np.isfinite(number):
        raise ValueError(value)
    return number


def columns_of(people: Population) -> Encoding:
    """Return the columns of a table of changes: the people's own, or of plain features a number each."""
    if people.encoding is not None:
        return people.encoding
    names = people.names or (f"feature {number}" for number in range(people.dimensions))
    return Encoding(Schema(tuple(Column(str(name), "number") for name in names)), (np.float64,) * people.dimensions)


def target_of(people: Population) -> str:
    """Return what the labels' column is called in a table of changes: a name that no feature has."""
    name = people.target or LABEL
    while name in columns_of(people).schema.names:
        name += "_"
    return name


def changed_cells(plan: Plan, columns: Encoding) -> Any:
    """Return a DataFrame with one row for each value that changes: who, which of the columns, before, after.

    Members come in their order, each with its values, its label and whether it leaves; the query comes last.
    """
    import pandas

    before, names = np.asarray(plan.problem.people.features, dtype=np.float64), plan.problem.people.row_names
    parts = _moved_cells(columns, before, features_after(plan), names) + plan.lever_cells()
    query = plan.problem.first_query[None]  # where several ask nobody of them moves
    own = _moved_cells(columns, query, query + plan.query_move, pandas.Index([QUERY]))
    return pandas.concat([pandas.concat(parts).sort_index(kind="stable"), *own], ignore_index=True)


def lever_cells(plan: Plan, targets: Array, away: NDArray[np.bool_]) -> list[Any]:
    """Return the labels (n, k) that change and who leaves (n,), each with the positions of its people as index."""
    names, rows = plan.problem.people.row_names, np.flatnonzero(away)
    left = _cells(names, rows, LEAVER[0], [LEAVER[1]] * rows.size, [LEAVER[2]] * rows.size)
    return [_changed_labels(plan, targets, names), left]


def _moved_cells(encoding: Encoding, before: Array, after: Array, names: Any) -> list[Any]:
    """Return the features that differ, column by column, each with the positions of its people as index."""
    old, new = encoding.decode(before), encoding.decode(after)
    parts = []
    for name in encoding.schema.names:
        place = encoding.places[name]
        rows = np.flatnonzero((before[:, place] != after[:, place]).any(axis=1))
        told = (_told(encoding.schema[name], table[name].iloc[rows]) for table in (old, new))
        parts.append(_cells(names, rows, name, *told))
    return parts


def _told(column: Column, values: Any) -> Any:
    """Return a column's values one by one; whole numbers as such, also where gaps have made floats of them."""
    import pandas

    whole = column.whole and not column.levels and pandas.api.types.is_float_dtype(values.dtype)
    return values.to_numpy(np.float64).astype(np.int64).astype(object) if whole else values.to_numpy(object)


def _changed_labels(plan: Plan, targets: Array, names: Any) -> Any:
    """Return the labels that differ; a soft label is a dict of classes and their shares."""
    people, values = plan.problem.people, plan.problem.regresses
    before = people.target_rows(values)
    rows = np.flatnonzero((before != targets).any(axis=1))

    def label(row: Array) -> Any:
        if values:
            return float(row[0])
        shares = {each: float(share) for each, share in zip(people.classes, row, strict=True) if share}
        return next(iter(shares)) if len(shares) == 1 else shares

    return _cells(names, rows, target_of(people), *([label(row) for row in each[rows]] for each in (before, targets)))


def _cells(names: Any, rows: NDArray[np.intp], column: Any, before: Any, after: Any) -> Any:
    import pandas

    cells = {"person": names[rows], "column": column, "before": before, "after": after}
    series = {name: pandas.Series(cell, index=rows, dtype=object) for name, cell in cells.items()}
    return pandas.DataFrame(series, index=rows)


def encoding_of(plan: Plan) -> Encoding:
    """Return the columns of a table's people; raise where they have no schema."""
    encoding = plan.problem.people.encoding
    if encoding is None:
        instead = "plan.write_moves(folder)" if plan.problem.people.streamed else "plan.moves()"
        raise DataError(
            f"plan: its people have no schema, so there is no table to give back; use {instead}, or make people with "
            "oar.Population.from_frame(df, target=…)."
        )
    return encoding


def features_after(plan: Plan) -> Array:
    """Return everyone's features after the plan: a few digits and steps of a few digits make a few digits."""
    before = np.asarray(plan.problem.people.features, dtype=np.float64)
    after = before + np.asarray(plan.moves(), dtype=np.float64)
    places = plan.problem.people.encoding.places if plan.problem.people.encoding else {}
    limits = plan.problem.limits.columns if plan.problem.limits else {}
    for place in (places[name].start for name in places if limits.get(name, FREE).step):
        old, new = before[:, place], after[:, place]
        some = np.flatnonzero(old != new)
        some = some[_few_digits(old[some]) == old[some]]
        new[some] = _few_digits(new[some])
    return after


def _few_digits(values: Array) -> Array:
    """Return numbers to the digits that sums do not blur: 745.04 for 745.0399999999998."""
    return np.array([float(f"{value:.12g}") for value in values])


def changes_of(plan: Plan) -> pandas.DataFrame:
    """Return a row for each value that changes: person, column, before, after; of plain numbers as of tables."""
    return changed_cells(plan, columns_of(plan.problem.people))


def write_csv(changes: pandas.DataFrame, path: Path) -> None:
    """Write changes for spreadsheets: a text that would be taken for a formula begins with an apostrophe."""
    write_text(path, harmless_csv(changes), private=True)


def write_parquet(changes: pandas.DataFrame, path: Path) -> bool:
    """Write changes for programs, and say whether it could be done: it needs pyarrow.

    A column of a Parquet file has one type, so `before` and `after` are texts, and where they are numbers they are
    also in `before_number` and `after_number`.
    """
    import pandas

    if not has_pyarrow():
        return False
    persons = changes["person"]
    persons = persons.astype(np.int64) if all(map(is_whole, persons)) else persons.map(str).astype(object)

    def number(value: Any) -> float:
        return float(value) if is_flag(value) or is_number(value) else np.nan

    typed = {"person": persons, "column": changes["column"].astype(str)}
    for side in ("before", "after"):
        typed[side] = changes[side].map(str).astype(object)
        typed[f"{side}_number"] = changes[side].map(number).astype(np.float64)
    with replace_atomically(path, private=True) as file:
        pandas.DataFrame(typed).to_parquet(file, index=False)
    return True


def has_pyarrow() -> bool:
    """Report whether Parquet files can be written."""
    return find_spec("pyarrow") is not None
