"""Tables of numbers as they come in: arrays and DataFrames, checked, not copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError

CHUNK_ROWS = 1 << 15  # 32,768 rows of ten float64 features are 2.6 MB: inside the second-level cache.


@dataclass(frozen=True)
class Table:
    """A two-dimensional array of numbers, with the caller's names and index where there were any.

    `largest` is the size of the largest value: rounding errors are in proportion to it.
    """

    values: NDArray
    largest: float
    names: tuple[str, ...] | None = None
    index: Any = None

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows as C-ordered float64; a view where they already are."""
        return np.ascontiguousarray(self.values[start:stop], dtype=np.float64)


def is_frame(features: Any) -> bool:
    """Report whether this is a pandas DataFrame, without importing pandas."""
    return hasattr(features, "columns") and hasattr(features, "to_numpy") and hasattr(features, "dtypes")


def is_series(values: Any) -> bool:
    """Report whether this is a pandas Series, without importing pandas."""
    return hasattr(values, "index") and hasattr(values, "to_numpy") and not is_frame(values)


def as_table(features: Any, argument: str = "features") -> Table:
    """Check shape, kind and finiteness, and return the table."""
    names, index = None, None
    if is_frame(features):
        names, index = _frame_names(features, argument), features.index
        values = features.to_numpy()
    else:
        if hasattr(features, "tocsr"):
            raise DataError(f"{argument}: must be dense, got a sparse matrix; use .toarray().")
        try:
            values = np.asarray(features)
        except ValueError as error:
            raise DataError(f"{argument}: must be a rectangle of numbers ({error}).") from None
    if values.ndim != 2:
        raise DataError(
            f"{argument}: must be two-dimensional (people × features), got shape {values.shape}; "
            "use X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one person."
        )
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise DataError(f"{argument}: must have at least one person and one feature, got shape {values.shape}.")
    values = _as_numbers(values, argument)
    return Table(values, check_finite(values, argument, names), names, index)


def _frame_names(features: Any, argument: str) -> tuple[str, ...]:
    import pandas

    columns = list(features.columns)
    repeated = [name for position, name in enumerate(columns) if name in columns[:position]]
    if repeated:
        raise DataError(f"{argument}: column names must differ, got {repeated[0]!r} twice; rename one.")
    for name in columns:
        if not (pandas.api.types.is_numeric_dtype(features[name]) or pandas.api.types.is_bool_dtype(features[name])):
            raise DataError(
                f"{argument}: every column must be numeric, got column {name!r} of type {features[name].dtype}; "
                "encode it first (for example with pandas.get_dummies) or drop it."
            )
        if features[name].isna().any():
            row = features.index[features[name].isna()][0]
            raise DataError(f"{argument}: must be finite, got a missing value in row {row!r}, column {name!r}.")
    return tuple(columns)


def _as_numbers(values: NDArray, argument: str) -> NDArray:
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{argument}: must be numbers ({error}); encode categories first.") from None
    raise DataError(f"{argument}: must be real numbers, got an array of type {values.dtype}; encode it first.")


def check_finite(values: NDArray, argument: str, names: tuple[str, ...] | None = None) -> float:
    """Return the size of the largest value; raise if one is NaN or infinite, naming the first such.

    The least and the greatest value of a chunk are finite only if every value in it is, so the common case
    costs two reductions a chunk; only a bad chunk is searched.
    """
    largest = 0.0
    for start in range(0, len(values), CHUNK_ROWS):
        chunk = values[start : start + CHUNK_ROWS]
        size = max(float(chunk.max()), -float(chunk.min()))  # a NaN anywhere makes both of them NaN
        if np.isfinite(size):
            largest = max(largest, size)
            continue
        place = np.argwhere(~np.isfinite(chunk))[0]
        row = f"row {start + place[0]}"
        column = ""
        if values.ndim == 2:
            column = f", column {names[place[1]]!r}" if names else f", column {place[1]}"
        raise DataError(
            f"{argument}: must be finite, got {chunk[tuple(place)]} in {row}{column}; drop or impute such values."
        )
    return largest


def as_vector(values: Any, names: tuple[str, ...] | None, size: int, argument: str) -> NDArray[np.float64]:
    """Return one person's features as float64, matched by name where both sides have names."""
    if is_frame(values):
        if len(values) != 1:
            raise DataError(f"{argument}: must be one person, got a frame of {len(values)} rows; pass one row.")
        values = values.iloc[0]
    if isinstance(values, Mapping) or is_series(values):
        values = _by_name(dict(values.items()), names, argument)
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{argument}: must be numbers ({error}).") from None
    if vector.ndim == 2 and vector.shape[0] == 1:
        vector = vector[0]
    if vector.ndim != 1:
        raise DataError(f"{argument}: must be one person with {size} features, got shape {vector.shape}.")
    if vector.size != size:
        raise DataError(f"{argument}: must have {size} features like the population, got {vector.size}.")
    check_finite(vector, argument)
    return vector


def _by_name(values: dict, names: tuple[str, ...] | None, argument: str) -> list:
    if names is None:
        return list(values.values())
    missing = [name for name in names if name not in values]
    extra = [name for name in values if name not in names]
    if missing or extra:
        trouble = f"missing {missing[0]!r}" if missing else f"unknown {extra[0]!r}"
        raise DataError(f"{argument}: its names must be the population's columns, got {trouble}.")
    return [values[name] for name in names]


def row_values(values: Any, size: int, index: Any, argument: str) -> NDArray[np.float64]:
    """Return one finite, non-negative number a person; a Series must carry the population's own index."""
    if is_series(values):
        check_index(values, index, argument)
        values = values.to_numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{argument}: must be numbers ({error}).") from None
    if array.shape != (size,):
        raise DataError(f"{argument}: must have one value for each of the {size} people, got shape {array.shape}.")
    check_finite(array, argument)
    if array.size and array.min() < 0:
        raise DataError(f"{argument}: must not be negative, got {array.min()} at position {int(array.argmin())}.")
    return array


def check_index(values: Any, index: Any, argument: str) -> None:
    """Raise where a Series is in another order than the frame that it belongs to."""
    if index is not None and not values.index.equals(index):
        raise DataError(
            f"{argument}: its index must equal the index of the features, got another one; "
            "use .reindex(X.index), or .to_numpy() if the order is already right."
        )
