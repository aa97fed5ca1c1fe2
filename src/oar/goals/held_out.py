"""People whom the model is not trained on, read as its own people were."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oar.errors import DataError
from oar.models.training import Array
from oar.people import Population
from oar.people.labels import label_array
from oar.people.tables.arrays import is_frame


class HeldOutData(NamedTuple):
    """Features (n, d), labels (n, k) as shares of the model's classes or as values, and weights (n,)."""

    features: Array
    rows: Array
    weights: Array


def held_out_people(people: Population, regresses: bool, held_out: Any) -> HeldOutData:
    """Read a population, or of a table a frame with the same columns; raise where they do not fit the people."""
    if is_frame(held_out):
        return _of_frame(people, regresses, held_out)
    if not isinstance(held_out, Population):
        raise DataError(
            "held_out: must be an oar.Population, or a DataFrame with the people's columns, got an object of type "
            f"{type(held_out).__name__}."
        )
    if held_out.dimensions != people.dimensions:
        raise DataError(
            f"held_out: must have the people's {people.dimensions} features, got {held_out.dimensions}; of a table, "
            "pass the DataFrame itself, or give oar.Population.from_frame the people's schema."
        )
    if held_out.names != people.names or held_out.schema != people.schema:
        raise DataError(
            "held_out: must have the same columns, kinds and levels as the people, got others; pass the DataFrame "
            "itself, or give oar.Population.from_frame the people's schema=people.schema."
        )
    weights = held_out.row_weights
    if regresses:
        rows = held_out.value_rows()
    elif held_out.has_label_rows:
        if held_out.classes != people.classes:
            raise DataError(f"held_out: must have the classes {list(people.classes)}, got {list(held_out.classes)}.")
        rows = held_out.class_rows()
    else:
        rows = _shares(people, held_out.labels)
    return HeldOutData(np.asarray(held_out.features, dtype=np.float64), rows, weights)


def _of_frame(people: Population, regresses: bool, frame: Any) -> HeldOutData:
    if people.encoding is None or people.target is None:
        raise DataError("held_out: must be an oar.Population where the people are no table, got a DataFrame.")
    if people.target not in frame:
        raise DataError(f"held_out: must have the column of labels {people.target!r}, got {list(frame.columns)}.")
    if not len(frame):
        raise DataError("held_out: must have at least one row, got none.")
    features = people.encoding.encode(frame.drop(columns=[people.target]), "held_out")
    labels = frame[people.target]
    if not regresses:
        return HeldOutData(features, _shares(people, labels), np.ones(len(frame)))
    try:
        values = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"held_out: column {people.target!r} must be numbers, got {labels.iloc[0]!r}.") from None
    return HeldOutData(features, values[:, None], np.ones(len(frame)))


def _shares(people: Population, labels: Any) -> Array:
    """Return labels as shares of the people's classes; raise for a label that nobody of them has."""
    codes = people.coding.encode(label_array(labels), "held_out labels")
    return np.eye(len(people.classes))[codes]
