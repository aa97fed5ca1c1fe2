"""Arrays of people who are not in memory, kept on disk between passes: where they have moved to, and their gradients.

Everything here can be computed again from the walk that led to it (`walk`), so that nothing is lost with it: it only
saves time. Each process has a folder of its own for each run; files are written whole under another name and then
renamed, so that one that is there is complete.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import StorageError

# Versions of an array that are kept: of moves the last accepted ones, those before, and those on trial
KEPT = {"moves": 3, "ahead": 2, "moved": 2, "labels": 1, "weights": 1}
RUNS = 4  # of which a process keeps something; an older one would have to walk again
_folders: dict[str, Path] = {}
_versions: dict[tuple[str, int, str], list[Path]] = {}
_making = threading.Lock()


def folder_of(run: str) -> Path:
    """Return this process's folder for a run; made where there is none yet.

    It is in the worker's own directory where this is a Dask worker, else where temporary files go (TMPDIR).
    """
    with _making:
        if run not in _folders or not _folders[run].is_dir():
            for old in list(_folders)[: -(RUNS - 1)]:
                clear(old)
            _folders[run] = Path(tempfile.mkdtemp(prefix=f"oar-{run}-", dir=_place()))
        return _folders[run]


def _place() -> str | None:
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def clear(run: str) -> None:
    """Remove this process's folder for a run."""
    folder = _folders.pop(run, None)
    if folder is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    for known in [one for one in _versions if one[0] == str(folder)]:
        _versions.pop(known, None)


def cleared_with(owner: object, run: str) -> None:
    """Remove this process's folder for a run when its owner is gone, or when the process ends."""
    weakref.finalize(owner, clear, run)


class Scratch:
    """The arrays of some people, called by the position of the first of them, in one run."""

    def __init__(self, run: str, first: int) -> None:
        self._folder, self._first = folder_of(run), first

    def read(self, what: str, key: str, shape: tuple[int, ...], kind: Any = np.float64) -> NDArray[Any] | None:
        """Return an array, mapped and not read until it is looked at; None where it is not there."""
        try:
            return np.asarray(np.memmap(self._path(what, key), dtype=kind, mode="r", shape=shape))
        except (FileNotFoundError, ValueError):  # or one that somebody else has cut off
            return None

    def write(self, what: str, key: str, values: NDArray[Any]) -> None:
        """Keep an array, and the latest few others of its kind."""
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
                f"{self._folder.parent} is full: people in parts need up to {sum(KEPT.values())} times the size of "
                "their features, as 8-byte numbers, on disk while they are planned for; free some, or set TMPDIR to "
                "a larger place."
            ) from None
        versions = _versions.setdefault((str(self._folder), self._first, what), [])
        if path not in versions:
            versions.append(path)
        while len(versions) > KEPT[what]:
            versions.pop(0).unlink(missing_ok=True)

    def _path(self, what: str, key: str) -> Path:
        return self._folder / f"{self._first}-{what}-{key}.kept"


class Kept(Scratch):
    """The same, for who only looks: nothing is written, and no folder made."""

    def __init__(self, run: str, first: int) -> None:
        self._folder, self._first = _folders.get(run, Path("gone")), first

    def write(self, what: str, key: str, values: NDArray[Any]) -> None:
        """Forget it."""
