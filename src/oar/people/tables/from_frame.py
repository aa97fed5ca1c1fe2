"""The parts of a population, read from a DataFrame with a target column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oar.checks import check_text
from oar.errors import DataError
from oar.people.labels import label_array
from oar.people.tables.arrays import check_index, in_memory, is_frame, is_series
from oar.people.tables.encoding import Encoding
from oar.people.tables.identities import identities
from oar.people.tables.missing import without_missing
from oar.people.tables.schema import Schema
from oar.people.wording import nearest, repeated, shown


def read_frame(
    frame: Any, target: str, schema: Any, weights: str | None, missing: str
) -> tuple[Any, Any, Any, Encoding, Any]:
    """Check a table; return coordinates as a frame, labels, weights, the encoding, and what was imputed."""
    import pandas

    if target is None:
        raise DataError("target: must be the name of the column of labels, got None.")
    columns = features_of(frame, target, weights)
    if isinstance(schema, str | Path):
        schema = Schema.load(schema)
    if not isinstance(schema, Schema | None):
        raise DataError(
            f"schema: must be an oar.Schema or a TOML file, got {type(schema).__name__}; use oar.Schema.infer(frame)."
        )
    if schema is None:
        check_identities(columns)
        schema = Schema.infer(columns) if missing == "impute" else None
    elif target in schema.names:
        raise DataError(f"schema: must not describe the target {target!r}, only features; leave it out.")
    gaps = np.zeros(0, dtype=bool)
    if missing == "impute":
        gaps = columns[[name for name in schema.names if name in columns]].isna().to_numpy()
    frame = without_missing(frame, schema, missing, _named(target, weights))
    _check_target(frame[target], target)
    features = features_of(frame, target, weights)
    schema = schema or Schema.infer(features)
    encoding = Encoding(schema, tuple(features[name].dtype for name in schema.names if name in features))
    # Nobody else holds these coordinates, so that there is nothing to copy them for.
    coordinates = pandas.DataFrame(encoding.encode(features), features.index, list(encoding.names), copy=False)
    given = None if weights is None else frame[weights]
    return coordinates, frame[target], given, encoding, gaps if gaps.any() else None


def with_column(frame: Any, given: Any, argument: str) -> tuple[Any, Any]:
    """Return a frame with a column, and its name, where one (labels, weights) is given beside the frame."""
    values = in_memory(given, argument)
    if not is_frame(frame) or not (isinstance(values, list) or getattr(values, "ndim", 0) > 0):
        return frame, given
    if is_frame(values):
        if len(values.columns) != 1:
            raise DataError(f"{argument}: must be one column, got a table of {len(values.columns)}; choose one.")
        values = values.iloc[:, 0]
    if is_series(values):
        check_index(values, frame.index, argument)
    name = getattr(values, "name", None) or getattr(given, "name", None) or argument
    if name in frame.columns:
        raise DataError(
            f"{argument}: is given beside the frame, which has a column {shown(name)}, too; give {argument}={name!r} "
            f"if that is what is meant, or drop the column (df.drop(columns={name!r}))."
        )
    column = label_array(values, argument)
    if len(column) != len(frame):
        raise DataError(f"{argument}: must be one for each of the {len(frame)} rows, got {len(column)}.")
    return frame.assign(**{str(name): column}), str(name)


def check_identities(features: Any) -> None:
    """Raise where a column counts rows or names people: nobody can change it, and a model should not learn it.

    A schema says what the features are, so that columns of a schema are not looked at.
    """
    for name, why in identities(features).items():
        raise DataError(
            f"frame: column {shown(name)} is no feature, it {why}; make it the index (df.set_index({name!r})) or drop "
            f"it (df.drop(columns={name!r})), and if it is one all the same, describe it in a schema (schema=…)."
        )


def features_of(frame: Any, target: str | None, weights: str | None = None) -> Any:
    """Return the columns that are features: all but the target and the weights, which must be there."""
    if not is_frame(frame):
        raise DataError(f"frame: must be a pandas DataFrame, got {type(frame).__name__}; use oar.Population(X, y).")
    names = list(frame.columns)
    for name in names:
        check_text("frame: column", name, "rename it")
    if twice := repeated(names):
        raise DataError(f"frame: column names must differ, got {shown(twice[0])} twice; rename one.")
    for argument, column in (("target", target), ("weights", weights)):
        if column is not None and column not in names:
            hint = nearest(column, names) or f" Its columns are {', '.join(shown(name) for name in names[:30])}."
            raise DataError(f"{argument}: must be a column of the frame, got {shown(column)}.{hint}")
    if not len(frame):
        raise DataError("frame: must have at least one row, got none.")
    features = frame.drop(columns=_named(target, weights))
    if not len(features.columns):
        raise DataError(f"frame: must have features beside the target {target!r}, got none.")
    return features


def _named(*columns: str | None) -> list[str]:
    """Return the columns of these that there are."""
    return [name for name in columns if name is not None]


def _check_target(labels: Any, target: str) -> None:
    """Raise for labels from which nothing can be learnt."""
    if labels.dtype.kind == "f" and not np.isfinite(labels.to_numpy()).all():
        wrong = ~np.isfinite(labels.to_numpy())
        raise DataError(
            f"target: column {target!r} must be finite, got {shown(labels[wrong].iloc[0])} in row "
            f"{shown(labels.index[wrong][0])}; drop or correct such rows."
        )
    try:
        different = labels.nunique()
    except TypeError:
        return  # lists and the like: coding the labels refuses them, and says what to use
    if different < 2:
        check_text(f"target: column {target!r}", labels.iloc[0])  # some versions of pandas take all of these for one
        raise DataError(
            f"target: column {target!r} must have at least two different values, got only {shown(labels.iloc[0])}; "
            "choose another target, or add people with another outcome."
        )
