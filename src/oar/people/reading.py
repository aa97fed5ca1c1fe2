"""Tables from files: CSV and Parquet, with errors that say what is wrong with the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oar.errors import DataError, OptionError, StorageError

LARGEST_CELL = 10_000  # characters; more is a quote that was never closed, or a document


def read_table(path: str | Path, **options: Any) -> Any:
    """Return a DataFrame from a .csv (also compressed: .csv.gz), .tsv or .parquet file.

    `options` go to pandas' reader.
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not path.exists():
        raise StorageError(f"{path} does not exist.")
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return _parquet(path, options)
    if not {".csv", ".tsv", ".txt", ".data"} & set(suffixes):
        raise OptionError(f"path: must end in .csv, .tsv or .parquet (compressed or not), got {path.name!r}.")
    if ".tsv" in suffixes:
        options.setdefault("sep", "\t")
    frame = _csv(path, options)
    if "header" not in options and "names" not in options:
        _check_header(list(_csv(path, options | {"header": None, "nrows": 1, "dtype": str}).iloc[0]), path)
    return _checked(frame, path)


def _check_header(names: list, path: Path) -> None:
    """Raise for a name that occurs twice, which pandas would rename without a word."""
    repeated = [name for position, name in enumerate(names) if name in names[:position]]
    if repeated:
        raise DataError(f"{path.name}: column names must differ, got {repeated[0]!r} twice; rename one.")


def _csv(path: Path, options: dict[str, Any]) -> Any:
    import pandas

    try:
        return pandas.read_csv(path, **options)
    except pandas.errors.EmptyDataError:
        raise StorageError(f"{path} is empty.") from None
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path} is not {error.encoding}: byte {error.object[error.start]:#04x} at {error.start}; "
            "name its encoding, such as encoding='latin-1'."
        ) from None
    except (pandas.errors.ParserError, OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read as a table: {str(error).strip()}") from None


def _parquet(path: Path, options: dict[str, Any]) -> Any:
    import pandas

    try:
        return pandas.read_parquet(path, **options)
    except ImportError:
        raise OptionError(
            "path: Parquet files need pyarrow, which is not installed; pip install 'oar-recourse[parquet]'."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {str(error).strip()}") from None


def _checked(frame: Any, path: Path) -> Any:
    """Return the frame; raise where it is plain that the file is not what it was taken for."""
    if not len(frame):
        raise DataError(f"{path.name}: has a header but no rows; at least one person is needed.")
    if len(frame.columns) == 1:
        header = str(frame.columns[0])
        for delimiter in (";", "\t", "|"):
            if delimiter in header:
                raise DataError(
                    f"{path.name}: has one column, {header[:60]!r}, as if its delimiter were {delimiter!r}; "
                    f"read it with sep={delimiter!r}."
                )
    for name in frame.select_dtypes(include=["object", "string"]).columns:
        lengths = frame[name].dropna().astype(str).str.len()
        if len(lengths) and lengths.max() > LARGEST_CELL:
            raise DataError(
                f"{path.name}: column {name!r} has a cell of {lengths.max():,} characters in row {lengths.idxmax()!r}; "
                "a quote may never have been closed."
            )
    return frame
