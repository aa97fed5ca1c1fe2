"""Tables and arrays of other libraries: polars, pyarrow, JAX, PyTorch; by what they can do, without importing any."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, OptionError


def in_memory(values: Any, argument: str) -> Any:
    """Return arrays of other libraries as NumPy's and their tables as pandas'; everything else as it is.

    JAX's and PyTorch's arrays have `__array__`, and so have polars' and pyarrow's columns; a tensor is first taken off
    its graph and its device. Tables have `to_pandas`, or `__dataframe__`.
    """
    ours = isinstance(values, np.ndarray | list | tuple) or type(values).__module__.partition(".")[0] == "pandas"
    if ours or hasattr(values, "iloc") or hasattr(values, "tocsr"):
        return values
    if _is_table(values):
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


def _is_table(values: Any) -> bool:
    """Report whether this is a table of another library, which has columns and can be handed on."""
    named = hasattr(values, "columns") or hasattr(values, "column_names")
    return named and any(hasattr(values, way) for way in ("to_pandas", "__dataframe__"))


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
