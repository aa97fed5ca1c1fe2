"""Tables from files: CSV and Parquet, with errors that say what is wrong with the file."""

from __future__ import annotations

import bz2
import codecs
import gzip
import inspect
import io
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from oar.checks import choose
from oar.errors import DataError, OARError, OptionError, StorageError
from oar.opening import BoundedReader, regular
from oar.opening.unpacking import available, check_unpacked
from oar.people.wording import nearest, repeated, shown
from oar.typing import FilePath

LARGEST_CELL = 10_000  # characters; more is a quote that was never closed, or a document
BLOCK = 1 << 20  # bytes
# What those who unpack, and pandas, say of a text that is damaged; RuntimeError where it needs a password.
NOT_UNPACKED = (zlib.error, lzma.LZMAError, zipfile.BadZipFile)
UNREADABLE = (*NOT_UNPACKED, OSError, EOFError, LookupError, ValueError, OverflowError, RuntimeError)
DELIMITERS = (";", "\t", "|", ",", " ")
LETTERS = 4_096  # bytes in which a header's first letters are
WHOLE, LONG = r"[+-]?\d+", r"[+-]?\d{19,}"
FOUND = (";", "\t", "|")  # those that are found without being named: a blank may be within a name
LOOKED_AT = 100  # lines
# What says where a line and a cell end: the header is read once more with these, and nothing else.
LAYOUT = (
    "sep delimiter encoding encoding_errors compression quotechar quoting escapechar doublequote comment skiprows "
    "skip_blank_lines skipinitialspace engine"
)
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BYTE_ORDER_MARKS = {  # the longer ones first
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


def read_table(path: FilePath, *, by_place: bool = False, **options: Any) -> Any:
    """Return a DataFrame from a .csv (also compressed: .csv.gz), .tsv, .parquet or .xlsx file.

    Args:
        path: the file.
        by_place: whether a column without a name is called "column 1", by its place, rather than refused.
        options: go to pandas' reader. Without `sep`, a delimiter other than a comma is found where every line that is
            looked at has it equally often, and the header has no comma.
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not os.path.exists(path):
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise StorageError(f"path: {path} does not exist.{nearest(path.name, siblings)}")
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return _parquet(path, options)
    if os.path.isdir(path):
        raise StorageError(f"path: must be a file, got the folder {path}; name one file in it.")
    regular(path, "path")
    if suffixes[-1:] in ([".xlsx"], [".xlsm"]):
        return _named(_book(path, options), path, by_place)
    if not {".csv", ".tsv", ".txt", ".data"} & set(suffixes):
        raise OptionError(f"path: must end in .csv, .tsv, .parquet or .xlsx (text also compressed), got {path.name!r}.")
    if not {"sep", "delimiter"} & set(options):
        options["sep"] = "\t" if ".tsv" in suffixes else _found_delimiter(path, options) or ","
    # Told nothing about an index, pandas would make one of what a row has too much, and shift all its other cells.
    if options.get("encoding") is None:
        _check_letters(path, options)
    frame = _as_numbers(_csv(path, {"index_col": False} | options), options.get("dtype"))
    frame = _in_percent(frame, options)
    _check_delimiter(frame.columns, path)
    if not {"header", "names"} & set(options):
        first, indexed = _csv(path, _raw(options, nrows=1)), bool({"index_col", "usecols"} & set(options))
        _check_header(list(first.iloc[0]), path, indexed or by_place)
        frame = _named(frame, path, by_place)
    return _checked(frame, path)


def _check_header(names: list[str], path: Path, nameless: bool) -> None:
    """Raise for what pandas would mend without a word: names that occur twice, or none at all."""
    if twice := repeated(name for name in names if name):
        raise DataError(f"{path.name}: column names must differ, got {shown(twice[0])} twice; rename one.")
    if "" in names and not nameless:
        place = names.index("")
        remedy = "if it is an index, read it with index_col=0" if place == 0 else "name it or remove it"
        raise DataError(f"{path.name}: every column must have a name, got none for column {place + 1}; {remedy}.")


def _named(frame: Any, path: Path, by_place: bool) -> Any:
    """Return the frame with columns that pandas calls unnamed called by their places, if they are to be."""
    if not by_place:
        return frame
    called = {f"Unnamed: {place}": f"column {place + 1}" for place in range(len(frame.columns))}
    renamed = frame.rename(columns=called)
    if twice := repeated(renamed.columns):
        raise DataError(f"{path.name}: column names must differ, got {shown(twice[0])} twice; rename one.")
    return renamed


def called_by_place(name: str) -> tuple[str, ...]:
    """Return what pandas calls a column that has no name, of which `name` is the place, or nothing.

    >>> called_by_place("column 1"), called_by_place("income")
    (('Unnamed: 0',), ())
    """
    return tuple(f"Unnamed: {int(place) - 1}" for place in re.findall(r"\Acolumn ([1-9]\d*)\Z", name))


def _raw(options: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return the options by which cells are read as they are, the header's among them."""
    layout = {name: value for name, value in options.items() if name in LAYOUT.split()}
    return layout | {"header": None, "dtype": str, "keep_default_na": False} | others


def _found_delimiter(path: Path, options: dict[str, Any]) -> str | None:
    """Return what every line of a file's beginning has equally often where the header has no comma; None if unsure."""
    try:
        if _csv(path, _raw(options, sep=",", nrows=1)).shape[1] > 1:
            return None
    except OARError:
        return None  # whatever it is, reading it says so
    for delimiter in FOUND:
        with suppress(OARError):  # a line with more cells than the header
            cells = _csv(path, _raw(options, sep=delimiter, nrows=LOOKED_AT))
            if cells.shape[1] > 1 and not cells.isna().to_numpy().any():
                return delimiter
    return None


def _book(path: Path, options: dict[str, Any]) -> Any:
    """Return a sheet of a workbook, the first one unless `sheet_name` says otherwise."""
    import pandas

    for name in options:
        choose("options", name, list(inspect.signature(pandas.read_excel).parameters)[1:])
    if isinstance(options.get("sheet_name", 0), list | type(None)):
        raise OptionError("options: sheet_name must be one sheet, got several; name one.")
    settings: dict[str, Any] = {"sheet_name": 0, "engine": "openpyxl"} | options
    needs = (
        "path: workbooks need openpyxl, which is not installed; pip install 'oar-recourse[excel]', or save the sheet "
        "as .csv."
    )
    # A workbook is packed XML, and openpyxl says of a damaged one what comes to its parser.
    with _explained(path, "a workbook", "save its sheet as .csv", needs), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # openpyxl's, about styles and validation that nobody needs
        with zipfile.ZipFile(path) as archive:
            for part in archive.infolist():
                check_unpacked(str(path), part.compress_size, part.file_size)
        _check_sheet(path, settings)
        header: Any = pandas.read_excel(path, **settings | {"header": None, "nrows": 1, "dtype": str})
        frame: Any = pandas.read_excel(path, **settings)
    names = [] if not len(header) else ["" if name != name else str(name) for name in header.iloc[0]]
    _check_header(names, path, nameless=True)
    return _checked(frame.rename(columns=str), path)


def _check_sheet(path: Path, options: dict[str, Any]) -> None:
    """Raise for a sheet that the workbook has not; the first one is always there."""
    import pandas

    wanted = options["sheet_name"]
    if not wanted:
        return
    with pandas.ExcelFile(path, engine=options["engine"]) as book:
        sheets = book.sheet_names
    if wanted not in (sheets if isinstance(wanted, str) else range(len(sheets))):
        raise OptionError(
            f"sheet_name: must be a sheet of {path.name}, got {shown(wanted)}; its sheets are "
            f"{', '.join(map(shown, sheets[:30]))}.{nearest(wanted, sheets)}"
        )


def _check_letters(path: Path, options: dict[str, Any]) -> None:
    """Raise for letters of two bytes that nothing marks: older pandas take the first NUL for the end of a name."""
    try:
        with (
            _unpacked(path, options) as (source, _),
            open(path, "rb") if source is path else nullcontext(source) as file,
        ):
            start = file.read(LETTERS)
    except (*UNREADABLE, OARError):
        return  # whatever it is, reading it says so
    if b"\0" in start.split(b"\n")[0] and not start.startswith(tuple(BYTE_ORDER_MARKS)):
        raise StorageError(
            f"{path.name}: column names must be text, got bytes of 0 among them; name the file's encoding, such as "
            "encoding='utf-16-le'."
        )


def _as_numbers(frame: Any, told: Any) -> Any:
    """Return the frame with whole numbers of many digits as numbers, which older pandas leave as texts."""
    kept = _told(frame, told)
    for name in frame.columns:
        if name not in kept and frame[name].dtype == object:
            present = frame[name].dropna()
            texts = present[present.map(lambda value: isinstance(value, str)).astype(bool)]
            if len(texts) == len(present) > 0 and texts.str.fullmatch(LONG).any() and texts.str.fullmatch(WHOLE).all():
                frame = frame.assign(**{name: frame[name].astype(float)})
    return frame


def _told(frame: Any, dtype: Any) -> Collection[str]:
    """Return the columns whose dtype was given: those of a dict, or all of them, or none."""
    return dtype if isinstance(dtype, dict) else () if dtype is None else list(frame.columns)


def _in_percent(frame: Any, options: dict[str, Any]) -> Any:
    """Return the frame with texts such as 5% as numbers, 5; `frame.attrs["percent"]` names these columns."""
    from oar.people.tables.schema import PERCENT

    kept, found, commas = _told(frame, options.get("dtype")), [], options.get("decimal") == ","
    for name in frame.select_dtypes(include=["object", "string"]).columns:
        present = frame[name].dropna()
        if name in kept or not len(present) or not all(isinstance(value, str) for value in present):
            continue
        texts = present.str.strip()
        if texts.str.fullmatch(PERCENT.pattern).all() and (commas or not texts.str.contains(",").any()):
            numbers = texts.str.rstrip("% \u00a0\u202f").str.replace(",", ".").astype(float)
            frame = frame.assign(**{name: numbers.reindex(frame.index)})
            found.append(name)
    frame.attrs["percent"] = found
    return frame


def _csv(path: Path, options: dict[str, Any]) -> Any:
    import pandas

    for name in options:
        if name in ("chunksize", "iterator"):
            raise OptionError(f"options: {name} gives pieces, and a table must be read whole; leave it out.")
        choose("options", name, list(inspect.signature(pandas.read_csv).parameters)[1:])
    sep = options.get("sep") or options.get("delimiter")
    if isinstance(sep, str) and sep != r"\s+" and len(sep.encode(errors="surrogateescape")) > 1:
        options = {"engine": "python"} | options  # which pandas would take in the end, with a warning
    old = pandas.__version__ < "3" and options.get("engine", "c") == "c"
    # Numbers are read to the last bit, as pandas does by itself from version 3 on.
    options = ({"float_precision": "round_trip"} if old else {}) | options
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Length of header or names", pandas.errors.ParserWarning)
            with _unpacked(path, options) as (source, how):
                return pandas.read_csv(source, **how)
    except pandas.errors.ParserWarning:
        with _unpacked(path, options) as (source, how):
            header = list(pandas.read_csv(source, **how | {"nrows": 0}).columns)
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
    except OARError:
        raise
    except MemoryError:
        raise StorageError(f"path: {path} does not fit into memory; as Parquet it is read in parts.") from None
    except UNREADABLE as error:
        raise StorageError(f"path: {path} cannot be read as a table: {_line(error)}") from None


@contextmanager
def _unpacked(path: Path, options: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what pandas is to read a text from, and with which options: the path itself where nothing is packed.

    Compressed texts are opened here rather than by pandas, so that what they unpack to can be bounded.
    """
    ending = path.suffix.lower()
    if options.get("compression", "infer") != "infer" or ending not in (*OPENERS, ".zip"):
        yield path, options
        return
    with (
        _zipped(path) if ending == ".zip" else OPENERS[ending](path, "rb") as content,
        io.BufferedReader(BoundedReader(content, str(path), path.stat().st_size)) as source,
    ):
        yield source, options | {"compression": None}


@contextmanager
def _zipped(path: Path) -> Iterator[Any]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise StorageError(f"path: {path} must hold one file, got {len(members)}; unpack it, and name one of them.")
        with archive.open(members[0]) as content:
            yield content


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

    needs = "path: Parquet files need pyarrow, which is not installed; pip install 'oar-recourse[parquet]'."
    # What is said of damaged bytes, and of notes that nobody understands, is of any kind.
    with _explained(path, "Parquet", "Population.from_parquet reads parts", needs):
        if not path.is_dir():
            from pyarrow.parquet import read_metadata

            about = read_metadata(regular(path, "path"))
            if 8 * about.num_rows * about.num_columns > available():  # it claims more people than there is memory for
                raise MemoryError
        return pandas.read_parquet(path, **options)


@contextmanager
def _explained(path: Path, kind: str, remedy: str, needs: str) -> Iterator[None]:
    """Say why a file cannot be read, and what to do, where somebody else says so; or what must be installed."""
    try:
        yield
    except ImportError:
        raise OptionError(needs) from None
    except OARError:
        raise
    except MemoryError:
        raise StorageError(f"path: {path} does not fit into memory; {remedy}.") from None
    except Exception as error:
        raise StorageError(f"path: {path} cannot be read as {kind}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """Return what somebody else's error says, on one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


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
