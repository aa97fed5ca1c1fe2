"""Tables of numbers as they come in: arrays and DataFrames, checked, not copied.

Those of other libraries (polars, pyarrow, JAX, PyTorch) are known by what they can do; none of them is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.people.wording import repeated, shown

Kind = TypeVar("Kind", bound=np.generic)
HEAVIEST = 1e100  # weight
CHUNK_ROWS = 1 << 15  # 32,768 rows of ten float64 features are 2.6 MB: inside the second-level cache.


@dataclass(frozen=True)
class Table:
    """A two-dimensional array of numbers, with the caller's names and index where there were any."""

    values: NDArray
    names: tuple[str, ...] | None = None
    index: Any = None


def is_frame(features: Any) -> bool:
    """Report whether this is a pandas DataFrame, without importing pandas."""
    return hasattr(features, "columns") and hasattr(features, "iloc") and hasattr(features, "dtypes")


def is_series(values: Any) -> bool:
    """Report whether this is a pandas Series, without importing pandas."""
    return hasattr(values, "index") and hasattr(values, "to_numpy") and not is_frame(values)


def as_table(features: Any, argument: str = "features") -> Table:
    """Check shape, kind and finiteness, and return the table."""
    names, index = None, None
    features = in_memory(features, argument)
    if is_frame(features):
        names, index = _frame_names(features, argument), features.index
        values = features.to_numpy()
    else:
        if hasattr(features, "tocsr"):
            raise DataError(f"{argument}: must be dense, got a sparse matrix; use .toarray().")
        if np.ma.is_masked(features):
            raise DataError(f"{argument}: must not be masked; drop or impute the masked values.")
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
    check_finite(values, argument, names)
    return Table(values, names, index)


def _frame_names(features: Any, argument: str) -> tuple[str, ...]:
    import pandas

    columns = list(features.columns)
    if twice := repeated(columns):
        raise DataError(f"{argument}: column names must differ, got {shown(twice[0])} twice; rename one.")
    for name in columns:
        if not (pandas.api.types.is_numeric_dtype(features[name]) or pandas.api.types.is_bool_dtype(features[name])):
            raise DataError(
                f"{argument}: every column must be numeric, got column {name!r} of type {features[name].dtype}; "
                "use oar.Population.from_frame(frame, target=…), which takes such columns, or drop it."
            )
        if features[name].isna().any():
            row = shown(features.index[features[name].isna()][0])
            raise DataError(f"{argument}: must be finite, got a missing value in row {row}, column {name!r}.")
    return tuple(columns)


def _as_numbers(values: NDArray, argument: str) -> NDArray:
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "O":
        if any(isinstance(value, str | bytes) for value in values.flat):
            raise DataError(f"{argument}: must be numbers, got text; convert or encode it first.")
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{argument}: must be numbers ({error}); encode categories first.") from None
    raise DataError(f"{argument}: must be real numbers, got an array of type {values.dtype}; encode it first.")


def check_finite(values: NDArray, argument: str, names: tuple[str, ...] | None = None) -> None:
    """Raise if a value is NaN or infinite, naming the first one.

    A chunk's sum is finite only if every value in it is, so the common case costs one sum a chunk; only a chunk
    whose sum is not finite (it may have overflowed) is searched.
    """
    if values.dtype.kind in "biu":
        return
    for start in range(0, len(values), CHUNK_ROWS):
        chunk = values[start : start + CHUNK_ROWS]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(chunk.sum(dtype=np.float64)):
                continue
            bad = np.argwhere(~np.isfinite(chunk.astype(np.float64)))
        if not bad.size:
            continue
        row, *columns = bad[0]
        where = "".join(f", column {names[place]!r}" if names else f", column {place}" for place in columns)
        raise DataError(
            f"{argument}: must be finite, got {chunk[row, *columns]} in row {start + row}{where}; drop or impute such "
            "values."
        )


