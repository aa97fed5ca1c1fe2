"""Files that are either whole or not there: atomic writes, and reads that say what is wrong."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from oar.errors import StorageError


@contextmanager
def replace_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary file that takes `path`'s place only if the block ends without an exception.

    The bytes go to a temporary neighbour first, so a reader (or a kill) never meets half a file.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StorageError(
            f"cannot write to {path.parent}: {error.strerror}. Choose a folder you can write to."
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; give the mode that a plain open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror}. Make room, or choose another place.") from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_npz(path: Path) -> dict[str, NDArray]:
    """Read every array of an npz file, without pickle; a damaged file is named."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise StorageError(f"{path} is damaged or is not an npz file: {error}") from error
