"""Engines that work on parts: threads here, or workers elsewhere (`dask_engine`). Solvers do not know which.

An engine maps a function over parts and yields the results in the order of the parts, so that sums come out the same
whoever did which part. A function gets the part, the position of its first person, and arguments that are the same for
all; it must not depend on anything else, because it may run anywhere, and again.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from oar.people.parts.part import Part


@dataclass
class Traffic:
    """The traffic to and from other processes, in bytes; nothing where all work is done here."""

    rounds: int = 0
    sent: int = 0
    received: int = 0

    def __str__(self) -> str:
        """Say it in words.

        >>> print(Traffic(rounds=160, sent=4_133_400, received=1_727_496))
        160 passes: 4.1 MB sent (25.8 kB a pass), 1.7 MB received (10.8 kB a pass)
        """
        ways = ((self.sent, "sent"), (self.received, "received"))
        told = [f"{in_bytes(size)} {way} ({in_bytes(size / max(1, self.rounds))} a pass)" for size, way in ways]
        return f"{self.rounds:,} passes: {', '.join(told)}"

    def since(self, before: Traffic) -> Traffic:
        """Return what has come since."""
        return Traffic(self.rounds - before.rounds, self.sent - before.sent, self.received - before.received)


def in_bytes(size: float) -> str:
    """Return a number of bytes for people, in powers of a thousand.

    >>> in_bytes(999), in_bytes(1_000), in_bytes(25_834), in_bytes(4e12)
    ('999 B', '1.0 kB', '25.8 kB', '4,000.0 GB')
    """
    if size < 1000:
        return f"{size:.0f} B"
    place = min(3, (len(str(int(size))) - 1) // 3)
    return f"{size / 1000**place:,.1f} {('kB', 'MB', 'GB')[place - 1]}"


def bytes_of(value: Any) -> int:
    """Return how many bytes a value takes when it is sent; arrays are not copied for that."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    return len(rest) + sum(one.raw().nbytes for one in buffers)


class Engine(Protocol):
    """Maps functions over parts."""

    traffic: Traffic

    def map(
        self, function: Callable[..., Any], parts: Sequence[Part], starts: Sequence[int], *arguments: Any
    ) -> Iterator[Any]:
        """Yield function(part, start, *arguments) in the order of the parts."""
        ...


@dataclass
class Threads:
    """Threads of this process, one for each core: reading, decoding and arithmetic all release the interpreter.

    Args:
        number: how many; None means one a core.
    """

    number: int | None = None
    traffic: Traffic = field(default_factory=Traffic)

    def map(
        self, function: Callable[..., Any], parts: Sequence[Part], starts: Sequence[int], *arguments: Any
    ) -> Iterator[Any]:
        """Yield results in order; no more parts are under way than there are threads, and one that waits."""
        number = min(self.number or os.cpu_count() or 1, len(parts))
        if number == 1:
            for part, start in zip(parts, starts, strict=True):
                yield function(part, start, *arguments)
            return
        waiting: deque[Future] = deque()
        try:
            for part, start in zip(parts, starts, strict=True):
                if len(waiting) > number:
                    yield waiting.popleft().result()
                waiting.append(self._pool.submit(function, part, start, *arguments))
            while waiting:
                yield waiting.popleft().result()
        finally:  # where one part failed, the others need not be begun; those that are must not go on unseen
            for one in waiting:
                one.cancel()
            wait(waiting)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """The same threads for all passes: the C library keeps some memory for every thread that ever was."""
        return ThreadPoolExecutor(self.number or os.cpu_count() or 1, thread_name_prefix="oar")
