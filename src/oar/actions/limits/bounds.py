"""Bounds of one column: numbers and levels as they are given, as coordinates, and in words."""

from __future__ import annotations

from typing import Any

from oar.checks import choose, is_number
from oar.errors import DataError, OptionError
from oar.people.labels import plain
from oar.people.tables.encoding import LARGEST
from oar.people.tables.schema import Column, Schema
from oar.people.wording import shown


def column_of(schema: Schema, name: Any, where: str) -> Column:
    """Return a column by its name; raise with the nearest one where there is none."""
    choose(where, name, schema.names)
    return schema[name]


def bound_of(column: Column, value: Any, where: str) -> float | None:
    """Return a bound as a coordinate: the number itself, or the rank of an ordinal's level."""
    if value is None:
        return None
    if column.kind == "ordinal":
        return float(level_of(column, value, where))
    if not is_number(value) or not abs(value) <= LARGEST:
        raise DataError(f"{where}: must be a finite number, of at most {LARGEST:g}, got {shown(value)}.")
    return float(value)


def level_of(column: Column, value: Any, where: str) -> int:
    """Return the position of a level; raise with the nearest one where there is none."""
    level = plain(value)
    if level not in column.levels:
        choose(where, str(level), [str(known) for known in column.levels])
        raise OptionError(f"{where}: must be one of {column.levels}, got {value!r}.")
    return column.levels.index(level)


def said(column: Column, coordinate: float) -> str:
    """Return a coordinate in the table's words: the number, or an ordinal's level."""
    return shown(column.levels[round(coordinate)]) if column.kind == "ordinal" else f"{coordinate:g}"


def listing(kinds: tuple[str, ...]) -> str:
    """Return kinds of columns in words."""
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"
