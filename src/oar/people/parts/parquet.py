"""People in Parquet files: a file or a folder of them, one part for each row group.

Files are opened to compare their schemas before anything is read, so that one that is corrupt, lacks a column or keeps
its labels as another kind of thing is named at once. Row groups are what is in memory at a time: files whose row groups
hold 10⁵ to 10⁶ people suit best.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.opening import regular
from oar.people.parts.part import Part, Rows, checked_weights
from oar.people.wording import nearest, repeated

SUFFIXES = (".parquet", ".parq", ".pq")
NUMERIC = ("whole number", "number", "truth value")
MOST_FOOTERS = 64
Stamp = tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """The columns that are features, label and, if any, weight."""

    features: tuple[str, ...]
    target: str
    weights: str | None

    @property
    def others(self) -> list[str]:
        """The columns that are no features."""
        return [self.target] if self.weights is None else [self.target, self.weights]


@dataclass(frozen=True)
class ParquetPart(Part):
    """One row group of one file."""

    path: str
    group: int
    size: int
    columns: Columns
    known: str | None = None  # the digest that its content must have

    @property
    def name(self) -> str:  # type: ignore[override]
        """The part's name in messages."""
        return f"{self.path}, row group {self.group}"

    def read(self) -> Rows:
        """Read features, labels and weights."""
        table = self._table([*self.columns.features, *self.columns.others])
        names = self.columns.features
        return Rows(tuple(self._numbers(table, name) for name in names), *self._others(table), names)

    def read_labels(self) -> Rows:
        """Read labels and weights alone."""
        return Rows((), *self._others(self._table(self.columns.others)))

    def _table(self, columns: list[str]) -> Any:
        import pyarrow
        from pyarrow.parquet import ParquetFile

        try:
            mapped, about = self._mapped()
            # Checksums are looked at where pages have them; one thread, because parts are read side by side
            opened = ParquetFile(pyarrow.BufferReader(mapped), metadata=about, page_checksum_verification=True)
            if self.group >= about.num_row_groups or about.row_group(self.group).num_rows != self.size:
                raise DataError(
                    f"path: files must stay as they are, got {self.name}, which no longer has {self.size:,} people; "
                    "make the population again."
                )
            return opened.read_row_group(self.group, columns=columns, use_threads=False)
        except DataError:
            raise
        except (pyarrow.ArrowException, OSError, LookupError, ValueError, MemoryError) as error:  # empty ones too
            raise DataError(f"path: {self.name} cannot be read ({_brief(error)}); write this file again.") from None

    def _mapped(self, look: bool = False) -> tuple[mmap, Any]:
        """Return the file's bytes and what it says about its row groups.

        Opened once, so that the footer is that of the very file that is read, whoever puts another one there. Mapped,
        so that pages are decoded from where the system keeps them and not copied first.
        """
        with open(regular(self.path), "rb") as file:
            mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
            return mapped, _footer(mapped, _stamp(os.fstat(file.fileno())), look)

    def content(self) -> str:
        """Return a digest of all columns that are read, byte by byte, and of what the file says that these are.

        That changes with whatever changes people's data, also where size, times and inode are as they were.
        """
        import pyarrow

        named = hashlib.blake2b(digest_size=16)
        try:
            mapped, about = self._mapped(look=True)
            group, kept = about.row_group(self.group), memoryview(mapped)
            places = {about.schema.column(place).path: place for place in range(about.num_columns)}
            for name in (*self.columns.features, *self.columns.others):
                place = places.get(name)
                if place is None:  # of several leaves, which are refused where they are read
                    continue
                column, kind = group.column(place), about.schema.column(place)
                first = column.data_page_offset
                if column.has_dictionary_page:
                    first = min(first, column.dictionary_page_offset)
                says = name, column.physical_type, str(kind.logical_type), column.compression, column.encodings
                # A checksum a column, which takes a fifth of the time of a cryptographic digest: what is looked for are
                # changes that no time tells, and not forgers, who could have come before the plan.
                check = zlib.crc32(kept[first : first + column.total_compressed_size])
                named.update(repr((*says, column.num_values, group.num_rows, check)).encode())
        except (pyarrow.ArrowException, OSError, LookupError, ValueError, MemoryError) as error:
            raise DataError(f"path: {self.name} cannot be read ({_brief(error)}); write this file again.") from None
        return named.hexdigest()

    def stamp(self) -> tuple[str, Stamp]:
        """Return what changes when the file does; one that is not there has none."""
        try:
            return self.path, _stamp(os.stat(self.path))
        except OSError:
            return self.path, ()

    def _numbers(self, table: Any, name: str, argument: str = "features") -> NDArray:
        column = table.column(name)
        if column.null_count:
            raise DataError(
                f"{argument}: must be finite, got {column.null_count:,} missing values of {name!r} in {self.name}, the "
                f"first in row {_first_null(column):,}; drop or impute them."
            )
        found = _array(column)
        return found.astype(np.float64) if found.dtype.kind == "O" else found  # decimals

    def _others(self, table: Any) -> tuple[NDArray, NDArray[np.float64] | None, str]:
        labels = table.column(self.columns.target)
        if labels.null_count:
            raise DataError(
                f"labels: must not be missing, got {labels.null_count:,} missing values of {self.columns.target!r} in "
                f"{self.name}, the first in row {_first_null(labels):,}; drop or label these people."
            )
        weights = None
        if self.columns.weights is not None:
            weights = checked_weights(self._numbers(table, self.columns.weights, "weights"), self.name)
        return _array(labels), weights, self.name


