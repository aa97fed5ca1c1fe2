"""Missing values, by an explicit choice: refuse them, drop who has them, or fill them in.

Filled in are the median of numbers (of integers, booleans and ordinals the lower one, so that it is a value that
somebody has) and the most frequent category. That is what the operator is taken to train on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, choose
from oar.people.schema import Column, Schema

CHOICES = ("refuse", "drop", "impute")


def without_missing(frame: Any, schema: Schema | None, missing: str, target: str) -> Any:
    """Return the frame with no missing value in any column; `target` is never filled in."""
    choose("missing", missing, CHOICES)
    gaps = frame.isna()
    if not gaps.to_numpy().any():
        return frame
    if missing == "refuse":
        name = next(name for name in frame.columns if gaps[name].any())
        row, count = frame.index[gaps[name]][0], int(gaps.any(axis=1).sum())
        raise DataError(
            f"frame: has missing values in {count} of {len(frame)} rows, the first in column {name!r}, row {row!r}; "
            "choose missing='drop' to leave these people out, or missing='impute' to fill in medians and modes."
        )
    if missing == "drop":
        kept = frame[~gaps.any(axis=1)]
        if not len(kept):
            raise DataError("frame: every row has a missing value, so missing='drop' leaves nobody; impute instead.")
        return kept
    if gaps[target].any():
        raise DataError(
            f"frame: target column {target!r} has missing values, and a label is not filled in; drop these rows first."
        )
    schema = schema or Schema.infer(frame.drop(columns=target))
    filled = frame.copy()
    for column in schema:
        if column.name in filled and gaps[column.name].any():
            filled[column.name] = filled[column.name].fillna(_usual(column, filled[column.name].dropna()))
    return filled


def _usual(column: Column, present: Any) -> Any:
    if column.kind == "category":
        return present.mode().iloc[0]
    if column.kind == "ordinal":
        ranks = {level: rank for rank, level in enumerate(column.levels)}
        ordered = sorted(present, key=lambda level: ranks.get(level, 0))
        return ordered[(len(ordered) - 1) // 2]
    numbers = np.sort(present.to_numpy(dtype=np.float64))
    if column.kind == "number":
        return float(np.median(numbers))
    middle = numbers[(len(numbers) - 1) // 2]
    return bool(middle) if present.dtype == bool or present.map(type).eq(bool).all() else int(middle)
