"""Moves that somebody else computed, of people who are not in memory: handed out part by part, as plans do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Chunk, Population
from oar.people.parts.parquet import need_pyarrow, parquet_files
from oar.people.wording import nearest, shown
from oar.plans.moves.parquet import columns_of_files
from oar.plans.plan import Plan

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SubmittedPlan(Plan):
    """Moves by whoever hands them out, `of_chunk(chunk)`."""

    handed: Any

    def mover(self) -> Any:
        """Return what hands out moves, and can be sent to another machine."""
        return self.handed


@dataclass(frozen=True, eq=False)
class ArrayMoves:
    """Moves in an array (n, d), in the order of the people."""

    each: Array
    sent_once: ClassVar[bool] = True

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        found = np.asarray(self.each[chunk.start : chunk.stop], dtype=np.float64)
        check_moves(found, chunk.start)
        return found


class NoMoves:
    """The moves where nobody moves."""

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        return np.zeros_like(chunk.features)


@dataclass(frozen=True, eq=False)
class FileMoves:
    """Moves in Parquet files, as `plan.write_moves` writes them: a column of positions and one for each feature.

    Attributes:
        files: paths, each with its first and its last position; positions that are in none stay.
    """

    files: tuple[tuple[str, int, int], ...]
    position: str
    names: tuple[str, ...]

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        from pyarrow.parquet import read_table

        found = np.zeros((chunk.stop - chunk.start, len(self.names)))
        for path, first, last in self.files:
            if first < chunk.stop and last >= chunk.start:
                within = [(self.position, ">=", chunk.start), (self.position, "<", chunk.stop)]
                table = read_table(path, columns=[self.position, *self.names], filters=within, use_threads=False)
                moves = np.column_stack([table.column(name).to_numpy() for name in self.names]).astype(np.float64)
                found[table.column(self.position).to_numpy() - chunk.start] = moves
        check_moves(found, chunk.start)
        return found


def file_moves(people: Population, path: Any) -> FileMoves:
    """Open files of moves, and refuse those of other people or of other columns."""
    need_pyarrow()
    from pyarrow.parquet import read_schema, read_table

    (position, *names), found = columns_of_files(people), []
    try:
        files = parquet_files(path)
    except DataError as error:
        raise DataError(f"moves{str(error).removeprefix('path')}") from None
    for file in files:
        columns = _schema(file, read_schema)
        for name in (position, *names):
            if name not in columns:
                raise DataError(
                    f"moves: files must have a column {position!r} and one for each feature, as plan.write_moves "
                    f"writes them, got {file} without {shown(name)}.{nearest(name, columns)}"
                )
        places = read_table(file, columns=[position]).column(0).to_numpy()
        if places.dtype.kind not in "iu" or (places.size and (places[0] < 0 or (np.diff(places) <= 0).any())):
            raise DataError(
                f"moves: {position!r} must count people from 0, each once and in order, got others in {file}."
            )
        if places.size:
            found.append((str(file), int(places[0]), int(places[-1])))
    found.sort(key=lambda one: one[1])
    for (one, _, last), (other, first, _) in zip(found, found[1:], strict=False):
        if first <= last:
            raise DataError(
                f"moves: everybody must be in one file, got {one} and {other} with some of the same people."
            )
    if found and found[-1][2] >= people.size:
        raise DataError(
            f"moves: must be of these {people.size:,} people, got number {found[-1][2]:,} in {found[-1][0]}."
        )
    return FileMoves(tuple(found), position, tuple(names))


def _schema(file: Path, read: Any) -> list[str]:
    import pyarrow

    try:
        return list(read(file).names)
    except (pyarrow.ArrowException, OSError) as error:
        brief = str(error).strip().split("\n")[0].rstrip(".")
        raise DataError(f"moves: {file} cannot be read as Parquet ({brief}); write it again.") from None


def check_moves(moves: Array, start: int = 0, names: Any = None, called: Any = None) -> None:
    """Refuse a move that is no number, and say whose."""
    bad = np.argwhere(~np.isfinite(moves))
    if bad.size:
        row, column = bad[0]
        who = start + row if called is None else called[row]
        what = f"feature {column}" if names is None else f"column {shown(names[column])}"
        raise DataError(
            f"moves: must be finite, got {moves[row, column]} for person {who}, {what}; a zero is a coordinate that "
            "stays."
        )
