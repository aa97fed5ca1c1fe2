"""A table as coordinates: what a model is trained on, and what moves are measured in.

Numbers, integers and booleans are their own coordinate, an ordinal's is the rank of its level (0, 1, …), and a category
has one coordinate for each level: 1 for the one that a person has, 0 for all others. So a person is a row of float64,
and a row whose coordinates are whole where they must be is a person again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people.labels import plain
from oar.people.tables.arrays import is_frame, is_series
from oar.people.tables.schema import Column, Schema
from oar.people.wording import listed, nearest, repeated, shown

Array = NDArray[np.float64]
LARGEST = 1e100
LARGEST_WHOLE = 2**53  # from here on, float64 cannot tell neighbouring whole numbers apart
USUAL = (str, bool, int, float)  # types of which every value but NaN is one


@dataclass(frozen=True)
class Encoding:
    """The way from a table with this schema to coordinates (n, d), and back."""

    schema: Schema  # the columns
    dtypes: tuple[Any, ...]  # what pandas called each column's values, to be given back

    @cached_property
    def places(self) -> dict[str, slice]:
        """The positions of each column's coordinates."""
        found, start = {}, 0
        for column in self.schema:
            stop = start + (1 if column.ordered else len(column.levels))
            found[column.name], start = slice(start, stop), stop
        return found

    @cached_property
    def dimensions(self) -> int:
        """How many coordinates there are."""
        return self.places[self.schema.names[-1]].stop

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names: a column's own, or "column=level"."""
        levels = {one.name: [f"{one.name}={level}" for level in one.levels] for one in self.schema if not one.ordered}
        return tuple(name for column in self.schema for name in levels.get(column.name, [column.name]))

    @cached_property
    def scaled(self) -> NDArray[np.bool_]:
        """The mask of coordinates with a unit that a scaler would take away: all but those that are 0 or 1 anyway."""
        mask = np.zeros(self.dimensions, dtype=bool)
        for column in self.schema:
            mask[self.places[column.name]] = column.kind in ("number", "integer", "ordinal")
        return mask

    def encode(self, frame: Any, argument: str = "frame") -> Array:
        """Return the coordinates of a frame's rows; columns are matched by name."""
        _check_names(list(frame.columns), self.schema.names, argument)
        rows = np.zeros((len(frame), self.dimensions))
        for column in self.schema:
            _encode_column(column, frame[column.name], rows[:, self.places[column.name]], argument)
        return rows

    def encode_row(self, row: Any, argument: str) -> Array:
        """Return the coordinates (d,) of one person: a Series, a mapping, or a frame of one row."""
        import pandas

        if is_frame(row):
            if len(row) != 1:
                raise DataError(f"{argument}: must be one person, got a frame of {len(row)} rows; pass one row.")
            return self.encode(row, argument)[0]
        if is_series(row) or isinstance(row, Mapping):
            if twice := repeated(row.keys()):
                raise DataError(f"{argument}: must have each column once, got {shown(twice[0])} twice; drop one.")
            row = dict(row.items())
            point = self._usual(row)
            if point is not None:
                return point
            frame = pandas.DataFrame({name: pandas.Series([value], dtype=object) for name, value in row.items()})
            return self.encode(frame, argument)[0]
        raise DataError(
            f"{argument}: must be a row of the table (a Series, a dict or a frame of one row), because columns are "
            f"matched by name; got {type(row).__name__}."
        )

    def check_person(self, point: Array, argument: str) -> None:
        """Raise for coordinates (d,) that no row of such a table has, such as half a level."""
        for column in self.schema:
            values = point[self.places[column.name]]
            if not _is_possible(column, values):
                got = listed(values.tolist(), 12)
                raise DataError(
                    f"{argument}: must be a person, with whole steps and one level a category, got {got} for column "
                    f"{column.name!r}; pass a row of the table."
                )

    def _usual(self, row: dict[Any, Any]) -> Array | None:
        """Return what `encode` makes of a row of usual values, a hundred times as fast; None for any other row."""
        if row.keys() != self.places.keys():
            return None
        point = np.zeros(self.dimensions)
        for column in self.schema:
            value, at = plain(row[column.name]), self.places[column.name].start
            if type(value) not in USUAL or value != value:
                return None
            if not column.levels:
                if not _fits(column, value):
                    return None
                point[at] = value
                continue
            code = self._codes[column.name].get(value, -1)
            if code < 0 or type(value) is not type(column.levels[code]):  # 1 is neither True nor 1.0
                return None
            if column.kind == "ordinal":
                point[at] = code
            else:
                point[at + code] = 1.0
        return point

    @cached_property
    def _codes(self) -> dict[str, dict[Any, int]]:
        """Each level's position among its column's."""
        return {column.name: {level: code for code, level in enumerate(column.levels)} for column in self.schema}

    def decode(self, rows: Array, index: Any = None) -> Any:
        """Return a frame with the columns, levels and dtypes that were encoded."""
        import pandas

        columns = {
            column.name: _values(column, rows[:, self.places[column.name]], dtype, index)
            for column, dtype in zip(self.schema, self.dtypes, strict=True)
        }
        return pandas.DataFrame(columns, index=index)

    def decode_row(self, point: Array, index: Any = None) -> Row:
        """Return one person (d,), with the values of the frame that `decode` makes of them."""
        coordinates, whole, values = point.tolist(), np.rint(point).tolist(), {}
        for column, dtype in zip(self.schema, self.dtypes, strict=True):
            place = self.places[column.name]
            if not column.levels:
                number = (whole if column.whole else coordinates)[place.start]
                values[column.name] = _value(column, number, dtype)
                continue
            held = coordinates[place]
            code = held.index(max(held)) if column.kind == "category" else int(whole[place.start])
            if (column.name, code) not in self._level_values:
                self._level_values[column.name, code] = _values(column, point[None, place], dtype, None).iloc[0]
            values[column.name] = self._level_values[column.name, code]
        return Row(self, values, index)

    @cached_property
    def _level_values(self) -> dict[tuple[str, int], Any]:
        """Levels as a frame gives them back, by column and position, once they have been given back."""
        return {}


