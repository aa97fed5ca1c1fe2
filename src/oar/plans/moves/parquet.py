"""Moves as Parquet files, written part by part and read: files are whole, and writing can go on where it ended.

A file is written under another name and renamed when it is complete, and says in its own metadata which plan and which
people it is for, by a digest of their data. Writing again reads everybody and skips what is there for these very
people, so that a run that was killed, or ran out of disk, is finished by the same call.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, StorageError
from oar.files import replace_atomically
from oar.people import Chunk, Population
from oar.people.labels import LabelCoding
from oar.people.parts.arrays import PART_ROWS
from oar.people.parts.parquet import need_pyarrow, parquet_files
from oar.people.parts.part import Part
from oar.people.parts.population import StreamedPopulation, chunks_of
from oar.people.wording import nearest, shown

if TYPE_CHECKING:
    from oar.plans.plan import Plan

Array = NDArray[np.float64]
POSITION = "position"
MARK, PEOPLE = b"oar.moves", b"oar.people"


@dataclass(frozen=True, eq=False)
class _Writing:
    """What whoever writes a part must know."""

    folder: str
    mark: str
    names: tuple[str, ...]
    mover: Any
    coding: LabelCoding | None
    rows: int
    sent_once: ClassVar[bool] = True

    def path(self, number: int) -> Path:
        return Path(self.folder) / f"part-{number:06d}.parquet"


def write_moves(plan: Plan, folder: Any) -> list[Path]:
    """Write everyone's moves to a folder, a file for each part; return the files, in the order of the people."""
    need_pyarrow()
    people = plan.problem.people
    place, mark, columns = Path(folder), _mark(plan), columns_of_files(people)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {place}: {error.strerror}. Choose a folder you can write to.") from error
    if isinstance(people, StreamedPopulation):
        plan.check_files()
        coding = None if plan.problem.regresses else people.coding
        writing = _Writing(str(place), mark, columns, plan.mover(), coding, plan.rows_at_a_time)
        numbers = dict(zip(people.starts, range(len(people.parts)), strict=True))
        _refuse_others(writing, len(people.parts))
        return [Path(one) for one in people.mapped(_write_part, writing, numbers, contents=plan.contents)]
    writing = _Writing(str(place), mark, columns, plan, None, PART_ROWS)
    _refuse_others(writing, -(-people.size // PART_ROWS))
    return [_write(writing, number, [chunk]) for number, chunk in enumerate(people.chunks(PART_ROWS))]


def columns_of_files(people: Population) -> tuple[str, ...]:
    """Return the columns of files of moves: positions, by a name that no feature has, and the features."""
    names = people.names or tuple(f"x{place}" for place in range(people.dimensions))
    position = POSITION
    while position in names:
        position += "_"
    return (position, *names)


def _mark(plan: Plan) -> str:
    """Return a name for a plan and its people: by what moves are made of, and by how people lie in parts."""
    people, allowance = plan.problem.people, plan.problem.allowance
    named = hashlib.blake2b(plan.signature(), digest_size=16)
    named.update(repr((people.size, people.dimensions, people.names, allowance.norm.p)).encode())
    for array in (allowance.budget, allowance.mask):
        named.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    if isinstance(people, StreamedPopulation):
        named.update(repr([(part.name, part.size) for part in people.parts]).encode())
    return named.hexdigest()


def _refuse_others(writing: _Writing, parts: int) -> None:
    """Refuse a folder with files of another plan."""
    known = {writing.path(number) for number in range(parts)}
    for file in sorted(Path(writing.folder).glob("*.parquet")):
        if file not in known or _metadata(file).get(MARK, writing.mark.encode()) != writing.mark.encode():
            raise StorageError(
                f"{writing.folder} holds {file.name}, which is not of this plan; choose an empty or a new folder."
            )


def _metadata(file: Path) -> dict[bytes, bytes]:
    """Return which plan and people a file is of; nothing where it cannot be read, so that it is written again."""
    import pyarrow
    from pyarrow.parquet import read_schema

    try:
        found = read_schema(file).metadata or {}
    except (pyarrow.ArrowException, OSError):
        return {}
    return {key: found.get(key, b"") for key in (MARK, PEOPLE)}


def _write_part(part: Part, start: int, writing: _Writing, numbers: dict[int, int]) -> str:
    """Write one part, unless it is there."""
    chunks = list(chunks_of(part.read(), start, writing.coding, writing.rows))
    return str(_write(writing, numbers[start], chunks))


def _digest(chunks: list[Chunk]) -> bytes:
    """Return a name for some people's data: moves are theirs, and nobody else's."""
    named = hashlib.blake2b(digest_size=16)
    for chunk in chunks:
        for array in (chunk.features, chunk.codes, chunk.values, chunk.weights):
            named.update(b"-" if array is None else np.ascontiguousarray(array).data)
    return named.hexdigest().encode()


def _write(writing: _Writing, number: int, chunks: list[Chunk]) -> Path:
    """Write one part's moves, unless they are there, for these very people."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    path = writing.path(number)
    mark = {MARK: writing.mark.encode(), PEOPLE: _digest(chunks)}
    if path.exists() and _metadata(path) == mark:
        return path
    position, *names = writing.names
    fields = [(position, pyarrow.int64()), *((name, pyarrow.float64()) for name in names)]
    schema = pyarrow.schema(fields, metadata=mark)
    try:
        whole = replace_atomically(path, private=True)
        with whole as file, ParquetWriter(file, schema, write_page_checksum=True) as writer:
            for chunk in chunks:
                moves = writing.mover.of_chunk(chunk)
                columns = [np.arange(chunk.start, chunk.stop), *np.ascontiguousarray(moves.T)]
                writer.write_table(pyarrow.table(columns, schema=schema))
    except StorageError as error:
        raise StorageError(
            f"{error} The parts that are there are whole: write_moves with the same folder goes on with the others."
        ) from None
    return path


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
    position, *names = columns_of_files(people)
    try:
        files = parquet_files(path)
    except DataError as error:
        raise DataError(f"moves{str(error).removeprefix('path')}") from None
    spans = ((str(file), _positions(file, position, names)) for file in files)
    found = sorted(((file, int(at[0]), int(at[-1])) for file, at in spans if at.size), key=lambda one: one[1])
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


def _positions(file: Path, position: str, names: list[str]) -> NDArray[Any]:
    """Return whose moves a file has; raise where it lacks a column, or does not count people."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema, read_table

    try:
        columns = list(read_schema(file).names)
    except (ArrowException, OSError) as error:
        brief = str(error).strip().split("\n")[0].rstrip(".")
        raise DataError(f"moves: {file} cannot be read as Parquet ({brief}); write it again.") from None
    for name in (position, *names):
        if name not in columns:
            raise DataError(
                f"moves: files must have a column {position!r} and one for each feature, as plan.write_moves "
                f"writes them, got {file} without {shown(name)}.{nearest(name, columns)}"
            )
    places = read_table(file, columns=[position]).column(0).to_numpy()
    if places.dtype.kind not in "iu" or (places.size and (places[0] < 0 or (np.diff(places) <= 0).any())):
        raise DataError(f"moves: {position!r} must count people from 0, each once and in order, got others in {file}.")
    return places


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
