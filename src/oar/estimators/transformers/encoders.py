"""scikit-learn's encoders as matrices: a row for each level of a column, in the order in which our rows have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, OptionError
from oar.estimators.transformers.fields import Field, Flow
from oar.estimators.transformers.nodes import ColumnEncoding
from oar.people.labels import plain

Matrix = list[list[float]]


def plainly(flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return every column as one number: levels that are numbers by their values, and flags as they are."""
    parts = []
    for field in flow.fields:
        if field.kind in ("number", "flag"):
            parts.append(ColumnEncoding("number", field.start))
            continue
        wrong = next((level for level in field.levels if isinstance(level, str) or not np.isreal(level)), None)
        if wrong is not None:
            raise DataError(
                f"model: {field.word} holds levels such as {wrong!r} where numbers are needed; put a OneHotEncoder "
                "or an OrdinalEncoder before it, or drop the column."
            )
        parts.append(_part(field, [[float(level)] for level in field.levels]))
    return tuple(parts), len(parts)


def one_hot(encoder: Any, fitted: Any, flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return each column's OneHotEncoder: all levels of the schema, in scikit-learn's order, without a dropped one.

    A level that nobody has gets a column too, which scikit-learn makes only once somebody has it. It is always zero
    till then, and penalised weights for it are zero.
    """
    parts, width = [], 0
    for number, field in enumerate(flow.fields):
        order = _order(encoder, fitted, number, field, "OneHotEncoder")
        there = [level for level in order if fitted is not None or _present(field, level)]
        dropped = _dropped(encoder.drop, number, there, field)
        kept = [level for level in order if dropped is None or level != dropped[0]]
        parts.append(_part(field, [[float(level == own) for own in kept] for level in field.levels]))
        width += len(kept)
    return tuple(parts), width


def codes(encoder: Any, fitted: Any, flow: Flow) -> tuple[tuple[ColumnEncoding, ...], int]:
    """Return each column's OrdinalEncoder: 0, 1, … in scikit-learn's order of those levels that somebody has."""
    parts = []
    for number, field in enumerate(flow.fields):
        order = _order(encoder, fitted, number, field, "OrdinalEncoder")
        if fitted is None and isinstance(encoder.categories, str):
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


def _order(encoder: Any, fitted: Any, number: int, field: Field, name: str) -> list[Any]:
    """Return a column's levels in scikit-learn's order: sorted, or as given."""
    if field.kind == "number":
        raise OptionError(
            f"model: {name} tells the values of {field.word} apart, which are numbers here, so that nothing can be "
            "said of a value in between; make people with oar.Population.from_frame(df, target=…, schema=…), and "
            "in the schema give this column the kind 'category' or 'ordinal', or leave it to a scaler."
        )
    if fitted is not None:
        return [plain(level) for level in fitted.categories_[number]]
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


def _dropped(drop: Any, number: int, there: list[Any], field: Field) -> tuple[Any] | None:
    """Return the level that is left out, in a tuple; None where none is."""
    if drop is None or (isinstance(drop, str) and drop == "if_binary" and len(there) != 2):
        return None
    if isinstance(drop, str):
        return (there[0],)
    level = plain(drop[number])
    if level is None:
        return None
    if level not in there:
        raise DataError(f"model: OneHotEncoder drops {level!r}, which nobody has in {field.word}.")
    return (level,)
