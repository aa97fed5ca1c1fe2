"""Everyone's moves as Parquet files, part by part: what is written is whole, and writing can go on where it ended.

A file is written under another name and renamed when it is complete, and says in its own metadata which plan and which
people it is for. Writing again skips what is there, so that a run that was killed, or ran out of disk, is finished by
the same call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oar.errors import StorageError
from oar.files import replace_atomically
from oar.people import Chunk
from oar.people.labels import LabelCoding
from oar.people.parquet import need_pyarrow
from oar.people.parts import Part
from oar.people.streamed import PART_ROWS, StreamedPopulation, chunks_of

if TYPE_CHECKING:
    from oar.plans.plan import Plan

POSITION = "position"
MARK = b"oar.moves"


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
    names = people.names or tuple(f"x{place}" for place in range(people.dimensions))
    names = tuple(f"{name}_" if name == POSITION else name for name in names)
    place = _place(folder)
    mark = _mark(plan)
    if isinstance(people, StreamedPopulation):
        coding = None if people.labels_are_values else people.coding
        writing = _Writing(str(place), mark, names, plan.mover(), coding, plan.rows_at_a_time)
        numbers = dict(zip(people.starts, range(len(people.parts)), strict=True))
        _refuse_others(writing, len(people.parts))
        return [Path(one) for one in people.mapped(_write_part, writing, numbers)]
    chunks = people.chunks(PART_ROWS)
    writing = _Writing(str(place), mark, names, plan, None, PART_ROWS)
    _refuse_others(writing, -(-people.size // PART_ROWS))
    return [
        _write(writing, number, ((one, plan.of_chunk(one)) for one in (chunk,))) for number, chunk in enumerate(chunks)
    ]


def _place(folder: Any) -> Path:
    """Make the folder where there is none, and remove what a run that was killed left unfinished in it."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for unfinished in place.glob(".part-*.parquet.*"):
            unfinished.unlink(missing_ok=True)
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
        if file not in known or _marked(file) not in (writing.mark, None):
            raise StorageError(
                f"{writing.folder} holds {file.name}, which is not of this plan; choose an empty folder, or remove it."
            )


def _marked(file: Path) -> str | None:
    """Return which plan a file is of; None where it cannot be read, so that it is written again."""
    import pyarrow
    from pyarrow.parquet import read_schema

    try:
        return (read_schema(file).metadata or {}).get(MARK, b"").decode()
    except (pyarrow.ArrowException, OSError):
        return None


def _write_part(part: Part, start: int, writing: _Writing, numbers: dict[int, int]) -> str:
    """Write one part, unless it is there."""
    path = writing.path(numbers[start])
    if path.exists() and _marked(path) == writing.mark:
        return str(path)
    chunks = chunks_of(part.read(), start, writing.coding, writing.rows)
    moved = ((chunk, writing.mover.of_chunk(chunk)) for chunk in chunks)
    return str(_write(writing, numbers[start], moved))


def _write(writing: _Writing, number: int, moved: Iterator[tuple[Chunk, Any]]) -> Path:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    path = writing.path(number)
    if path.exists() and _marked(path) == writing.mark:
        return path
    fields = [(POSITION, pyarrow.int64()), *((name, pyarrow.float64()) for name in writing.names)]
    schema = pyarrow.schema(fields, metadata={MARK: writing.mark.encode()})
    try:
        with replace_atomically(path) as file, ParquetWriter(file, schema, write_page_checksum=True) as writer:
            for chunk, moves in moved:
                columns = [np.arange(chunk.start, chunk.stop), *np.ascontiguousarray(moves.T)]
                writer.write_table(pyarrow.table(columns, schema=schema))
    except StorageError as error:
        raise StorageError(
            f"{error} The parts that are there are whole: write_moves with the same folder goes on with the others."
        ) from None
    return path
