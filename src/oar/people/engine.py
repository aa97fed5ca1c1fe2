"""Who does the work on parts: threads here, or workers elsewhere (`dask_engine`). Solvers do not know which.

An engine maps a function over parts and yields the results in the order of the parts, so that sums come out the same
whoever did which part. A function gets the part, the position of its first person, and arguments that are the same for
all; it must not depend on anything else, because it may run anywhere, and again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from oar.people.parts import Part


@dataclass
class Traffic:
    """What was sent to other processes, and what came back, in bytes; nothing where all work is done here."""

    rounds: int = 0
    sent: int = 0
    received: int = 0


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