@dataclass(frozen=True, eq=False)
class Row:
    """One person of a table."""

    encoding: Encoding  # of the table
    values: Mapping[str, Any]  # by column, as a frame gives them back
    index: Any = None  # of the frame; None where there is none

    @cached_property
    def frame(self) -> Any:
        """These values as a frame of one row."""
        import pandas

        columns = {}
        for column, dtype in zip(self.encoding.schema, self.encoding.dtypes, strict=True):
            value = self.values[column.name]
            if not column.levels:
                dtype = _moved_dtype(column, dtype, np.array([value], dtype=np.float64))
            columns[column.name] = pandas.Series([value], index=self.index, dtype=dtype)
        return pandas.DataFrame(columns, index=self.index)


def _check_names(got: list[str], wanted: tuple[str, ...], argument: str) -> None:
    present, known = set(got), set(wanted)
    missing = [name for name in wanted if name not in present]
    if missing:
        hint = nearest(missing[0], [name for name in got if name not in known], "Is it")
        raise DataError(f"{argument}: must have column {missing[0]!r}, got none.{hint}")
    extra = [name for name in got if name not in known]
    if extra:
        raise DataError(f"{argument}: must have the population's columns only, got {shown(extra[0])} too; drop it.")


def _encode_column(column: Column, values: Any, rows: Array, argument: str) -> None:
    """Write a column's coordinates into rows (n, w) of zeros."""
    missing = np.flatnonzero(values.isna().to_numpy())
    if missing.size:
        raise DataError(
            f"{argument}: must not have missing values, got one in column {column.name!r}, row "
            f"{shown(values.index[missing[0]])}; drop or impute them (missing='drop' or 'impute' when the table is "
            "read)."
        )
    if not column.levels:
        rows[:, 0] = _numbers(column, values, argument)
        return
    codes = _level_codes(column, values, argument)
    if column.kind == "ordinal":
        rows[:, 0] = codes
    else:
        rows[np.arange(len(codes)), codes] = 1.0


def _is_possible(column: Column, values: Array) -> bool:
    """Report whether a column's coordinates (w,) are those of some value."""
    if column.kind == "category":
        return bool(np.isin(values, (0.0, 1.0)).all() and values.sum() == 1)
    value = float(values[0])
    if column.kind == "ordinal":
        return value == np.floor(value) and 0 <= value <= len(column.levels) - 1
    return _fits(column, value)


