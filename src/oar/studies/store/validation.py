"""Validation of a study's file before its use: against damage, and against tampering.

A database can contain programs: views, triggers, computed columns and endless conditions. Before any table is read, the
file must contain exactly the tables that a study makes, and nothing else.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oar.errors import StorageError
from oar.studies.rows import COUNTS, FLAGS, JSON, NUMBERS, TEXTS

LONGEST = 64_000_000  # bytes of one value; what is known of a problem is far shorter
MOST_SECONDS = 120.0  # for a first look at everything in a file
BETWEEN = 20_000  # steps of SQLite's between looks at the clock
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
_TEXT, _NUMBER = "('text', 'null')", "('real', 'integer', 'null')"
# What columns hold where all is well: of which types, and between which numbers.
_TYPES = (
    dict.fromkeys(("key", "model", "query", "status"), "('text')")
    | dict.fromkeys(("claim", "error", "outcome", "solver", "witness", *JSON), _TEXT)
    | dict.fromkeys(("budget", "participation", "heartbeat", "seconds", *NUMBERS), _NUMBER)
    | dict.fromkeys(("seed", *COUNTS, *FLAGS), "('integer', 'null')")
)
_RANGES = {"budget": (0, 1e300), "participation": (0, 1), "seed": (0, 2**63 - 1), "seconds": (0, 1e12)} | dict.fromkeys(
    FLAGS, (0, 1)
)
_WRONG = " OR ".join(
    [f"typeof({name}) NOT IN {kinds}" for name, kinds in _TYPES.items()]
    + [f"{name} NOT BETWEEN {low!r} AND {high!r}" for name, (low, high) in _RANGES.items()]
    + ["status NOT IN ('pending', 'running', 'done', 'failed')"]
    + [f"(status = 'done' AND {name} IS NULL)" for name in (*FLAGS, "outcome")]
)
assert set(TEXTS) - {"status"} <= set(_TYPES)


def check_place(path: Path, create: bool) -> None:
    """Raise unless a path is that of a plain file, or of one that can be created; pipes and devices never end."""
    kind = _kind_of(path)
    if kind == "folder":
        raise StorageError(f"store: must be a file, got the folder {path}; name a file in it.")
    if kind not in ("file", None):
        raise StorageError(f"store: must be a file, got {path}, which is a {kind}; name another.")
    if kind is None and not create:
        raise StorageError(f"store: must be a study's file, got {path}, which does not exist.")
    if not os.path.isdir(path.parent):  # it may be mistyped, and is not made
        raise StorageError(
            f"store: must be a file in a folder that is there, got {path}, and {path.parent} is no "
            "folder; make it first, or name another."
        )
    for neighbour in (Path(f"{path}{ending}") for ending in ("-wal", "-shm", "-journal")):
        if _kind_of(neighbour) not in ("file", None):
            raise StorageError(
                f"store: {neighbour} must be a file that belongs to {path}, got a {_kind_of(neighbour)}; remove it, or "
                "name another store."
            )


def _kind_of(path: Path) -> str | None:
    """Return the kind of file at a path, links followed; None where there is none."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            return "link to nothing"
        return None
    except (OSError, ValueError) as error:  # a ring of links, a name that cannot be
        words = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"store: must be a file, got {str(path)!r}, which cannot be looked at: {words}.") from error
    return "file" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "device")


@contextmanager
def in_time(connection: sqlite3.Connection) -> Iterator[None]:
    """Stop reading a file that takes very long, which only a malicious one does."""
    until = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > until, BETWEEN)
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise sqlite3.DatabaseError(f"not looked through within {MOST_SECONDS:g} s") from None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def check_layout(connection: sqlite3.Connection, tables: Mapping[str, str]) -> None:
    """Raise unless there are exactly these tables, by exactly these statements, and only their own indices."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    own: set[Any] = {("table", name, text) for name, text in tables.items()}
    own |= {("index", f"sqlite_autoindex_{name}_1", None) for name in tables}
    missing, more = own - set(found), set(found) - own
    if missing or more or len(found) != len(own):
        kind, name, _ = sorted(missing or more, key=str)[0] if missing or more else found[0]
        raise sqlite3.DatabaseError(f"the {kind} {name!r} is {'not as a study has it' if missing else 'no study’s'}")


def check_cells(connection: sqlite3.Connection) -> None:
    """Raise for a cell that no study writes."""
    (wrong,) = connection.execute(f"SELECT count(*) FROM cells WHERE {_WRONG}").fetchone()
    if wrong:
        raise sqlite3.DatabaseError(f"{wrong:,} cells hold what no study writes")


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the stored parts of the problem, by name; raise for anything that no study writes."""
    found: dict[str, Any] = {}
    for name, value in connection.execute("SELECT name, value FROM meta"):
        try:
            found[str(name)] = json.loads(value)
        except (ValueError, TypeError, RecursionError):
            raise sqlite3.DatabaseError(f"what is said of {str(name)[:40]!r} is no JSON") from None
    for name, shape in _SHAPES.items():
        if name in found and not _fits(found[name], shape):
            raise sqlite3.DatabaseError(f"what is said of {name!r} is not as a study says it")
    return found


def _fits(value: Any, shape: Any) -> bool:
    """Report whether JSON is of a shape: a type, a list of one, {...: one for each value}, or names, some with a ?."""
    if isinstance(shape, type):
        return isinstance(value, shape)
    if not isinstance(value, type(shape)):
        return False
    if isinstance(shape, list):
        return all(_fits(each, shape[0]) for each in value)
    if ... in shape:
        return all(_fits(each, shape[...]) for each in value.values())
    parts = {name.removesuffix("?"): part for name, part in shape.items()}
    needed = [name for name in shape if not name.endswith("?")]
    return all(name in value for name in needed) and all(
        _fits(value[name], part) for name, part in parts.items() if name in value
    )


_PART = {"digest": str, "words": str, "places?": dict, "probe?": dict, "unknown?": str, "compiled_by?": str}
_SHAPES: dict[str, Any] = {
    "format": int,
    "version": str,
    "models": [str],
    "queries": [str],
    "goals": {...: str},
    "factors": bool,
    "fingerprint": {
        "people": _PART,
        "action": _PART,
        "solver": _PART,
        "models": {...: _PART},
        "queries": {...: _PART},
    },
}
