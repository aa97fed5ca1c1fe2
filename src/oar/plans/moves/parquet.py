"""Moves as Parquet files, part by part: files are whole, and writing can go on where it ended.

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

from oar.errors import StorageError
from oar.files import replace_atomically
from oar.people import Chunk, Population
from oar.people.labels import LabelCoding
from oar.people.parts.arrays import PART_ROWS
from oar.people.parts.parquet import need_pyarrow
from oar.people.parts.part import Part
from oar.people.parts.population import StreamedPopulation, chunks_of

if TYPE_CHECKING:
    from oar.plans.plan import Plan

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
    place, mark, columns = _place(folder), _mark(plan), columns_of_files(people)
    if isinstance(people, StreamedPopulation):
        plan.check_files()
        coding = None if plan.problem.regresses else people.coding
        writing = _Writing(str(place), mark, columns, plan.mover(), coding, plan.rows_at_a_time)
        numbers = dict(zip(people.starts, range(len(people.parts)), strict=True))
        _refuse_others(writing, len(people.parts))
        return [Path(one) for one in people.mapped(_write_part, writing, numbers, contents=plan.contents)]
    chunks = people.chunks(PART_ROWS)
    writing = _Writing(str(place), mark, columns, plan, None, PART_ROWS)
    _refuse_others(writing, -(-people.size // PART_ROWS))
    return [_write(writing, number, [chunk]) for number, chunk in enumerate(chunks)]


def columns_of_files(people: Population) -> tuple[str, ...]:
    """Return the columns of files of moves: positions, by a name that no feature has, and the features."""
    names = people.names or tuple(f"x{place}" for place in range(people.dimensions))
    position = POSITION
    while position in names:
        position += "_"
    return (position, *names)


def _place(folder: Any) -> Path:
    """Make the folder where there is none."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {place}: {error.strerror}. Choose a folder you can write to.") from error
    return place


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
        with (
            replace_atomically(path, private=True) as file,
            ParquetWriter(file, schema, write_page_checksum=True) as writer,
        ):
            for chunk in chunks:
                moves = writing.mover.of_chunk(chunk)
                columns = [np.arange(chunk.start, chunk.stop), *np.ascontiguousarray(moves.T)]
                writer.write_table(pyarrow.table(columns, schema=schema))
    except StorageError as error:
        raise StorageError(
            f"{error} The parts that are there are whole: write_moves with the same folder goes on with the others."
        ) from None
    return path
