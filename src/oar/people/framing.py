"""From a DataFrame with a target column to what a population is made of."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from oar.errors import DataError
from oar.people.encoding import Encoding
from oar.people.missing import without_missing
from oar.people.schema import Schema
from oar.people.tables import is_frame


class Framed(NamedTuple):
    """Coordinates as a frame with the caller's index, labels and weights as Series, and the encoding."""

    features: Any
    labels: Any
    weights: Any
    encoding: Encoding


def read_frame(frame: Any, target: str, schema: Schema | None, weights: str | None, missing: str) -> Framed:
    """Check a table and encode it."""
    import pandas

    if not is_frame(frame):
        raise DataError(f"frame: must be a pandas DataFrame, got {type(frame).__name__}; use oar.Population(X, y).")
    names = list(frame.columns)
    repeated = [name for position, name in enumerate(names) if name in names[:position]]
    if repeated:
        raise DataError(f"frame: column names must differ, got {repeated[0]!r} twice; rename one.")
    for argument, column in (("target", target), ("weights", weights)):
        if column is not None and column not in names:
            near = difflib.get_close_matches(str(column), [str(name) for name in names], n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(f"{argument}: must be a column of the frame, got {column!r}.{hint}")
    if not len(frame):
        raise DataError("frame: must have at least one row, got none.")
    if schema is not None and not isinstance(schema, Schema):
        raise DataError(f"schema: must be an oar.Schema, got {type(schema).__name__}; use oar.Schema.infer(frame).")
    frame = without_missing(frame, schema, missing, target)
    features = frame.drop(columns=[target] if weights is None else [target, weights])
    if not len(features.columns):
        raise DataError(f"frame: must have features beside the target {target!r}, got none.")
    if schema is not None and target in schema.names:
        raise DataError(f"schema: must not describe the target {target!r}, only features; leave it out.")
    schema = schema or Schema.infer(features)
    encoding = Encoding(schema, tuple(features[name].dtype for name in schema.names if name in features))
    coordinates = pandas.DataFrame(encoding.encode(features), index=features.index, columns=list(encoding.names))
    return Framed(coordinates, frame[target], None if weights is None else frame[weights], encoding)
