"""The memory that is available to read something into."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