def as_vector(values: Any, names: tuple[str, ...] | None, size: int, argument: str) -> NDArray[np.float64]:
    """Return one person's features as float64, matched by name where both sides have names."""
    if is_frame(values):
        if len(values) != 1:
            raise DataError(f"{argument}: must be one person, got a frame of {len(values)} rows; pass one row.")
        values = values.iloc[0]
    if isinstance(values, Mapping) or is_series(values):
        values = _by_name(dict(values.items()), names, argument)
    vector = as_floats(values, argument)
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
    array = as_floats(values, argument)
    if array.shape != (size,):
        raise DataError(f"{argument}: must have one value for each of the {size} people, got shape {array.shape}.")
    check_finite(array, argument)
    if array.size and array.min() < 0:
        raise DataError(f"{argument}: must not be negative, got {array.min()} at position {int(array.argmin())}.")
    return array


def weight_values(values: Any, size: int, index: Any) -> NDArray[np.float64]:
    """Return one weight a person; only their ratios count, and their sums and squares must be numbers."""
    array = row_values(values, size, index, "weights")
    largest = float(array.max(initial=0.0))
    if largest > 0 and not 1 / HEAVIEST <= largest <= HEAVIEST:
        raise DataError(
            f"weights: the largest must be between {1 / HEAVIEST:.0e} and {HEAVIEST:.0e}, so that sums of them hold, "
            f"got {largest:.3g}; only their ratios count: divide all of them by the largest."
        )
    return array


def as_floats(values: Any, argument: str) -> NDArray[np.float64]:
    """Return a copy as float64; text is not parsed, and masked values are not dropped."""
    if np.ma.is_masked(values):
        raise DataError(f"{argument}: must not be masked; drop or impute the masked values.")
    values = in_memory(values, argument)
    try:
        raw = np.asarray(values)
        text = raw.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in raw.flat)
        if text or raw.dtype.kind not in "biufO":
            raise TypeError(f"got {'text' if text else raw.dtype}")
        return np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{argument}: must be numbers ({error}).") from None


def check_index(values: Any, index: Any, argument: str) -> None:
    """Raise where a Series is in another order than the frame that it belongs to."""
    if index is not None and not values.index.equals(index):
        raise DataError(
            f"{argument}: its index must equal the index of the features, got another one; "
            "use .reindex(X.index), or .to_numpy() if the order is already right."
        )


def index_of_row(row: Any) -> Any:
    """Return the caller's index of one person, or None."""
    import pandas

    if is_frame(row):
        return row.index
    if is_series(row) and row.name is not None:
        return pandas.Index([row.name])
    return None


def in_memory(values: Any, argument: str) -> Any:
    """Return arrays of other libraries as NumPy's and their tables as pandas'; everything else as it is.

    JAX's and PyTorch's arrays have `__array__`, and so have polars' and pyarrow's columns; a tensor is first taken off
    its graph and its device. Tables have `to_pandas`, or `__dataframe__`.
    """
    ours = isinstance(values, np.ndarray | list | tuple) or type(values).__module__.partition(".")[0] == "pandas"
    if ours or hasattr(values, "iloc") or hasattr(values, "tocsr"):
        return values
    named = hasattr(values, "columns") or hasattr(values, "column_names")
    if named and (hasattr(values, "to_pandas") or hasattr(values, "__dataframe__")):  # another library's table
        return _framed(values, argument)
    if not hasattr(values, "__array__") or not (hasattr(values, "shape") or hasattr(values, "to_pandas")):
        return values
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{argument}: cannot be read as an array ({str(error).strip()}); convert it to NumPy's first."
        ) from None
    # Numbers of 8 or 16 bits that NumPy does not know (bfloat16) are records to it.
    return array.astype(np.float64) if array.dtype.kind == "V" and array.dtype.names is None else array


def _framed(values: Any, argument: str) -> Any:
    kind = f"{type(values).__module__.partition('.')[0]} {type(values).__name__}"
    try:
        if hasattr(values, "to_pandas"):
            return values.to_pandas()
        from pandas.api.interchange import from_dataframe

        return from_dataframe(values)
    except ImportError as error:
        raise OptionError(
            f"{argument}: a {kind} is read by way of pandas, which needs a package that is not installed ({error}); "
            "pip install 'oar-recourse[parquet]', or convert it to a pandas DataFrame first."
        ) from None
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DataError(
            f"{argument}: this {kind} cannot be read as a table ({str(error).strip()}); convert it to pandas' first."
        ) from None
