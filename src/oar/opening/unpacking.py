"""Packed files, and how much they unpack to: kilobytes can hold gigabytes, and only one of both is what was meant.

And how much memory there is to unpack them into.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

from oar.errors import StorageError

MODEST = 1 << 26  # bytes that anything may unpack to
RATIO = 100  # beyond that, how many times its own size: tables of numbers and words shrink by 3 to 40


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Raise where a file would unpack to far more than it is."""
    if unpacked > MODEST and unpacked > RATIO * packed:
        raise StorageError(
            f"{name} is damaged, or made to fill the memory: it unpacks to more than {RATIO} times its {packed:,} "
            "bytes. Unpack it yourself if that is what it should hold."
        )


def available() -> int:
    """Return how many bytes this process can still take, by what the system says; where it says nothing, any number."""
    free = sys.maxsize
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024 * int(line.split()[1])
        import resource  # not on every system

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            taken = os.sysconf("SC_PAGE_SIZE") * int(Path("/proc/self/statm").read_text().split()[0])
            free = min(free, max(most - taken, 0))
    except (ImportError, OSError, ValueError, IndexError):
        pass
    return free


class BoundedReader(io.RawIOBase):
    """A reader of a packed file (`packed` bytes long), which unpacks as it is asked to, and no farther than is sane."""

    def __init__(self, source: Any, name: str, packed: int) -> None:
        super().__init__()
        self._source, self._name, self._packed, self._read = source, name, packed, 0

    def readable(self) -> bool:
        """Report that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Unpack the next bytes."""
        block = self._source.read(len(buffer))
        self._read += len(block)
        check_unpacked(self._name, self._packed, self._read)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        """Close what it reads from as well."""
        if not self.closed:
            self._source.close()
        super().close()
