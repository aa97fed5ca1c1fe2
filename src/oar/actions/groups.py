"""Who is meant by a group of people: everyone whose columns have the values that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.people import Population
from oar.people.labels import plain
from oar.people.tables.schema import Column
from oar.people.wording import nearest, shown

Mask = NDArray[np.bool_]
MOST_LISTED = 12  # names or levels in a message


def check_group(group: Mapping[Any, Any]) -> None:
    """Raise for a group that names no column, or no value of one."""
    if not group:
        raise DataError('participants: a group must name at least one column, got {}; use {"column": value}.')
    for name, wanted in group.items():
        if isinstance(wanted, list | np.ndarray) and not len(wanted):
            raise DataError(f"participants: column {name!r} must have at least one value, got an empty list.")
        if isinstance(wanted, tuple) and (len(wanted) != 2 or not all(map(_is_number, wanted))):
            raise DataError(
                f"participants: column {name!r} as a tuple must be (lowest, highest), two numbers, got {wanted!r}; "
                "use a list for several values."
            )


def group_mask(group: Mapping[Any, Any], people: Population) -> Mask:
    """Return who has a wanted value in every one of these columns; both ends of a range count."""
    found = np.ones(people.size, dtype=bool)
    for name, wanted in group.items():
        found &= _in_column(people, name, wanted)
    if not found.any():
        raise DataError(
            f"participants: nobody is in the group {dict(group)!r}; leave a column out, or allow more of its values."
        )
    return found


def _in_column(people: Population, name: Any, wanted: Any) -> Mask:
    known = people.schema.names if people.schema is not None else people.names
    if known is None:
        raise OptionError(
            "participants: a group by columns needs people with column names, got a plain array; use a DataFrame, or "
            "give a boolean mask."
        )
    if name not in known:
        raise DataError(
            f"participants: must name columns of the people ({_listed(known)}), got {shown(name)}."
            f"{nearest(name, known)}"
        )
    if people.encoding is None:
        return _matches(np.asarray(people.features[:, known.index(name)], dtype=np.float64), name, wanted)
    column, place = people.encoding.schema[name], people.encoding.places[name]
    coordinates = np.asarray(people.features[:, place], dtype=np.float64)
    if not column.levels:
        return _matches(coordinates[:, 0], name, wanted)
    codes = coordinates.argmax(axis=1) if column.kind == "category" else np.rint(coordinates[:, 0]).astype(int)
    return np.isin(codes, [_level(column, value) for value in _several(wanted, name)])


def _level(column: Column, value: Any) -> int:
    """Return the position of a level; 1 is neither True nor "1"."""
    value = plain(value)
    for code, level in enumerate(column.levels):
        if type(level) is type(value) and level == value:
            return code
    raise DataError(
        f"participants: column {column.name!r} has the levels {_listed(column.levels)}, got {shown(value)}."
        f"{nearest(value, column.levels)}"
    )


def _matches(values: NDArray[np.float64], name: Any, wanted: Any) -> Mask:
    if isinstance(wanted, tuple):
        return (values >= wanted[0]) & (values <= wanted[1])
    numbers = _several(wanted, name)
    wrong = next((value for value in numbers if not _is_number(value)), None)
    if wrong is not None or not numbers:
        raise DataError(
            f"participants: column {name!r} holds numbers; must be a number, a list of them or a range "
            f"(lowest, highest), got {shown(wrong)}."
        )
    return np.isin(values, np.array(numbers, dtype=np.float64))


def _several(wanted: Any, name: Any) -> list[Any]:
    if isinstance(wanted, tuple):
        raise DataError(f"participants: column {name!r} has levels, which have no range; use a list of levels.")
    return list(wanted) if isinstance(wanted, list | set | frozenset | np.ndarray) else [wanted]


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.bool_ | np.number) and value == value


def _listed(names: Any) -> str:
    names = list(names)
    return ", ".join(shown(name) for name in names[:MOST_LISTED]) + (", …" if len(names) > MOST_LISTED else "")
