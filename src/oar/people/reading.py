"""Tables from files: CSV and Parquet, with errors that say what is wrong with the file."""

from __future__ import annotations

import codecs
import inspect
import warnings
from pathlib import Path
from typing import Any

from oar.errors import DataError, OptionError, StorageError, choose
from oar.people.wording import nearest, repeated, shown

LARGEST_CELL = 10_000  # characters; more is a quote that was never closed, or a document
BLOCK = 1 << 20  # bytes
DELIMITERS = (";", "\t", "|", ",", " ")
# What says where a line and a cell end: the header is read once more with these, and nothing else.
LAYOUT = (
    "sep",
    "delimiter",
    "encoding",
    "encoding_errors",
    "compression",
    "quotechar",
    "quoting",
    "escapechar",
    "doublequote",
    "comment",
    "skiprows",
    "skip_blank_lines",
    "skipinitialspace",
    "engine",
)
BYTE_ORDER_MARKS = {  # the longer ones first
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


def read_table(path: str | Path, **options: Any) -> Any:
    """Return a DataFrame from a .csv (also compressed: .csv.gz), .tsv or .parquet file.

    `options` go to pandas' reader.
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not path.exists():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise StorageError(f"path: {path} does not exist.{nearest(path.name, siblings)}")
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return _parquet(path, options)
    if path.is_dir():
        raise StorageError(f"path: must be a file, got the folder {path}; name one file in it.")
    if not {".csv", ".tsv", ".txt", ".data"} & set(suffixes):
        raise OptionError(f"path: must end in .csv, .tsv or .parquet (compressed or not), got {path.name!r}.")
    if ".tsv" in suffixes and "delimiter" not in options:
        options.setdefault("sep", "\t")
    # Told nothing about an index, pandas would make one of what a row has too much, and shift all its other cells.
    frame = _csv(path, {"index_col": False} | options)
    _check_delimiter(frame.columns, path)
    if not {"header", "names"} & set(options):
        _check_header(path, options)
    return _checked(frame, path)


def _check_header(path: Path, options: dict[str, Any]) -> None:
    """Raise for what pandas would mend without a word: names that occur twice, or none at all."""
    layout = {name: value for name, value in options.items() if name in LAYOUT}
    first = _csv(path, layout | {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False})
    names = list(first.iloc[0])
    twice = repeated(name for name in names if name)
    if twice is not None:
        raise DataError(f"{path.name}: column names must differ, got {shown(twice)} twice; rename one.")
    if "" in names and not {"index_col", "usecols"} & set(options):
        place = names.index("")
        remedy = "if it is an index, read it with index_col=0" if place == 0 else "name it or remove it"
        raise DataError(f"{path.name}: every column must have a name, got none for column {place + 1}; {remedy}.")


def _csv(path: Path, options: dict[str, Any]) -> Any:
    import pandas

    for name in options:
        if name in ("chunksize", "iterator"):
            raise OptionError(f"options: {name} gives pieces, and a table must be read whole; leave it out.")
        choose("options", name, list(inspect.signature(pandas.read_csv).parameters)[1:])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Length of header or names", pandas.errors.ParserWarning)
            return pandas.read_csv(path, **options)
    except pandas.errors.ParserWarning:
        header = list(pandas.read_csv(path, **options | {"nrows": 0}).columns)
        _check_delimiter(header, path)
        raise DataError(
            f"{path.name}: rows must have as many cells as the header has names ({len(header)}), got more; a comma "
            "within a number may have been taken for a delimiter (quote such cells, or read it with sep=…), or the "
            "first cells are an index (read it with index_col=0)."
        ) from None
    except pandas.errors.EmptyDataError:
        raise StorageError(f"path: must be a file with a header and rows, but {path} is empty.") from None
    except UnicodeDecodeError as error:
        with open(path, "rb") as file:
            start = file.read(4)
        likely = next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), "latin-1")
        raise StorageError(
            f"path: {path} is not {error.encoding}: byte {error.object[error.start]:#04x}{_place(path, error)}; "
            f"name its encoding, such as encoding={likely!r}."
        ) from None
    except (pandas.errors.ParserError, OSError, EOFError, LookupError, ValueError) as error:
        raise StorageError(f"path: {path} cannot be read as a table: {str(error).strip()[:500]}") from None


def _place(path: Path, error: UnicodeDecodeError) -> str:
    """Return where in the file a byte is that cannot be decoded: pandas only knows where in the block that it read.

    Nothing is said of a compressed file, of which nobody could look up the place.
    """
    decoder, before = codecs.getincrementaldecoder(error.encoding)(), 0
    with open(path, "rb") as file:
        while True:
            block = file.read(BLOCK)
            waiting = len(decoder.getstate()[0])  # bytes of a letter that the last block began
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as found:
                if found.object[found.start] != error.object[error.start]:
                    return ""
                return f" at position {before - waiting + found.start:,}"
            if not block:
                return ""
            before += len(block)


def _parquet(path: Path, options: dict[str, Any]) -> Any:
    import pandas

    try:
        return pandas.read_parquet(path, **options)
    except ImportError:
        raise OptionError(
            "path: Parquet files need pyarrow, which is not installed; pip install 'oar-recourse[parquet]'."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(f"path: {path} cannot be read as Parquet: {str(error).strip()}") from None


def _check_delimiter(columns: Any, path: Path) -> None:
    """Raise where the only column's name is a whole header."""
    if len(columns) != 1:
        return
    header = str(columns[0])
    for delimiter in DELIMITERS:
        if delimiter in header:
            raise DataError(
                f"{path.name}: has one column, {shown(header)}, as if its delimiter were {delimiter!r}; "
                f"read it with sep={delimiter!r}."
            )


def _checked(frame: Any, path: Path) -> Any:
    """Return the frame; raise where it is plain that the file is not what it was taken for."""
    for name in map(str, frame.columns):
        if "\0" in name:
            raise StorageError(
                f"{path.name}: column names must be text, got {shown(name)}; name the file's encoding, such as "
                "encoding='utf-16-le'."
            )
        if len(name) > LARGEST_CELL:
            raise DataError(f"{path.name}: column names must be short, got {shown(name)}; rename it, or name sep=….")
    if not len(frame):
        raise DataError(f"{path.name}: has a header but no rows; at least one person is needed.")
    for name in frame.select_dtypes(include=["object", "string"]).columns:
        lengths = frame[name].dropna().astype(str).str.len()
        if len(lengths) and lengths.max() > LARGEST_CELL:
            raise DataError(
                f"{path.name}: column {shown(name)} has a cell of {lengths.max():,} characters in row "
                f"{shown(lengths.idxmax())}; a quote may never have been closed, or the column holds documents, which "
                "are no features: leave it out with usecols."
            )
    return frame
