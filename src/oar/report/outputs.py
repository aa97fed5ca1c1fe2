"""A folder of results that is either whole or as it was before."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from oar.errors import StorageError

HIDDEN = ".unfinished-"
ABANDONED = 24 * 3600  # seconds


@contextmanager
def leaving_no_empty_folders(out: Path) -> Iterator[None]:
    """After an exception, remove `out` and its parents again if they were not there before and are still empty."""
    made: list[Path] = []
    try:
        made += [folder for folder in (out, *out.parents) if not folder.exists()]
        yield
    except BaseException:
        for empty in made:  # deepest first; a folder that somebody else has filled meanwhile stays
            with suppress(OSError):
                empty.rmdir()
        raise


@contextmanager
def staged(out: Path, last: str, others: Collection[str] = ()) -> Iterator[Path]:
    """Yield a hidden folder inside `out`; its files move to `out` only if the block ends without an exception.

    The folder lies inside `out` so that it is on the same disk, and so that trying to make it tells at once whether
    `out` can be written to. The file called `last` is removed first and put in place last: where it exists, the
    others belong to it. After an exception `out` is as it was; if it was not there, it is not there.

    Args:
        out: the folder to write to.
        last: the name of the file that comes last.
        others: names of files that a run may write but this one may not: where an older run's `last` is replaced, its
            `others` go with it, for they would seem to belong to the new one. Without an older `last` they stay.
    """
    try:
        with leaving_no_empty_folders(out), _staging(out) as folder:
            yield folder
            _move_all(folder, out, last, others)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"out: cannot write to {out} ({error.strerror}). Make room, or choose another folder."
        ) from error


def _staging(out: Path) -> AbstractContextManager[Path]:
    """Make the hidden folder at once."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        folder = tempfile.TemporaryDirectory(prefix=HIDDEN, dir=out)
    except OSError as error:
        raise StorageError(
            f"out: must be a folder that can be written to, got {out} ({error.strerror}). Choose another one."
        ) from error

    @contextmanager
    def opened() -> Iterator[Path]:
        with folder as name:
            yield Path(name)

    return opened()


def _move_all(source: Path, out: Path, last: str, others: Collection[str]) -> None:
    """Put the new files in place of the old ones, and the `others` away; if one cannot be, put the old ones back."""
    old, replaced, placed = source / "old", [], []
    try:
        with _undisturbed():
            new = sorted(source.iterdir(), key=lambda path: (path.name == last, path.name))
            old.mkdir()
            stale = sorted(set(others) - {path.name for path in new}) if (out / last).exists() else []
            try:
                for path in [out / last, *(out / path.name for path in new), *(out / name for name in stale)]:
                    if path.is_dir():
                        raise IsADirectoryError(21, f"{path.name} is a folder there")
                    if path.exists():
                        os.replace(path, old / path.name)
                        replaced.append(path)
                for path in new:
                    os.replace(path, out / path.name)
                    placed.append(out / path.name)
            except OSError:
                for path in placed:
                    path.unlink()
                for path in replaced:
                    os.replace(old / path.name, path)
                raise
    except OSError as error:
        raise StorageError(f"out: cannot put the results into {out} ({error.strerror}). Choose another one.") from error


def _remove_leftovers(out: Path) -> None:
    """Remove hidden folders of runs that were killed long ago; a younger one may belong to a run that goes on."""
    for folder in out.glob(f"{HIDDEN}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait for the moment that moving the files takes; afterwards there is nothing left to interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
