"""The columns that a transformer chooses, by a name, a mask or a slice, and the matrices that encoders make of them.

Such a matrix has a row for each level of a column, in the order in which our rows have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import is_flag
from oar.errors import DataError, OptionError
from oar.estimators.transformers.nodes import ColumnEncoding
from oar.people.labels import plain

if TYPE_CHECKING:
    from oar.estimators.transformers.binding import Field, Flow

Matrix = list[list[float]]


def plainly(flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return every column as one number: levels that are numbers by their values, and flags as they are."""
    parts = []
    for field in flow.fields:
        if field.kind in ("number", "flag"):
            parts.append(ColumnEncoding("number", field.start))
            continue
        if wrong := [level for level in field.levels if isinstance(level, str) or not np.isreal(level)]:
            raise DataError(
                f"model: {field.word} holds levels such as {wrong[0]!r} where numbers are needed; put a OneHotEncoder "
                "or an OrdinalEncoder before it, or drop the column."
            )
        parts.append(_part(field, [[float(level)] for level in field.levels]))
    return tuple(parts), len(parts)


def one_hot(encoder: Any, flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return each column's OneHotEncoder: all levels of the schema, in scikit-learn's order, without a dropped one.

    A level that nobody has gets a column too, which scikit-learn makes only once somebody has it. It is always zero
    till then, and penalised weights for it are zero.
    """
    parts, width = [], 0
    for number, field in enumerate(flow.fields):
        order = _order(encoder, number, field)
        there = [level for level in order if hasattr(encoder, "categories_") or _present(field, level)]
        dropped = _dropped(encoder.drop, number, there, field)
        kept = [level for level in order if level not in dropped]
        parts.append(_part(field, [[float(level == own) for own in kept] for level in field.levels]))
        width += len(kept)
    return tuple(parts), width


def codes(encoder: Any, flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return each column's OrdinalEncoder: 0, 1, … in scikit-learn's order of those levels that somebody has."""
    parts = []
    for number, field in enumerate(flow.fields):
        order = _order(encoder, number, field)
        if not hasattr(encoder, "categories_") and isinstance(encoder.categories, str):
            order = [level for level in order if _present(field, level)]
        unknown = encoder.unknown_value if encoder.handle_unknown == "use_encoded_value" else len(order)
        if any(level not in order for level in field.levels) and not np.isfinite(unknown):
            raise OptionError("model: OrdinalEncoder's unknown_value must be a number here, got NaN.")
        places = [float(order.index(level)) if level in order else float(unknown) for level in field.levels]
        parts.append(_part(field, [[place] for place in places]))
    return tuple(parts), len(parts)


def _part(field: Field, matrix: Matrix) -> ColumnEncoding:
    return ColumnEncoding(field.kind, field.start, len(field.levels), tuple(map(tuple, matrix)))


def _present(field: Field, level: Any) -> bool:
    return level in field.levels and field.present[field.levels.index(level)]


def _order(encoder: Any, number: int, field: Field) -> list[Any]:
    """Return a column's levels in scikit-learn's order: as a fitted encoder has them, as given, or sorted."""
    name = type(encoder).__name__
    if field.kind == "number":
        raise OptionError(
            f"model: {name} tells the values of {field.word} apart, which are numbers here, so that nothing can be "
            "said of a value in between; make people with oar.Population.from_frame(df, target=…, schema=…), and "
            "in the schema give this column the kind 'category' or 'ordinal', or leave it to a scaler."
        )
    if hasattr(encoder, "categories_"):
        return [plain(level) for level in encoder.categories_[number]]
    if not isinstance(encoder.categories, str):
        order = [plain(level) for level in encoder.categories[number]]
        missing = [level for level in field.levels if level not in order and _present(field, level)]
        if missing and encoder.handle_unknown == "error":
            raise DataError(f"model: {name}'s categories lack {missing[0]!r}, which people have in {field.word}.")
        return order
    try:
        return sorted(field.levels)
    except TypeError:
        raise DataError(
            f"model: {name} sorts the levels of {field.word}, which are of kinds that cannot be compared."
        ) from None


def _dropped(drop: Any, number: int, there: list[Any], field: Field) -> tuple[Any, ...]:
    """Return the level that is left out, in a tuple; an empty one where none is."""
    match drop:
        case None:
            return ()
        case str():  # "first" or "if_binary"
            return (there[0],) if drop != "if_binary" or len(there) == 2 else ()
    level = plain(drop[number])
    if level is None:
        return ()
    if level not in there:
        raise DataError(f"model: OneHotEncoder drops {level!r}, which nobody has in {field.word}.")
    return (level,)


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
    match column:
        case str() if column in names:
            return names.index(column)
        case str():
            known = ", ".join(repr(name) for name in names[:8] if name is not None) or "none, as it is an array"
            raise DataError(f"model: {whose} asks for column {column!r}, which is not there (there are {known}).")
        case int() | np.integer() if -len(names) <= column < len(names):
            return int(column) % len(names)
    raise DataError(f"model: {whose} asks for column {column!r}, and there are {len(names)} columns.")


def _slice(columns: slice, names: list[Any], whose: str) -> slice:
    """Return a slice of positions; one of names includes its last, as everywhere in scikit-learn."""
    start, stop = (
        _position(end, names, whose) + past if isinstance(end, str) else end
        for end, past in ((columns.start, 0), (columns.stop, 1))
    )
    return slice(start, stop, columns.step)
