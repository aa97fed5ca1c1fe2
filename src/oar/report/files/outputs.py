"""A folder of results that is either whole or as it was before."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from oar.errors import StorageError
from oar.report.files.replacing import hidden_folder, place_all, undisturbed


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
def staged(out: Path, last: str, others: Collection[str] = (), *, ours: Collection[str]) -> Iterator[Path]:
    """Yield a hidden folder; its files come to `out` only if the block ends without an exception, and then together.

    The folder lies beside `out` or inside, so that it is on the same disk, and so that trying to make it tells at once
    whether `out` can be written to. A kill leaves `out` as it was, or as it is to be; in a folder with somebody else's
    files it may take the next command to see to that, and until then there is no file called `last`. After an exception
    `out` is as it was; if it was not there, it is not there.

    Args:
        out: the folder to write to.
        last: the name of the file that comes last.
        others: names of files that a run may write but this one may not: where an older run's `last` is replaced, its
            `others` go with it, for they would seem to belong to the new one. Without an older `last` they stay.
        ours: the names of all files that such a run may write: what a killed one had begun is finished for these alone.
    """
    out = Path(out).absolute()
    try:
        with leaving_no_empty_folders(out), _opened(out, ours) as folder:
            yield folder
            with undisturbed():
                place_all(folder, out, last, others, ours)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"out: cannot write to {out} ({error.strerror}). Make room, or choose another folder."
        ) from error


@contextmanager
def _opened(out: Path, ours: Collection[str]) -> Iterator[Path]:
    """Make the hidden folder at once."""
    with ExitStack() as held:
        try:
            if out.exists() and not out.is_dir():
                raise NotADirectoryError(20, "a file is in the way")
            if out.exists() and not os.access(out, os.W_OK):
                raise PermissionError(13, os.strerror(13))
            folder = held.enter_context(hidden_folder(out, ours))
        except OSError as error:
            raise StorageError(
                f"out: must be a folder that can be written to, got {out} ({error.strerror}). Choose another one."
            ) from error
        yield folder