def _numbers(column: Column, values: Any, argument: str) -> Array:
    """Return a column without levels as numbers (n,)."""
    numbers = _as_numbers(column, values, argument)
    wrong = ~(np.abs(numbers) <= LARGEST)  # past that, squares overflow in averages; NaN too
    what, remedy = "finite", "drop such rows or correct them"
    if column.whole and not wrong.any():
        wrong, what = numbers != np.floor(numbers), "whole numbers"
        remedy = "round them, or give a schema in which its kind is 'number'"
    if column.kind == "boolean" and not wrong.any():
        wrong, what = ~np.isin(numbers, (0, 1)), "true or false"
        remedy = "give a schema in which its kind is 'integer'"
    if column.kind == "integer" and not wrong.any():
        wrong, what = np.abs(numbers) >= LARGEST_WHOLE, "whole numbers below 2^53, which float64 can tell apart"
        remedy = "drop it if it is an identifier, or give a schema in which its kind is 'number'"
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DataError(
            f"{argument}: column {column.name!r} must be {what}, got {shown(values.iloc[place])} in row "
            f"{shown(values.index[place])}; {remedy}."
        )
    return numbers


def _as_numbers(column: Column, values: Any, argument: str) -> Array:
    """Return values as float64; text is not parsed, because it could not be given back as it was."""
    objects = values.dtype == object or not hasattr(values.dtype, "kind") or values.dtype.kind not in "biufc"
    if objects and (places := [place for place, value in enumerate(values) if isinstance(value, str | bytes)]):
        raise DataError(
            f"{argument}: column {column.name!r} must be {_WANTED[column.kind]}, got the text "
            f"{shown(values.iloc[places[0]])} in row {shown(values.index[places[0]])}; {_REMEDY[column.kind]}"
        )
    try:
        if values.dtype.kind == "c":
            raise TypeError
        return values.to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # What a float cannot be: an object of another kind, or a whole number with more than 308 digits.
        wrong = next((value for value in values if not isinstance(value, float | np.floating)), values.iloc[0])
        raise DataError(
            f"{argument}: column {column.name!r} must be {_WANTED[column.kind]}, got "
            f"{type(wrong).__name__} values of type {values.dtype}; convert it with pandas.to_numeric."
        ) from None


_WANTED = {"number": "numbers", "integer": "whole numbers", "boolean": "true or false"}
_TO_NUMBERS = "convert it with pandas.to_numeric, or read the file with thousands=',' or na_values=[…]."
_REMEDY = {
    "number": _TO_NUMBERS,
    "integer": _TO_NUMBERS,
    "boolean": "read the file with true_values=['yes'] and false_values=['no'], or give a schema in which its kind is "
    "'category'.",
}


def _level_codes(column: Column, values: Any, argument: str) -> NDArray[np.intp]:
    """Return the position of each value among the column's levels."""
    import pandas

    codes = pandas.Index(list(column.levels)).get_indexer(pandas.Index(values.astype(object)))
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        value = values.iloc[unknown[0]]
        known, hint = listed(column.levels, 12, shown), nearest(value, column.levels)
        raise DataError(f"{argument}: column {column.name!r} must be one of {known}, got {shown(value)}.{hint}")
    return codes


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
    return pandas.Series(numbers, index=index, name=column.name).astype(_moved_dtype(column, dtype, numbers))


def _moved_dtype(column: Column, dtype: Any, numbers: Array) -> Any:
    """Return the dtype of numbers that may have moved beyond what the caller's integers can hold."""
    import pandas

    if column.kind == "number" and pandas.api.types.is_integer_dtype(dtype):
        return np.dtype(np.float64)  # the schema lets them move by fractions
    return dtype if _holds(dtype, numbers) else np.dtype(np.int64)  # such as below 0 of uint8


def _holds(dtype: Any, numbers: Array) -> bool:
    """Report whether a dtype, if it is one of integers, reaches all these numbers."""
    kind = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    if not isinstance(kind, np.dtype) or kind.kind not in "iu" or not numbers.size:
        return True
    return bool(np.iinfo(kind).min <= numbers.min() and numbers.max() <= np.iinfo(kind).max)


def _value(column: Column, number: float, dtype: Any) -> Any:
    """Return what `_values` makes of one number, without a Series where it is one of pandas' own dtypes."""
    if dtype == np.float64 or (dtype == np.int64 and not column.whole):
        return np.float64(number)
    if dtype == np.int64 and abs(number) < LARGEST_WHOLE:
        return np.int64(number)
    if dtype == np.bool_ and column.kind == "boolean":
        return np.bool_(number)
    return _values(column, np.array([[number]]), dtype, None).iloc[0]


def _fits(column: Column, value: Any) -> bool:
    """Report whether a column without levels may have a value; `_numbers` says why not."""
    if isinstance(value, str) or not abs(value) <= LARGEST:
        return False
    if column.kind == "boolean":
        return value in (0, 1)
    return column.kind == "number" or (value % 1 == 0 and abs(value) < LARGEST_WHOLE)
