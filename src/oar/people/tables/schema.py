"""The schema of a table: columns that are numbers, integers, booleans, ordered levels or categories.

A schema is inferred from a DataFrame, printed, and corrected where it guessed wrong: in code (`schema.replace("grade",
kind="ordinal", levels=("low", "high"))`) or in a TOML file:

    [columns.age]
    kind = "integer"

    [columns.purpose]
    kind = "category"
    levels = ["car", "education", "furniture"]
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import check_text, check_that, choose, with_near_names
from oar.errors import DataError, OptionError, StorageError
from oar.files import write_text
from oar.opening import naming, read_toml
from oar.people.labels import plain
from oar.people.wording import lined_up, repeated, shown

if TYPE_CHECKING:
    import pandas

KINDS = ("number", "integer", "boolean", "ordinal", "category")
WITH_LEVELS = ("ordinal", "category")
MOST_LEVELS = 100  # a category with more looks like a name or an identifier
MOST_NUMBERS = 10  # a category with more levels that are numbers looks like a number with some other word in between
FEWEST_NUMBERS = 3  # so many, and most of the levels, do too where no other level has a digit
LONGEST_LEVEL = 1_000  # characters; more is a document
_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}([,.' \u00a0\u202f]\d{3})+)([.,]\d*)?([eE][+-]?\d+)?")
PERCENT = re.compile(r"[+-]?\d+([.,]\d+)?[ \u00a0\u202f]?%")
_DIGIT = re.compile(r"\d")
_DATE = re.compile(r"(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./])\d{1,2}\2\d{4})([ T]\d{1,2}:\d{2}.*)?")
_DATES = "dates are not features; turn them into numbers, such as days or an age."
GAPS = frozenset({"", "?", "-", "--", "."})  # what files say for a missing value, and pandas does not know
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' \u00a0\u202f]\d{3})+([.,]\d*)?")


@with_near_names
@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: what it is called.
        kind: "number", "integer", "boolean", "ordinal" (levels with an order) or "category" (levels without).
        levels: of ordinals, from the lowest up, and of categories: the values that occur.
    """

    name: str
    kind: str
    levels: tuple = ()

    def __post_init__(self) -> None:
        check_text("column", self.name, "rename it")
        choose(f"columns.{self.name} kind", self.kind, KINDS)
        object.__setattr__(self, "levels", tuple(plain(level) for level in self.levels))
        for level in self.levels:
            check_text(f"columns.{self.name} levels", level)
            if not isinstance(level, Hashable):
                raise DataError(f"columns.{self.name} levels: must be texts, numbers or booleans, got {shown(level)}.")
        if self.kind not in WITH_LEVELS:
            if self.levels:
                raise OptionError(f"columns.{self.name} levels: are for ordinals and categories, not a {self.kind}.")
            return
        if len(self.levels) < 1:
            raise OptionError(f"columns.{self.name} levels: must name the values of this {self.kind}, got none.")
        if twice := repeated(self.levels):
            raise OptionError(f"columns.{self.name} levels: must differ, got {twice[0]!r} twice.")

    @property
    def ordered(self) -> bool:
        """Whether its values are on a line."""
        return self.kind != "category"

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest coordinate of values on a line; infinite where the kind sets no end."""
        return {"boolean": (0.0, 1.0), "ordinal": (0.0, len(self.levels) - 1.0)}.get(self.kind, (-np.inf, np.inf))

    @property
    def whole(self) -> bool:
        """Whether only whole steps make sense: everything but plain numbers."""
        return self.kind != "number"


@with_near_names
@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order.

    >>> print(Schema((Column("age", "integer"), Column("sex", "category", ("female", "male")))))
    column  kind      levels
    age     integer
    sex     category  female, male
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        """Refuse what is no column, and two columns of one name."""
        columns = tuple(self.columns) if np.iterable(self.columns) else (self.columns,)
        for column in columns:
            if not isinstance(column, Column):
                raise DataError(
                    f"columns: must be oar.people.Column(name, kind) each, got {shown(column)}; of a mapping of "
                    'names, use oar.Schema.from_tables({"age": {"kind": "integer"}}).'
                )
        object.__setattr__(self, "columns", columns)
        if twice := repeated(self.names):
            raise DataError(f"columns: names must differ, got {shown(twice[0])} twice; rename one.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        """Return a column by its name; raise with the nearest one."""
        return self.columns[self.names.index(choose("column", name, self.names))]

    def replace(self, name: str, **changes: Any) -> Schema:
        """Return a schema with one column changed: its kind, its levels, or both."""
        for key in changes:
            choose("replace", key, ("kind", "levels"))
        old = self[name]
        if "kind" in changes and changes["kind"] not in WITH_LEVELS:
            changes.setdefault("levels", ())
        changed = dataclasses.replace(old, **changes)
        return Schema(tuple(changed if column is old else column for column in self.columns))

    def __str__(self) -> str:
        joints = {"ordinal": " < ", "category": ", "}
        told = ((one.name, one.kind, joints.get(one.kind, "").join(map(str, one.levels))) for one in self.columns)
        return lined_up([("column", "kind", "levels"), *told])

    def to_toml(self) -> str:
        """Return the schema as TOML."""
        blocks = []
        for column in self.columns:
            lines = [f"[columns.{toml_key(column.name)}]", f"kind = {toml_value(column.kind)}"]
            if column.levels:
                lines.append(f"levels = {toml_list(column.levels)}")
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks) + "\n"

    @with_near_names
    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the schema as a TOML file; without `overwrite`, refuse an existing file."""
        if not overwrite and os.path.exists(path):
            raise StorageError(
                f"path: must be a file that is not there yet, got {path}, which may have been edited; name another "
                "one, or write over it with overwrite=True (on the command line, --force)."
            )
        write_text(path, self.to_toml())

    @staticmethod
    @with_near_names
    def load(path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        content = read_toml(path, "schema", "a TOML file with [columns.NAME] tables")
        with naming(path):
            return Schema.from_tables(content.get("columns", {}))

    @staticmethod
    @with_near_names
    def from_tables(tables: dict[str, dict[str, Any]]) -> Schema:
        """Return the schema that TOML's `columns` tables describe."""
        if not isinstance(tables, dict) or not tables:
            raise DataError("columns: must be a table for each column, such as [columns.age], got none.")
        columns = []
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise DataError(f"columns.{name}: must be a table with a kind, got {table!r}.")
            for key in table:
                choose(f"columns.{name}", key, ("kind", "levels"))
            if "kind" not in table:
                raise OptionError(f"columns.{name} kind: must be one of {', '.join(KINDS)}, got none.")
            levels = table.get("levels", [])
            if not isinstance(levels, list | tuple):
                raise DataError(f"columns.{name} levels: must be a list, got {shown(levels)}.")
            columns.append(Column(name, table["kind"], tuple(levels)))
        return Schema(tuple(columns))

    @staticmethod
    @with_near_names
    def infer(frame: pandas.DataFrame) -> Schema:
        """Return the inferred schema of a DataFrame; print it, and correct it where necessary.

        Booleans, and integers that are all 0 or 1, are booleans; other whole numbers are integers, also where they
        are stored as floats. A categorical column is an ordinal if it is ordered. Text is a category.
        """
        check_that(hasattr(frame, "columns") and hasattr(frame, "iloc"), "frame", "a pandas DataFrame", frame)
        names = list(frame.columns)
        for name in names:
            if not isinstance(name, str):
                raise DataError(f"columns: names must be text, got {name!r}; use df.rename(columns=str).")
        if twice := repeated(names):
            raise DataError(f"columns: names must differ, got {shown(twice[0])} twice; rename one.")
        columns, dates, otherwise = [], [], ""
        for name in names:
            try:
                columns.append(_infer_column(name, frame[name]))
            except _Dates as found:  # which are often several: all are named at once
                dates.append(repr(name))
                otherwise = otherwise or str(found)
        if len(dates) > 1:
            raise DataError(f"columns {', '.join(dates)}: {_DATES}{otherwise.replace('it', 'them', 1)}")
        if dates:
            raise DataError(f"column {dates[0]}: {_DATES}{otherwise}")
        return Schema(tuple(columns))


class _Dates(DataError):
    """A column of dates, with what to do if it is none."""


def _infer_column(name: str, values: Any) -> Column:
    import pandas

    present = values.dropna()
    if not len(present):
        raise DataError(f"column {name!r}: must have at least one value, got only missing ones; drop it.")
    if isinstance(values.dtype, pandas.CategoricalDtype):
        kind = "ordinal" if values.dtype.ordered else "category"
        used = set(present)
        return Column(name, kind, tuple(level for level in values.dtype.categories if level in used))
    if pandas.api.types.is_bool_dtype(values.dtype):
        return Column(name, "boolean")
    if pandas.api.types.is_numeric_dtype(values.dtype):
        if pandas.api.types.is_complex_dtype(values.dtype):
            raise DataError(f"column {name!r}: must be real numbers, got {values.dtype}.")
        return Column(name, _kind_of_numbers(present.to_numpy(dtype=np.float64)))
    if values.dtype.kind in "mM" or isinstance(values.dtype, pandas.DatetimeTZDtype | pandas.PeriodDtype):
        raise _Dates
    return _infer_objects(name, present)


def _kind_of_numbers(numbers: Any) -> str:
    finite = numbers[np.isfinite(numbers)]
    if not (finite == np.floor(finite)).all():
        return "number"
    return "boolean" if np.isin(finite, (0, 1)).all() else "integer"


def _infer_objects(name: str, present: Any) -> Column:
    import pandas

    # One look at each type, not at each value; unique values would not do, because True and 1 are equal.
    text = isinstance(present.dtype, pandas.StringDtype)
    types = {str} if text else set(map(type, present))
    kinds = {_family(kind) for kind in types}
    if kinds == {"boolean"}:
        return Column(name, "boolean")
    if kinds == {"number"}:
        try:
            return Column(name, _kind_of_numbers(present.to_numpy(dtype=np.float64)))
        except OverflowError:
            raise DataError(
                f"column {name!r}: must be numbers below 1e308, got a whole number with more digits; drop the column "
                "if it is an identifier."
            ) from None
    if kinds <= {"date", "datetime", "Timestamp", "timedelta", "Timedelta", "time"}:
        raise _Dates
    if len(kinds) == 1 and kinds != {"text"}:
        value = present.iloc[0]
        raise DataError(
            f"column {name!r}: must be numbers, booleans or text, got {shown(value)} ({type(value).__name__}); convert "
            "it with astype(float) or astype(str), and bytes with str.decode('utf-8')."
        )
    if kinds != {"text"}:
        firsts = {_family(type(value)): value for value in reversed(list(present))}
        examples = ", ".join(f"{shown(firsts[kind])} ({type(firsts[kind]).__name__})" for kind in sorted(kinds))
        words = sorted({value for value in present if isinstance(value, str)}) if kinds == {"number", "text"} else []
        gap = ""
        if len(words) == 1:
            gap = f"if {shown(words[0])} means a missing value, read the file with na_values=[{shown(words[0])}], or "
        raise DataError(
            f"column {name!r}: must hold one kind of values, got {examples}; {gap}convert it with astype(str) or "
            "to_numeric."
        )
    levels = sorted(present.unique())
    _check_texts(name, levels)
    return Column(name, "category", tuple(levels))


def _check_texts(name: str, levels: list[str]) -> None:
    """Raise for texts that are no categories: documents, numbers that were read as text, names."""
    longest = max(levels, key=len)
    if len(longest) > LONGEST_LEVEL:
        raise DataError(
            f"column {name!r}: must be categories, got a text of {len(longest):,} characters, {shown(longest)}; drop "
            "the column, or group its values."
        )
    if all(PERCENT.fullmatch(level.strip()) for level in levels):
        raise DataError(
            f"column {name!r}: must be numbers or categories, got numbers in percent written as text, such as "
            f"{shown(levels[0])}; convert it with df[{name!r}].str.rstrip('% ').astype(float)."
        )
    numbers = [level for level in levels if _NUMBER.fullmatch(level.strip())]
    grouped = [level for level in numbers if _GROUPED.fullmatch(level.strip()) or "," in level]
    if grouped and len(numbers) == len(levels):
        raise DataError(
            f"column {name!r}: must be numbers or categories, got numbers written as text, such as {shown(grouped[0])}"
            f"; read the file with {_marks(grouped)}; or convert the column."
        )
    others = [level for level in levels if level not in set(numbers)]
    if all(_DATE.fullmatch(level.strip()) for level in levels):
        raise _Dates(" If these are categories, convert it with astype('category').")
    gaps = bool(numbers) and {level.strip() for level in others} <= GAPS
    # "1", "2", "3" and "4+" are groups; "1", "5", "7" and "foo" are numbers and a slip.
    slip = len(numbers) >= FEWEST_NUMBERS and len(numbers) > len(others) and not any(map(_DIGIT.search, others))
    if others and (gaps or slip or len(numbers) > MOST_NUMBERS):
        raise DataError(
            f"column {name!r}: must hold one kind of values, got {len(numbers)} different numbers written as text, "
            f"such as {shown(numbers[0])}, and {shown(others[0])}; if that means a missing value, read the file with "
            f"na_values=[{shown(others[0])}], and if these are categories, convert the column with astype('category')."
        )
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"column {name!r}: looks like names or identifiers, with {len(levels)} different texts "
            f"(more than {MOST_LEVELS}); drop it, group its values, or give a schema that lists its levels."
        )


