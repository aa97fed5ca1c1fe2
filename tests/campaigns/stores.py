"""Damaged and crafted stores of studies: each is read as it is, or refused in one clear line, and none hangs.

Bytes are flipped, files cut, tables and columns dropped, cells filled with values of any type and length, meta with any
JSON or none, versions changed, views and triggers laid, claims made that no process lets go, and the store or one of
its neighbours is a pipe, a socket, a device, a folder or a ring of links.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import traceback
from contextlib import closing, contextmanager
from pathlib import Path

import oar
from oar.studies.store import leases
from oar.studies.store.database import TABLES

from .tally import Tally, parser

LONGEST = 60  # seconds that a look at a store may take
VALUES = (None, -1, 0, 2**63 - 1, -1e308, 1e308, float("inf"), "", "x", "=1+1", "[" * 5000, b"", b"\xff\xfe", "\ud800?")
NEVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
AXES = {"budgets": [0.2, 0.6], "participation": [0.5, 1.0], "seeds": [0, 1]}


def asked() -> oar.Problem:
    """Return a small problem, solved from class sums alone."""
    from support.study_problems import problem

    return problem()


def undisturbed(folder: Path) -> Path:
    """Return a store in which some cells are done, some pending, and one is claimed by somebody who died."""
    path = folder / "whole.db"
    oar.study(asked(), **AXES, store=path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE cells SET status = 'pending', success = NULL WHERE rowid IN (2, 5)")
        connection.execute("UPDATE cells SET status = 'running', claim = '{}', heartbeat = 0 WHERE rowid = 7")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def flipped(rng: random.Random, path: Path) -> None:
    """Change some bytes, anywhere or near the beginning."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 3, 30, 300))):
        at = rng.randrange(rng.choice((len(content), 200, 4096)) % (len(content) + 1) or len(content))
        content[at] = rng.randrange(256)
    path.write_bytes(content)


def cut(rng: random.Random, path: Path) -> None:
    """Leave a part of a file, or put something after it."""
    content = path.read_bytes()
    kept = content[: rng.randrange(len(content))]
    path.write_bytes(kept + rng.choice((b"", b"", rng.randbytes(5000), bytes(5000))))


def pages(rng: random.Random, path: Path) -> None:
    """Put a page in another's place."""
    content = path.read_bytes()
    one, other = (4096 * rng.randrange(len(content) // 4096) for _ in range(2))
    path.write_bytes(content[:one] + content[other : other + 4096] + content[one + 4096 :])


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def cells(rng: random.Random, path: Path) -> None:
    """Put anything into some cells."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(rng.choice((1, 2, 5))):
            name, value = rng.choice(_columns(connection, "cells")), rng.choice((*VALUES, "x" * 10_000_000))
            value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            cast = "CAST(? AS TEXT)" if isinstance(value, bytes) and rng.random() < 0.7 else "?"
            where = rng.choice(("1", "rowid = 3"))
            try:
                connection.execute(f"UPDATE cells SET {name} = {cast} WHERE {where}", (value,))
            except sqlite3.IntegrityError:
                continue


def meta(rng: random.Random, path: Path) -> None:
    """Say something else of the problem."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        known = dict(connection.execute("SELECT name, value FROM meta"))
        name = rng.choice(list(known))
        inside = json.loads(known[name])
        if isinstance(inside, dict) and inside and rng.random() < 0.6:
            place = rng.choice(list(inside))
            inside[place] = rng.choice((None, 3, "x", [], {}, [None], {"digest": 4}, {"a": {"digest": "b"}}))
            value = json.dumps(inside)
        else:
            value = rng.choice(
                ("", "{", "null", "3", '"x"', "[]", "{}", "[1]", "NaN", "[" * 100_000, '{"a": []}', b"\xff")
            )
        rng.choice(
            (
                lambda: connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name)),
                lambda: connection.execute("DELETE FROM meta WHERE name = ?", (name,)),
                lambda: connection.execute("DELETE FROM meta"),
            )
        )()


