"""A table as coordinates: what a model is trained on, and what moves are measured in.

Numbers, integers and booleans are their own coordinate, an ordinal's is the rank of its level (0, 1, …), and a category
has one coordinate for each level: 1 for the one that a person has, 0 for all others. So a person is a row of float64,
and a row whose coordinates are whole where they must be is a person again.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people.labels import plain
from oar.people.schema import Column, Schema
from oar.people.tables import is_frame, is_series

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Encoding:
    """The way from a table with this schema to coordinates (n, d), and back.

    Attributes:
        schema: the columns.
        dtypes: what pandas called each column's values, to be given back.
    """

    schema: Schema
    dtypes: tuple[Any, ...]

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each column's coordinates are."""
        found, start = {}, 0
        for column in self.schema:
            width = len(column.levels) if column.kind == "category" else 1
            found[column.name] = slice(start, start + width)
            start += width
        return found

    @property
    def dimensions(self) -> int:
        """How many coordinates there are."""
        return self.places[self.schema.names[-1]].stop

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names: a column's own, or "column=level"."""
        found: list[str] = []
        for column in self.schema:
            found += (
                [f"{column.name}={level}" for level in column.levels] if column.kind == "category" else [column.name]
            )
        return tuple(found)

    @cached_property
    def scaled(self) -> NDArray[np.bool_]:
        """Which coordinates have a unit that a scaler would take away: all but those that are 0 or 1 anyway."""
        mask = np.zeros(self.dimensions, dtype=bool)
        for column in self.schema:
            mask[self.places[column.name]] = column.kind in ("number", "integer", "ordinal")
        return mask

    def encode(self, frame: Any, argument: str = "frame") -> Array:
        """Return the coordinates of a frame's rows; columns are matched by name."""
        _check_names(list(frame.columns), self.schema.names, argument)
        rows = np.empty((len(frame), self.dimensions))
        for column in self.schema:
            rows[:, self.places[column.name]] = _coordinates(column, frame[column.name], argument)
        return rows

    def encode_row(self, row: Any, argument: str) -> Array:
        """Return the coordinates (d,) of one person: a Series, a mapping, or a frame of one row."""
        import pandas

        if is_frame(row):
            if len(row) != 1:
                raise DataError(f"{argument}: must be one person, got a frame of {len(row)} rows; pass one row.")
            return self.encode(row, argument)[0]
        if is_series(row) or isinstance(row, Mapping):
            row = dict(row.items())
            return self.encode(
                pandas.DataFrame({name: pandas.Series([value], dtype=object) for name, value in row.items()}), argument
            )[0]
        raise DataError(
            f"{argument}: must be a row of the table (a Series, a dict or a frame of one row), because columns are "
            f"matched by name; got {type(row).__name__}."
        )

    def decode(self, rows: Array, index: Any = None) -> Any:
        """Return a frame with the columns, levels and dtypes that were encoded."""
        import pandas

        columns = {}
        for column, dtype in zip(self.schema, self.dtypes, strict=True):
            columns[column.name] = _values(column, rows[:, self.places[column.name]], dtype, index)
        return pandas.DataFrame(columns, index=index)


def _check_names(got: list[str], wanted: tuple[str, ...], argument: str) -> None:
    missing = [name for name in wanted if name not in got]
    if missing:
        near = difflib.get_close_matches(missing[0], [str(name) for name in got if name not in wanted], n=1)
        hint = f" Is it {near[0]!r}?" if near else ""
        raise DataError(f"{argument}: must have column {missing[0]!r}, got none.{hint}")
    extra = [name for name in got if name not in wanted]
    if extra:
        raise DataError(f"{argument}: must have the population's columns only, got {extra[0]!r} too; drop it.")


def _coordinates(column: Column, values: Any, argument: str) -> Array:
    """Return a column's coordinates (n, w)."""
    missing = np.flatnonzero(values.isna().to_numpy())
    if missing.size:
        raise DataError(
            f"{argument}: must not have missing values, got one in column {column.name!r}, row "
            f"{values.index[missing[0]]!r}; drop or impute them (missing='drop' or 'impute' when the table is read)."
        )
    if column.levels:
        return _level_coordinates(column, values, argument)
    try:
        numbers = values.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        wrong = next(value for value in values if not isinstance(value, bool | int | float | np.number))
        raise DataError(f"{argument}: column {column.name!r} must be numbers, got {wrong!r}.") from None
    wrong = ~np.isfinite(numbers)
    what = "finite"
    if column.whole and not wrong.any():
        wrong, what = numbers != np.floor(numbers), "whole numbers"
    if column.kind == "boolean" and not wrong.any():
        wrong, what = ~np.isin(numbers, (0, 1)), "true or false"
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DataError(
            f"{argument}: column {column.name!r} must be {what}, got {values.iloc[place]!r} in row "
            f"{values.index[place]!r}."
        )
    return numbers[:, None]


def _level_coordinates(column: Column, values: Any, argument: str) -> Array:
    import pandas

    codes = pandas.Index(list(column.levels)).get_indexer(pandas.Index(values.astype(object)))
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        value = plain(values.iloc[unknown[0]])
        near = difflib.get_close_matches(str(value), [str(level) for level in column.levels], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listing = ", ".join(repr(level) for level in column.levels[:12]) + (", …" if len(column.levels) > 12 else "")
        raise DataError(f"{argument}: column {column.name!r} must be one of {listing}, got {value!r}.{hint}")
    if column.kind == "ordinal":
        return codes[:, None].astype(np.float64)
    return np.eye(len(column.levels))[codes]


def _values(column: Column, coordinates: Array, dtype: Any, index: Any) -> Any:
    """Return a column of values for its coordinates (n, w), in the dtype that it had."""
    import pandas

    if column.levels:
        codes = coordinates.argmax(axis=1) if column.kind == "category" else np.rint(coordinates[:, 0]).astype(int)
        levels = np.empty(len(column.levels), dtype=object)
        levels[:] = column.levels
        return pandas.Series(levels[codes], index=index, name=column.name).astype(dtype)
    numbers = coordinates[:, 0]
    if column.whole:
        numbers = np.rint(numbers)
    if column.kind == "boolean" and pandas.api.types.is_bool_dtype(dtype):
        return pandas.Series(numbers.astype(bool), index=index, name=column.name).astype(dtype)
    if pandas.api.types.is_integer_dtype(dtype) and not column.whole:
        dtype = np.dtype(np.float64)  # integers that the schema lets move by fractions
    return pandas.Series(numbers, index=index, name=column.name).astype(dtype)