def _marks(texts: list[str]) -> str:
    """Say how a file is read that has such numbers: by the mark between thousands, the decimal mark, or both.

    A point alone would have been read as the decimal mark, had nobody said that this is a comma.

    >>> _marks(["1.234,50", "3,5"]), _marks(["12.500"])
    ("thousands='.' and decimal=','", "thousands='.' and decimal=','")
    >>> _marks(["1200,5"]), _marks(["1,200"]), _marks(["1,200.50"])
    ("decimal=','", "thousands=',' or, where it is the decimal mark, decimal=','", "thousands=','")
    """
    marks = [re.sub(r"[\d+\-eE]", "", text.strip()) for text in texts]
    if others := [mark for each in marks for mark in each if mark not in ",."]:
        return f"thousands={others[0]!r}" + (" and decimal=','" if any("," in each for each in marks) else "")
    if any("." in each for each in marks):
        return "thousands=','" if any(re.match(r",+\.", each) for each in marks) else "thousands='.' and decimal=','"
    if any(len(each) > 1 for each in marks):
        return "thousands=','"
    if not all(_GROUPED.fullmatch(text.strip()) for text in texts):
        return "decimal=','"
    return "thousands=',' or, where it is the decimal mark, decimal=','"


def is_amount(text: str) -> bool:
    """Report whether a text reads like a number or a date."""
    return bool(_NUMBER.fullmatch(text.strip()) or _DATE.fullmatch(text.strip()))


def _family(kind: type) -> str:
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, int | float | np.number):
        return "number"
    return "text" if issubclass(kind, str) else kind.__name__


def toml_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_list(values: Iterable[Any]) -> str:
    """Return a list of TOML."""
    return f"[{', '.join(map(toml_value, values))}]"


def toml_value(value: Any) -> str:
    """Return a TOML value; JSON's strings, numbers and booleans are TOML's too."""
    if not isinstance(value, str | bool | int | float):
        raise DataError(f"levels: only text, numbers and booleans can be written to a file, got {value!r}.")
    return json.dumps(value, ensure_ascii=False)
