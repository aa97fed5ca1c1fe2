"""The columns that a transformer is given, and their selection by a name, a mask or a slice.

Beside the table that scikit-learn sees there are our rows of numbers (n, w), in which a column of levels takes a place
for every level. A `Field` is one column of that table and says where it is in the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_flag
from oar.errors import DataError, OptionError
from oar.people import Population

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Field:
    """One column.

    Attributes:
        name: what it is called; None where a transformer before it made an array of it.
        kind: "number", "flag" (0 or 1), "ranks" (0, 1, … of levels in order) or "levels" (a place for each, of which a
            person's is 1 and all others 0).
        start: its first place in the rows.
        levels: of all but numbers, in the order of their ranks or places.
        present: which of these levels somebody has.
    """

    name: Any
    kind: str
    start: int
    levels: tuple[Any, ...] = ()
    present: tuple[bool, ...] = ()

    @property
    def width(self) -> int:
        """How many places it takes."""
        return len(self.levels) if self.kind == "levels" else 1

    @property
    def places(self) -> range:
        """Its places in the rows."""
        return range(self.start, self.start + self.width)

    @property
    def word(self) -> str:
        """The column's name in errors."""
        return "a column" if self.name is None else f"column {self.name!r}"


@dataclass(frozen=True)
class Flow:
    """The columns that come into a transformer.

    Attributes:
        fields: these.
        frame: what they are in, as long as they still are a frame; None for an array.
        sparse: reports whether scikit-learn keeps them in a sparse matrix; None where it never does.
    """

    fields: tuple[Field, ...]
    frame: Any = None
    sparse: Callable[[], bool] | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether scikit-learn keeps them in a sparse matrix."""
        return self.sparse is not None and self.sparse()

    @property
    def width(self) -> int:
        """How many places all columns take."""
        return sum(field.width for field in self.fields)

    def some(self, which: list[int]) -> tuple[tuple[int, ...], Flow]:
        """Return the places of these columns, and the columns as they are once nothing else is there."""
        places: list[int] = []
        fields = []
        for number in which:
            field = self.fields[number]
            fields.append(replace(field, start=len(places)))
            places += field.places
        frame = None if self.frame is None else self.frame.iloc[:, which]
        return tuple(places), Flow(tuple(fields), frame)

    def nameless(self) -> Flow:
        """Return the same columns as an array, as most transformers leave them."""
        return Flow(tuple(replace(field, name=None) for field in self.fields), None, self.sparse)


def numbers(width: int, sparse: Callable[[], bool] | None = None) -> Flow:
    """Return so many columns of numbers."""
    return Flow(tuple(Field(None, "number", place) for place in range(width)), None, sparse)


def beside(flows: list[Flow], sparse: Callable[[], bool] | None) -> Flow:
    """Return the columns of several flows, one after the other."""
    fields, start = [], 0
    for flow in flows:
        fields += [replace(field, name=None, start=start + field.start) for field in flow.fields]
        start += flow.width
    return Flow(tuple(fields), None, sparse)


def flow_of(people: Population, table: bool, frame: Any) -> Flow:
    """Return the columns of people as an estimator sees them; `frame` is how they are handed to it."""
    encoding = people.encoding
    if encoding is None or not table:
        names = people.names if encoding is None else None
        fields = [Field(name, "number", place) for place, name in enumerate(names or [None] * people.dimensions)]
        return Flow(tuple(fields), frame if hasattr(frame, "iloc") else None)
    features = np.asarray(people.features, dtype=np.float64)
    rows = features[people.present]
    found = []
    for column in encoding.schema:
        start = encoding.places[column.name].start
        kind = {"boolean": "flag", "ordinal": "ranks", "category": "levels"}.get(column.kind, "number")
        levels = (False, True) if kind == "flag" else column.levels
        if kind == "levels":
            present = np.asarray(rows[:, encoding.places[column.name]].any(axis=0))
        else:
            present = np.isin(np.arange(len(levels)), rows[:, start])
        found.append(Field(column.name, kind, start, levels, tuple(bool(one) for one in present)))
    return Flow(tuple(found), frame)


def chosen(columns: Any, flow: Flow, whose: str) -> list[int]:
    """Return the positions of the columns that a ColumnTransformer names: by names, positions, slices or a mask."""
    if callable(columns):
        if flow.frame is None:
            raise OptionError(
                f"model: {whose} chooses columns by a function, which needs a frame; name them by position here."
            )
        columns = columns(flow.frame)
    names, count = [field.name for field in flow.fields], len(flow.fields)
    match columns:
        case slice():
            return list(range(count))[_slice(columns, names, whose)]
        case str() | int() | np.integer():
            raise OptionError(
                f"model: {whose} must be given a list of columns, got {columns!r}, which scikit-learn hands over "
                f"without a second dimension; write [{columns!r}]."
            )
    listed = list(columns)
    if listed and all(map(is_flag, listed)):
        if len(listed) != count:
            raise OptionError(f"model: {whose} has a mask of {len(listed)} columns, and there are {count}.")
        return np.flatnonzero(listed).tolist()
    return [_position(one, names, whose) for one in listed]


def _position(column: Any, names: list[Any], whose: str) -> int:
    if isinstance(column, str):
        if column not in names:
            known = ", ".join(repr(name) for name in names[:8] if name is not None) or "none, as it is an array"
            raise DataError(f"model: {whose} asks for column {column!r}, which is not there (there are {known}).")
        return names.index(column)
    if not isinstance(column, int | np.integer) or not -len(names) <= column < len(names):
        raise DataError(f"model: {whose} asks for column {column!r}, and there are {len(names)} columns.")
    return int(column) % len(names)


def _slice(columns: slice, names: list[Any], whose: str) -> slice:
    """Return a slice of positions; one of names includes its last, as everywhere in scikit-learn."""
    start, stop = (
        _position(end, names, whose) + past if isinstance(end, str) else end
        for end, past in ((columns.start, 0), (columns.stop, 1))
    )
    return slice(start, stop, columns.step)
