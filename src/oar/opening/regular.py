"""Regular files: a path is checked before it is opened, as a pipe would wait for ever and a device never ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from oar.errors import StorageError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def regular(path: Any, argument: str = "") -> Path:
    """Return the path of a regular file; raise a StorageError, which begins with the argument's name, for any other."""
    said = f"{argument}: " if argument else ""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise StorageError(f"{said}{path} does not exist.") from None
    except (OSError, ValueError) as error:  # a loop of links, no right to look, a name that no file can have
        raise StorageError(f"{said}{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not stat.S_ISREG(mode):
        what = KINDS.get(stat.S_IFMT(mode), "something else")
        raise StorageError(f"{said}{path} cannot be read: it must be a file, got {what}.")
    return Path(path)


@contextmanager
def opened(path: Any, argument: str = "") -> Iterator[IO[bytes]]:
    """Yield a regular file's bytes; whatever the system says against reading them is a StorageError."""
    file = regular(path, argument)
    try:
        with open(file, "rb") as bytes_of:
            yield bytes_of
    except StorageError:
        raise
    except OSError as error:
        said = f"{argument}: " if argument else ""
        raise StorageError(f"{said}{file} cannot be read: {error.strerror or error}.") from error
