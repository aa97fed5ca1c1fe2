"""Files that are either whole or not there: atomic writes."""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from oar.errors import StorageError

# There is no such lock on Windows, and nothing is swept there.
_locks: Any = importlib.import_module("fcntl") if os.name == "posix" else None
OWNERS, EVERYBODYS = 0o600, 0o666  # as the umask has it, the second as a plain open() would


@contextmanager
def replace_atomically(path: Path, private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a binary file that takes `path`'s place only if the block ends without an exception.

    The bytes go to a temporary neighbour first, so a reader (or a kill) never meets half a file. Whoever writes holds a
    lock on its neighbour, so that one which a killed run left behind is known by its name and its open lock, and the
    next write to `path` takes it away.

    A `private` file, of people's own values, can be read by its owner alone, from its first byte on; one that replaces
    another keeps that one's mode, as every file does.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = _neighbour(path, OWNERS if private else EVERYBODYS)
    except OSError as error:
        raise StorageError(
            f"cannot write to {path.parent}: {error.strerror}. Choose a folder you can write to."
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            try:  # with the lock held to the end: nobody else may take the file for a killed run's
                yield file
                file.flush()
                os.fsync(file.fileno())
                _keep_mode(file.fileno(), path)
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}. Make room, or choose another place.") from error


def write_text(path: str | os.PathLike[str], text: str, private: bool = False) -> None:
    """Write a text; the file is replaced whole or not at all, and folders that are missing are made."""
    with replace_atomically(Path(path), private) as file:
        file.write(text.encode())


def _keep_mode(descriptor: int, path: Path) -> None:
    """Let a file that is replaced stay as private, or as public, as it was."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if hasattr(os, "fchmod") and stat.S_ISREG(mode):
            os.fchmod(descriptor, stat.S_IMODE(mode))


def _neighbour(path: Path, mode: int) -> tuple[int, Path]:
    """Make a file beside `path` that nobody else writes to, with a mode of which the umask takes its part."""
    number = 0
    while True:
        made = path.parent / unfinished_name(path.name, number)
        with suppress(FileExistsError):
            return _made(made, mode), made
        if _abandoned(made):
            made.unlink(missing_ok=True)
        else:
            number += 1


def unfinished_name(name: str, number: int) -> str:
    """Return what a file is called while it is written: a name that only this function gives."""
    known = hashlib.blake2b(f"oar unfinished {number} {name}".encode(), digest_size=8).hexdigest()
    return f".{name.encode()[:200].decode(errors='ignore')}.{known}"


def _made(path: Path, mode: int) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), mode)
    lock(descriptor)
    try:
        there = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        there = False
    if there:
        return descriptor
    os.close(descriptor)  # swept by somebody else before it was locked
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _abandoned(path: Path) -> bool:
    """Report whether nobody writes to an unfinished file any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        return lock(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait: bool = False) -> bool:
    """Lock an open file for as long as it is open; False where somebody else has, or where there are no locks."""
    if _locks is None:
        return False
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | (0 if wait else _locks.LOCK_NB))
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Have the disk keep what is in a folder, names included; where folders cannot be synchronised, nothing is done."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
