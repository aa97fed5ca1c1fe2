"""Tables of changes (person, column, before and after), read as moves, labels and leavers.

Rows are as `plan.changes()` gives them and as files of moves hold them. A label that changes is a row of the target's
column, and who leaves has a row of the column "all data", from "given" to "withheld".
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people.wording import nearest, shown
from oar.plans.moves.table_out import LEAVER, QUERY, columns_of, target_of
from oar.problem import Problem

if TYPE_CHECKING:
    import pandas

Array = NDArray[np.float64]
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
