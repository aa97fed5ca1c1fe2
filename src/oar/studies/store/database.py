"""The store: one SQLite file in WAL mode, which is intact after every kill, and which several processes may share.

`cells` has a row for each cell from the start: pending, running (with its lease), done or failed. The process with its
lease writes a cell once, in one transaction. `meta` identifies the problem and the format. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oar.checks import is_whole
from oar.errors import StorageError
from oar.studies.cells import AXES, MOST, Cell
from oar.studies.rows import FACTS, Row
from oar.studies.store.leases import BEAT, lives, own_lease
from oar.studies.store.validation import LONGEST, check_cells, check_layout, check_place, in_time, read_meta
from oar.version import __version__

FORMAT = 1
MARK = 0x4F415253  # "OARS", by which SQLite files say what they are
PATIENCE = 60.0  # seconds to wait while another process writes

_CELLS = f"""CREATE TABLE cells (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, query TEXT NOT NULL, budget REAL, participation REAL, seed INTEGER,
    status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'done', 'failed')),
    claim TEXT, heartbeat REAL, seconds REAL, error TEXT,
    {", ".join(FACTS).replace("status", "outcome")}
)"""
TABLES = {"meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)", "cells": _CELLS}
DAMAGE = ("no such", "Could not decode", "malformed")  # how SQLite begins where a file is to blame
_COLUMNS = ["outcome" if name == "status" else name for name in FACTS]


class Store:
    """A study's file, open; use it in a `with` block."""

    def __init__(self, path: Any, *, create: bool = False) -> None:
        """Open a study, or make a new file for one; raise for a file that is none, damaged, or of a newer format."""
        if not isinstance(path, str | os.PathLike):
            raise StorageError(f'store: must be the path of a file, such as "study.db", got {path!r}.')
        self.path, self.lease = Path(path), own_lease()
        check_place(self.path, create)
        with self._told():
            self._connection = sqlite3.connect(self.path.absolute(), timeout=PATIENCE, isolation_level=None)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            self._connection.execute("PRAGMA trusted_schema = OFF")
        try:
            with self._told(), in_time(self._connection):
                self._check(create)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _check(self, create: bool) -> None:
        """Refuse a file without a study; an empty file, left by a kill, is new."""
        self._connection.execute("BEGIN")  # one look at everything: another process may be making the tables just now
        (tables,) = self._one("SELECT count(*) FROM sqlite_master")
        (mark,), (version,) = self._one("PRAGMA application_id"), self._one("PRAGMA user_version")
        self._connection.execute("COMMIT")
        if mark != MARK:
            if tables or mark or not create:
                found = (
                    "is another kind of database; name another" if tables or mark else "is empty; run the study first"
                )
                raise StorageError(f"store: must be a study's file, got {self.path}, which {found}.")
        else:
            if version > FORMAT:
                raise StorageError(
                    f"store: {self.path} is in format {version}, of a newer version of oar (this is {__version__}, "
                    f"which knows up to format {FORMAT}); upgrade oar, or name another store."
                )
            if version < 1:
                raise sqlite3.DatabaseError(f"format {version}")
            check_layout(self._connection, TABLES)  # before anything is read that might be a program
            # Whoever writes goes by the keys' index, which must then be of the very keys that are in the table.
            (damage,) = self._one(f"PRAGMA {'integrity' if create else 'quick'}_check(1)")
            if damage != "ok":
                raise sqlite3.DatabaseError(damage)
            check_cells(self._connection)
            read_meta(self._connection)
        if create and self._journal() != "wal":
            raise StorageError(
                f"store: {self.path} is where SQLite cannot share files between processes, as on a network drive; "
                "name a file on a local disk."
            )
        # In WAL mode a kill loses nothing that was committed; a power cut may lose the last commits, and no more.
        self._connection.execute("PRAGMA synchronous=NORMAL")

    def _journal(self) -> str:
        """Change to WAL mode, for which SQLite itself does not wait where another process does the same just now."""
        patient = time.monotonic() + PATIENCE
        while True:
            try:
                return str(self._one("PRAGMA journal_mode=WAL")[0])
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > patient:
                    raise
                time.sleep(0.02)

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(statement, values).fetchone()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite says into what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if str(error).startswith(DAMAGE):
                raise self._damaged(error) from error
            raise StorageError(
                f"store: cannot use {self.path}: {error}. Make room, or name a file that you may write to; what was "
                "finished before is kept."
            ) from error
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError, OverflowError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StorageError:
        words = " ".join(str(error).split())[:200]
        return StorageError(
            f"store: must be a study's file, got {self.path}, which is damaged or is none ({words}); restore a copy of "
            "it, or name another."
        )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write all of a block or nothing of it, while nobody else writes."""
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself takes everything back where the disk is full
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def meta(self) -> dict[str, Any]:
        """Return the stored parts of the problem, by name; nothing for a new file."""
        with self._told():
            if not self._one("SELECT count(*) FROM sqlite_master WHERE name = 'meta'")[0]:
                return {}
            return read_meta(self._connection)

    @contextmanager
    def founding(self) -> Iterator[dict[str, Any]]:
        """Yield the stored parts of the problem, to be checked and extended; then store them, unless the block raises.

        The block is exclusive: if two processes begin a study at once, the second finds what the first stored.
        """
        with self._writing() as connection:
            if not self._one("SELECT count(*) FROM sqlite_master")[0]:
                for table in TABLES.values():
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {MARK}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            known = self.meta()
            yield known
            known = {"format": FORMAT, "version": __version__} | known
            for name, value in known.items():
                text = json.dumps(value, ensure_ascii=False, sort_keys=True)
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))

    @property
    def begun(self) -> bool:
        """Whether any cell is finished or running."""
        with self._told():
            return bool(self._one("SELECT count(*) FROM cells WHERE status != 'pending'")[0])

    def forget(self) -> None:
        """Drop all cells, and the stored parts of their problem; within `founding`."""
        self._connection.execute("DELETE FROM cells")
        self._connection.execute("DELETE FROM meta")

    def add(self, cells: Iterable[Cell]) -> None:
        """Add new cells as pending."""
        rows = [(cell.key, *(getattr(cell, name) for name in AXES)) for cell in cells]
        with self._writing() as connection:
            connection.executemany(
                f"INSERT OR IGNORE INTO cells (key, {', '.join(AXES)}) VALUES (?, ?, ?, ?, ?, ?)", rows
            )

    def take(self, cells: Sequence[Cell]) -> list[Cell]:
        """Claim the pending ones among these cells, and return them."""
        with self._writing() as connection:
            return [
                cell
                for cell in cells
                if connection.execute(
                    "UPDATE cells SET status = 'running', claim = ?, heartbeat = ? "
                    "WHERE key = ? AND status = 'pending'",
                    (self.lease, time.time(), cell.key),
                ).rowcount
            ]

    def finish(self, cells: Sequence[Cell], answers: Sequence[Row], seconds: float) -> None:
        """Write answers of cells that this process leases, all or none; {"error": text} where there was no answer.

        Cells that another process has claimed since, for example while this machine slept, are left to it.
        """
        with self._writing() as connection:
            for cell, answer in zip(cells, answers, strict=True):
                failed = "error" in answer
                names = ["error"] if failed else _COLUMNS
                values = [answer["error"]] if failed else [answer[name] for name in FACTS]
                assigned = ", ".join(f"{name} = ?" for name in names)
                connection.execute(
                    f"UPDATE cells SET status = ?, seconds = ?, claim = NULL, heartbeat = NULL, {assigned} "
                    "WHERE key = ? AND status = 'running' AND claim = ?",
                    ("failed" if failed else "done", seconds, *values, cell.key, self.lease),
                )

    def release(self, *leases: str | None) -> int:
        """Release the unfinished cells of some leases, or else of this process; return their number."""
        free = (
            "UPDATE cells SET status = 'pending', claim = NULL, heartbeat = NULL WHERE status = 'running' "
            "AND claim IS ?"
        )
        with self._writing() as connection:
            return sum(connection.execute(free, (lease,)).rowcount for lease in leases or (self.lease,))

    def release_dead(self) -> int:
        """Release the cells of dead processes; return their number."""
        with self._told():
            leases = self._connection.execute(
                "SELECT claim, max(heartbeat) FROM cells WHERE status = 'running' GROUP BY claim"
            ).fetchall()
        dead = [lease for lease, beat in leases if lease != self.lease and not lives(lease or "", beat, self.path)]
        return self.release(*dead) if dead else 0

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Record at intervals that this process is alive, from a thread and a connection of their own, in the block."""
        ended = threading.Event()
        alive = "UPDATE cells SET heartbeat = ? WHERE status = 'running' AND claim = ?"

        def keep_on() -> None:
            while not ended.wait(BEAT):
                try:
                    with Store(self.path) as own, own._writing() as connection:
                        connection.execute(alive, (time.time(), self.lease))
                except StorageError:
                    continue  # a busy moment; whoever writes answers will say if it lasts

        thread = threading.Thread(target=keep_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def states(self) -> dict[str, str]:
        """Return the state of every cell, by its key."""
        with self._told():
            return dict(self._connection.execute("SELECT key, status FROM cells"))

    def times(self) -> list[tuple[str, str, float]]:
        """Return the key, the model and the seconds of every finished cell."""
        with self._told():
            return self._connection.execute(
                "SELECT key, model, seconds FROM cells WHERE status IN ('done', 'failed') AND seconds IS NOT NULL"
            ).fetchall()

    def rows(self) -> list[dict[str, Any]]:
        """Return the full row of every cell."""
        names = [*AXES, "status", *_COLUMNS, "error", "seconds"]
        with self._told():
            found = self._connection.execute(f"SELECT key, {', '.join(names)} FROM cells").fetchall()
        return [dict(zip(names, row[1:], strict=True)) | self._in_key(row[0]) for row in found]

    def _in_key(self, key: str) -> dict[str, Any]:
        """Return the part of a cell that only its key tells: how many labels or leavers, where it says so."""
        try:
            said = json.loads(key).get(MOST)
        except (ValueError, AttributeError, RecursionError) as error:
            raise self._damaged(error) from error
        if not (said is None or is_whole(said) and 0 <= said < 2**63):
            raise self._damaged(ValueError(f"{MOST} {said!r}"))
        return {MOST: said}