def layout(rng: random.Random, path: Path) -> None:
    """Change tables, or lay views, triggers and columns that compute for ever."""
    table = rng.choice(("cells", "meta"))
    body = TABLES[table].partition("(")[2]
    ways = (
        [f"DROP TABLE {table}"],
        [f"ALTER TABLE {table} RENAME TO other"],
        [f"ALTER TABLE {table} ADD COLUMN more"],
        ["ALTER TABLE cells RENAME COLUMN loss TO lost"],
        ["ALTER TABLE cells DROP COLUMN loss"],
        ["CREATE TABLE more (x)"],
        [f"DROP TABLE {table}", f"CREATE VIEW {table} AS {NEVER}"],
        [f"CREATE VIEW more AS {NEVER}"],
        [f"CREATE TRIGGER t AFTER UPDATE ON cells BEGIN INSERT INTO meta SELECT x, x FROM ({NEVER}); END"],
        ["CREATE INDEX i ON cells (length(model))"],
        [f"DROP TABLE {table}", f"CREATE TABLE {table} ({body[:-1]}, CHECK ((SELECT 1)))"],
        [f"DROP TABLE {table}", f"CREATE TABLE {table} (x AS (1))"],
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in rng.choice(ways):
            try:
                connection.execute(statement)
            except sqlite3.OperationalError:
                pass


def versions(rng: random.Random, path: Path) -> None:
    """Say that it is of another format, or of another program."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            f"PRAGMA {rng.choice(('user_version', 'application_id'))} = {rng.choice((0, -1, 2, 2**31 - 1, -(2**31)))}"
        )


def claimed(rng: random.Random, path: Path) -> None:
    """Have cells claimed by processes that live, and will never answer, or by none."""
    own = json.loads(leases.own_lease())
    first = own | {"pid": 1, "born": leases._born(1)}
    claim = rng.choice((first, own | {"pid": rng.choice((0, -1, 10**30, "x", None, [1]))}, [], "x", {"host": []}))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        text = "[" * 50_000 if rng.random() < 0.1 else json.dumps(claim)
        beat = rng.choice((None, 0.0, 1e300, -1e300, "x"))
        connection.execute("UPDATE cells SET status = 'running', claim = ?, heartbeat = ?", (text, beat))


def places(rng: random.Random, path: Path) -> None:
    """Put something else than a file in the place of the store, or of one of its neighbours."""
    target = rng.choice((path, path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")))
    target.unlink(missing_ok=True)
    rng.choice(
        (
            lambda: os.mkfifo(target),
            lambda: target.mkdir(),
            lambda: target.symlink_to(target),
            lambda: target.symlink_to("/dev/zero"),
            lambda: target.symlink_to("/nowhere/at/all"),
            lambda: _bound(target),
            lambda: target.write_bytes(rng.randbytes(rng.choice((1, 100, 40_000)))),
        )
    )()


def _bound(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        before = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            listening.bind(path.name)
        finally:
            os.chdir(before)


DAMAGERS = (flipped, flipped, cut, pages, cells, cells, meta, meta, layout, versions, claimed, places)


@contextmanager
def within(seconds: int):
    """Raise where something hangs."""

    def late(*_):
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def looked_at(path: Path) -> str | None:
    """Return what went wrong where a store was read, drawn up as a table and gone on with; None where nothing did."""

    def read() -> None:
        study = oar.results.Study.open(path)
        study.table()
        study.success_rate()
        study.to_csv(path.parent / "cells.csv")
        str(study)

    for what in (read, lambda: oar.study(asked(), **AXES, store=path, workers=1)):
        try:
            with within(LONGEST):
                what()
        except oar.errors.StorageError as error:
            if "\n" in str(error) or len(str(error)) > 2_000:
                return f"not one line: {str(error)[:200]!r}"
        except Exception:
            return traceback.format_exc()
    return None


def attack(seed: int, whole: Path) -> tuple[str, str | None]:
    """Damage a copy of a store in one way, and look at it."""
    rng = random.Random(seed)
    damage = rng.choice(DAMAGERS)
    with tempfile.TemporaryDirectory(prefix="oar-stores-") as folder:
        path = Path(folder) / "study.db"
        shutil.copy(whole, path)
        damage(rng, path)
        return damage.__name__, looked_at(path)


def main(arguments: list[str] | None = None) -> int:
    """Attack until the time or the number is used up; return 1 where something failed."""
    given = parser("stores", __doc__ or "").parse_args(arguments)
    minutes = 2.0 if given.minutes is None and given.number is None else given.minutes
    tally = Tally("stores", minutes=minutes, number=given.number)
    with tempfile.TemporaryDirectory(prefix="oar-stores-") as folder:
        whole = undisturbed(Path(folder))
        while tally.goes_on():
            seed = given.seed * 1_000_000 + tally.tried
            damage, wrong = attack(seed, whole)
            tally.note(wrong is None, f"{damage}, seed {seed}: {wrong}")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
