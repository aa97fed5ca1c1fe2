"""Missing values, by an explicit choice: refuse them, drop who has them, or fill them in.

Filled in are the median of numbers (of integers, booleans and ordinals the lower one, so that it is a value that
somebody has) and the most frequent category. That is what the operator is taken to train on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oar.checks import choose
from oar.errors import DataError
from oar.people.tables.schema import Column, Schema
from oar.people.wording import shown

CHOICES = ("refuse", "drop", "impute")


def without_missing(frame: Any, schema: Schema | None, missing: str, never_filled: Sequence[str]) -> Any:
    """Return the frame without missing values, by one of `CHOICES`; labels and weights are never filled in."""
    choose("missing", missing, CHOICES)
    gaps = frame.isna()
    if not gaps.to_numpy().any():
        return frame
    unlabelled = [name for name in never_filled if gaps[name].any()]
    empty = [name for name in frame.columns if gaps[name].all()]
    if empty:
        raise DataError(
            f"frame: column {shown(empty[0])} must have at least one value, got only missing ones; drop the column."
        )
    if missing == "refuse":
        name = next(name for name in frame.columns if gaps[name].any())
        row, count = frame.index[gaps[name]][0], int(gaps.any(axis=1).sum())
        never = f" column {shown(unlabelled[0])} is never filled in:" if unlabelled else ""
        instead = "" if unlabelled else ", or missing='impute' to fill in medians and modes"
        raise DataError(
            f"frame: must not have missing values, got some in {count} of {len(frame)} rows, the first in column "
            f"{shown(name)}, row {shown(row)};{never} choose missing='drop' to leave these people out{instead}."
        )
    if missing == "drop":
        kept = frame[~gaps.any(axis=1)]
        if not len(kept):
            worst = gaps.mean().idxmax()
            raise DataError(
                f"frame: every row has a missing value, so missing='drop' leaves nobody; impute instead, or drop "
                f"columns such as {shown(worst)}, which lacks {gaps[worst].mean():.0%}."
            )
        return kept
    if unlabelled:
        raise DataError(
            f"frame: column {shown(unlabelled[0])} has missing values, and a label or a weight is not filled in; drop "
            "these rows first (df.dropna(subset=[…])), or choose missing='drop'."
        )
    return _filled(frame, frame, schema or Schema.infer(frame.drop(columns=list(never_filled))))


def _filled(frame: Any, others: Any, schema: Schema) -> Any:
    """Return a frame whose gaps in a schema's columns are filled in with what is usual among others."""
    filled = frame.copy()
    for column in schema:
        if column.name in filled and filled[column.name].isna().any():
            filled[column.name] = filled[column.name].fillna(_usual(column, others[column.name].dropna()))
    return filled


def filled_as(frame: Any, others: Any, schema: Schema, argument: str) -> Any:
    """Return a frame whose gaps are filled in with what is usual among others: people trained on before.

    A label is not filled in, and a gap in it raises.
    """
    filled = _filled(frame, others, schema)
    for name in filled.columns:
        if filled[name].isna().any():
            row = filled.index[filled[name].isna()][0]
            raise DataError(
                f"{argument}: column {shown(name)} must have no missing values, because it is no feature to be filled "
                f"in, got one in row {shown(row)}; leave such rows out."
            )
    return filled


def _usual(column: Column, present: Any) -> Any:
    if column.kind == "category":
        return present.mode().iloc[0]
    if column.kind == "ordinal":
        ranks = {level: rank for rank, level in enumerate(column.levels)}
        ordered = sorted(present, key=lambda level: ranks.get(level, 0))
        return ordered[(len(ordered) - 1) // 2]
    try:
        numbers = np.sort(present.to_numpy(dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        return present.iloc[0]  # not numbers at all: encoding refuses them, and says where they are
    if column.kind == "number":
        return float(np.median(numbers))
    middle = numbers[(len(numbers) - 1) // 2]
    if not np.isfinite(middle):
        return middle  # refused when it is encoded, with its column
    return bool(middle) if present.dtype == bool or present.map(type).eq(bool).all() else int(middle)