def _stamp(about: os.stat_result) -> Stamp:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


_footers: OrderedDict[Stamp, tuple[bytes, Any]] = OrderedDict()


def _footer(source: mmap, stamp: Stamp, look: bool = False) -> Any:
    """Return what a file says about its row groups, read once: it is long where there are many of them.

    Where contents are looked at, so are the footer's own bytes, which may be others although the stamp is as it was.
    """
    import pyarrow
    from pyarrow.parquet import read_metadata

    known, found = _footers.get(stamp, (b"", None))
    if found is None or look:
        length = 8 + int.from_bytes(source[-8:-4], "little")  # as its last bytes say
        digest = hashlib.blake2b(source[-min(length, len(source)) :]).digest()
        if found is None or digest != known:
            found = read_metadata(pyarrow.BufferReader(source))
            _footers[stamp] = digest, found
        while len(_footers) > MOST_FOOTERS:
            with suppress(KeyError):  # another thread may have done it
                _footers.popitem(last=False)
    return found


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy()))


def _array(column: Any) -> NDArray:
    """Return an Arrow column as an array, without a copy where there is one piece of numbers."""
    return column.chunk(0).to_numpy(zero_copy_only=False) if column.num_chunks == 1 else column.to_numpy()


def _brief(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def parquet_files(path: Any) -> list[Path]:
    """Return a file, or all Parquet files of a folder and the folders in it, in the order of their names."""
    try:
        place = Path(path)
    except TypeError:
        raise DataError(
            f"path: must be a Parquet file or a folder of them, got an object of type {type(path).__name__}; put "
            "several files into one folder."
        ) from None
    if os.path.isfile(place):
        return [place]
    if "://" in str(path):
        raise DataError(
            f"path: must be a file or folder of this machine, got the address {str(path)!r}; mount it, or let Dask "
            "read it: oar.Population.from_dask(dask.dataframe.read_parquet(…), target)."
        )
    if not os.path.isdir(place):
        hint = f"; name the folder itself, {str(place.parent)!r}" if any(mark in place.name for mark in "*?[") else ""
        raise DataError(
            f"path: must be a Parquet file or a folder of them, got {str(path)!r}, which is not there{hint}."
        )
    files = sorted(
        file
        for file in place.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
    )
    if not files:
        raise DataError(
            f"path: must hold Parquet files ({', '.join(SUFFIXES)}), got the folder {str(path)!r}, which has none."
        )
    return files


def parquet_parts(
    path: Any, target: str, features: Any = None, weights: str | None = None
) -> tuple[list[ParquetPart], Columns]:
    """Open every file, compare their schemas, and return a part for each row group that holds somebody."""
    need_pyarrow()
    # What a file without people says of its columns is of no interest: writers do not know the types of nothing.
    files = [opened for opened in map(_opened, parquet_files(path)) if any(opened.groups)]
    if not files:
        raise DataError(f"path: must hold at least one person, got {str(path)!r} with none.")
    columns = _columns(files[0], target, features, weights)
    parts: list[ParquetPart] = []
    for one in files:
        one.check(columns, files[0])
        parts += [ParquetPart(str(one.path), group, rows, columns) for group, rows in enumerate(one.groups) if rows]
    return parts, columns


def need_pyarrow() -> None:
    """Raise, with what to install, where pyarrow is not there."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise OptionError(
            "path: Parquet files need pyarrow, which is not installed; pip install 'oar-recourse[parquet]'."
        ) from None


@dataclass(frozen=True)
class _Opened:
    """The metadata of a file: its columns' types, how many rows each of its row groups has, and its index.

    pandas and Dask write the index of a table as a column like any other, and name it in the file's own notes.
    """

    path: Path
    types: dict[str, Any]
    groups: list[int]
    index: tuple[str, ...] = ()

    def check(self, columns: Columns, first: _Opened) -> None:
        """Refuse a file that lacks a column, or keeps one as another kind of thing than the first file does."""
        for name in (*columns.features, *columns.others):
            if name not in self.types:
                remedy = "leave it out with features=…" if name in columns.features else "take it out of the folder"
                raise DataError(
                    f"path: all files must have the columns of {first.path}, got {self.path} without {name!r}; write "
                    f"it again with that column, or {remedy}."
                )
        if columns.weights is not None and _kind(self.types[columns.weights]) not in NUMERIC:
            raise DataError(
                f"weights: must be a column of numbers, got {columns.weights!r} of type {self.types[columns.weights]} "
                f"in {self.path}; name another column, or write it as numbers."
            )
        for name in columns.features:
            if _kind(self.types[name]) not in NUMERIC:
                raise DataError(
                    f"features: every column must be numeric, got {name!r} of type {self.types[name]} in {self.path}; "
                    "choose columns with features=…, or encode it first (oar.Population.read encodes tables in memory)."
                )
        ours, theirs = (_kind(one.types[columns.target]) for one in (self, first))
        if ours != theirs:
            raise DataError(
                f"target: labels must be of one kind in all files, got {columns.target!r} as {ours} "
                f"({self.types[columns.target]}) in {self.path} and as {theirs} ({first.types[columns.target]}) in "
                f"{first.path}; write one of them again."
            )


def _opened(file: Path) -> _Opened:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(regular(file)) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            groups = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
    except (pyarrow.ArrowException, OSError, LookupError, ValueError, MemoryError) as error:
        remedy = "write it again, or take it out of the folder"
        if file.suffix.lower() not in SUFFIXES:
            remedy = "write it as Parquet, or use oar.Population.read for tables that fit into memory"
        raise DataError(
            f"path: every file must be a Parquet file, got {str(file)!r}, which cannot be read ({_brief(error)}); "
            f"{remedy}."
        ) from None
    if twice := repeated(schema.names):
        raise DataError(f"path: columns must have different names, got {twice[0]!r} twice in {file}; write it again.")
    return _Opened(file, {name: schema.field(name).type for name in schema.names}, groups, _index(schema))


def _index(schema: Any) -> tuple[str, ...]:
    try:
        noted = (schema.pandas_metadata or {}).get("index_columns", ())
    except (AttributeError, ValueError):  # somebody else's notes under the same name
        return ()
    return tuple(name for name in noted if isinstance(name, str))  # a range is noted too, and is no column


def _columns(first: _Opened, target: str, features: Any, weights: str | None) -> Columns:
    known = list(first.types)
    if not isinstance(weights, str | None):
        raise DataError(
            f"weights: must be the name of a column, got an object of type {type(weights).__name__}; write it into the "
            "files, or use oar.Population.from_memmap, which takes arrays."
        )
    for argument, name in (("target", target), ("weights", weights)):
        if name is not None and name not in known:
            raise DataError(f"{argument}: must be a column of {first.path}, one of {known}, got {name!r}.")
    if weights == target:
        raise DataError(f"weights: must be another column than the target, got {weights!r} for both.")
    if isinstance(features, str):
        raise DataError(f"features: must be a list of columns, got {features!r}; say features=[{features!r}].")
    if features is None:
        chosen = [name for name in known if name not in (target, weights, *first.index)]
    else:
        chosen = list(features)
        if wrong := [name for name in chosen if name not in known or name in (target, weights)]:
            others = [name for name in known if name not in (target, weights)]
            raise DataError(
                f"features: must be columns of {first.path} other than target and weights, among {others}, got "
                f"{wrong[0]!r}.{nearest(wrong[0], others)}"
            )
        if twice := repeated(chosen):
            raise DataError(f"features: must differ, got {twice[0]!r} twice.")
    if not chosen:
        raise DataError(f"features: must be at least one column, got none in {first.path} beside {target!r}.")
    return Columns(tuple(chosen), target, weights)


def _kind(kind: Any) -> str:
    """Return what a column holds, in words."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_boolean(kind):
        return "truth value"
    if types.is_integer(kind):
        return "whole number"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return str(kind)
