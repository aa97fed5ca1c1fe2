"""Scratch files of people who are not in memory: their moved features, kept between passes.

Everything here can be computed again from the walk that led to it (`walk`), so that nothing is lost with it: it only
saves time. Each process has a folder of its own for each run, to which moves are written; files are written whole under
another name and then renamed, so that one that is there is complete. What every pass asks for (moved features, in the
form that passes want) is kept in memory as long as it fits into MEMORY, and made again where it does not: that takes
less time than a disk would.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import StorageError

RUNS = 4  # of which a process keeps something; an older one would have to walk again
VERSIONS = 2  # of moves: the last accepted ones, and those on trial
PREFIX = "oar-scratch-"
MARK = ".oar-scratch"  # a file by which a folder is known to be one of these, and nobody's own
MEMORY = 256_000_000  # bytes of arrays that a process keeps in memory
Name = tuple[str, int, str]  # of an array: the run, the first person, and what it is

_folders: dict[str, Path] = {}
_written: dict[Name, list[Path]] = {}
_held: dict[Name, tuple[str, NDArray[Any]]] = {}
_lock = threading.Lock()


def folder_of(run: str) -> Path:
    """Return this process's folder for a run; made where there is none yet.

    It is in the worker's own directory where this is a Dask worker, else where temporary files go (TMPDIR).
    """
    with _lock:
        if run in _folders and _folders[run].is_dir():
            return _folders[run]
        old = list(_folders)[: -(RUNS - 1)]
    for one in old:
        clear(one)
    with _lock:
        if run not in _folders or not _folders[run].is_dir():
            place = _place() or tempfile.gettempdir()
            _remove_orphans(Path(place))
            made = Path(tempfile.mkdtemp(prefix=f"{_owner()}-{os.getpid()}-", dir=place))
            (made / MARK).touch()
            _folders[run] = made
        return _folders[run]


def _owner() -> str:
    """Return what this machine's folders begin with."""
    host = "".join(letter if letter.isalnum() else "_" for letter in socket.gethostname())
    spaces = Path("/proc/self/ns/pid")  # containers of one name may have processes of the same numbers
    return f"{PREFIX}{host}_{spaces.stat().st_ino if spaces.exists() else 0}"


def _remove_orphans(place: Path) -> None:
    """Remove what processes of this machine left behind that were killed: folders of ours, with our mark in them."""
    if not Path("/proc/self").exists():
        return
    for folder in place.glob(f"{_owner()}-*-*"):
        pid = folder.name.removeprefix(f"{_owner()}-").split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        owner = folder.lstat()
        return stat.S_ISDIR(owner.st_mode) and owner.st_uid == os.getuid() and (folder / MARK).is_file()
    except OSError:
        return False


def _place() -> str | None:
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def clear(run: str) -> None:
    """Forget a run, and remove this process's folder for it."""
    with _lock:
        folder = _folders.pop(run, None)
        for kept in (_written, _held):
            for name in [one for one in kept if one[0] == run]:
                del kept[name]
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def clear_all() -> None:
    """Forget all runs, and remove this process's folders."""
    for run in list(_folders):
        clear(run)


class Scratch:
    """The arrays of some people, called by the position of the first of them, in one run."""

    def __init__(self, run: str, first: int) -> None:
        self._run, self._first = run, first

    # In memory

    def kept(self, what: str, key: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return an array that is in memory, or make it, and keep it in the place of others of its kind if it fits."""
        name = self._run, self._first, what
        known, found = _held.get(name, (None, np.empty(0)))
        if known == key:
            return found
        found = make()
        with _lock:
            _held.pop(name, None)
            if found.nbytes + sum(other.nbytes for _, other in _held.values()) <= MEMORY:
                _held[name] = key, found
        return found

    # On disk

    def read(self, what: str, key: str, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
        """Return an array, mapped and not read until it is looked at; None where it is not there."""
        try:
            return np.asarray(np.memmap(self._path(what, key), dtype=np.float64, mode="r", shape=shape))
        except (FileNotFoundError, ValueError):  # or one that is shorter
            return None

    def write(self, what: str, key: str, values: NDArray[np.float64], beside: str = "") -> None:
        """Keep an array on disk beside another one, or beside the one that was written before it."""
        path = self._path(what, key)
        unfinished = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        try:
            values.tofile(unfinished)
            os.replace(unfinished, path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, None):
                raise
            raise StorageError(
                f"{path.parent.parent} is full: people in parts need {VERSIONS} times the size of their features, as "
                "8-byte numbers, on disk while they are planned for; free some, or set TMPDIR to a larger place."
            ) from None
        versions = _written.setdefault((self._run, self._first, what), [])
        other = self._path(what, beside)
        # The newest is last, and before it what is wanted beside it; what else was tried from there goes first
        versions.sort(key=lambda one: one == other)
        versions[:] = [*(one for one in versions if one != path), path]
        while len(versions) > VERSIONS:
            versions.pop(0).unlink(missing_ok=True)

    def _path(self, what: str, key: str) -> Path:
        return folder_of(self._run) / f"{self._first}-{what}-{key}.kept"


class ReadOnlyScratch(Scratch):
    """The same, for who only looks: nothing is kept, and no folder made."""

    def kept(self, what: str, key: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Make the array: those that others hold are filled up to another size."""
        return make()

    def write(self, what: str, key: str, values: NDArray[np.float64], beside: str = "") -> None:
        """Forget it."""

    def _path(self, what: str, key: str) -> Path:
        return _folders.get(self._run, Path("gone")) / f"{self._first}-{what}-{key}.kept"
