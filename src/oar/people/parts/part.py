"""Parts of a population that is not in memory: each can be read on its own, again and again, and by anybody.

A part says how many people it holds and reads them; what it is made of (a row group of a Parquet file, a slice of an
array on disk) is its own affair. Parts are small descriptions that can be sent to another machine.

An engine maps a function over parts, with threads here or workers elsewhere (`dask_engine`), and yields the results in
the order of the parts, so that sums come out the same whoever did which part. A function gets the part, the position of
its first person, and arguments that are the same for all; it must not depend on anything else, because it may run
anywhere, and again.
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

import numpy as np
from numpy.typing import NDArray

from oar.checks import read_only
from oar.errors import DataError

IN_CACHE = 1 << 13  # rows that are laid out side by side: 8,192 of ten float64 features are 0.7 MB


@dataclass(frozen=True, eq=False)
class Rows:
    """One part's people as they were read."""

    features: NDArray | tuple[NDArray, ...]  # (n, d) numbers, or d columns (n,) as files keep them
    labels: NDArray  # (n,) as stored
    weights: NDArray[np.float64] | None  # (n,), or None where all weigh 1
    name: str  # of the part, for messages
    names: tuple[str, ...] = ()  # of the features, for messages, where they have names

    def slice(self, start: int, stop: int, checked: bool = True) -> NDArray[np.float64]:
        """Return the features of some consecutive people as C-ordered float64, and check that they are finite."""
        if isinstance(self.features, tuple):
            found = np.empty((stop - start, len(self.features)))
            for first in range(0, stop - start, IN_CACHE):  # columns become rows while both are in the cache
                last = min(first + IN_CACHE, stop - start)
                for place, column in enumerate(self.features):
                    found[first:last, place] = column[start + first : start + last]
        else:
            found = np.ascontiguousarray(self.features[start:stop], dtype=np.float64)
        if checked:
            with np.errstate(over="ignore", invalid="ignore"):
                finite = np.isfinite(found.sum())  # a sum is finite only if all are
            if not finite and (bad := np.argwhere(~np.isfinite(found))).size:
                row, column = bad[0]
                raise DataError(
                    f"features: must be finite, got {found[row, column]} in {self.name}, row {start + row}, feature "
                    f"{repr(self.names[column]) if self.names else column}; drop or impute such values."
                )
        return found

    def weights_of(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Return the weights of some consecutive people, or None where all weigh 1."""
        return None if self.weights is None else self.weights[start:stop]

    def row_weights_of(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the weights of some consecutive people, which are 1 where all weigh 1."""
        return np.ones(stop - start) if self.weights is None else self.weights[start:stop]


class Part:
    """Some of the people, by where they can be read; whether arrays change nobody can tell, and nobody looks."""

    size: int  # how many people it holds
    name: str  # in messages
    read: Callable[[], Rows]
    read_labels: Callable[[], Rows]  # labels and weights alone; there are no features then
    held: Any = None  # the future of what a worker of a cluster holds of it

    def stamp(self) -> Any:
        """Return something that changes when the data do; None where nobody can tell."""
        return None

    def content(self) -> str | None:
        """Return a digest of what the people are read from, by which changes show that no stamp tells; None without."""
        return None


@dataclass(frozen=True)
class ContentCheck:
    """A function of a part that also returns what the part's content is; another content than is known is refused.

    The content is looked at first, so that what follows is of nobody else, and reads from where the system keeps it.
    """

    function: Callable[..., Any]

    def __call__(self, part: Any, start: int, *arguments: Any) -> tuple[str | None, Any]:
        """Return the content's digest and the function's result."""
        content = part.content()
        if part.known is not None and content != part.known:
            raise DataError(
                f"path: files must stay as they are from the plan to its moves, got {part.name}, which has changed "
                "since; make the population and the plan again."
            )
        return content, self.function(part, start, *arguments)


def as_numbers(values: Any, name: str) -> NDArray:
    """Return features (n, d) as an array of numbers; of a table whose columns are of several kinds, as float64."""
    found = np.asarray(values)
    if found.dtype.kind not in "biuf" and hasattr(values, "columns"):
        try:
            found = values.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"features: must be numbers, got others in {name} ({error}); encode them first.") from None
    if found.dtype.kind not in "biuf":
        raise DataError(
            f"features: must be real numbers, got an array of type {found.dtype} in {name}; use astype(float)."
        )
    return found


def checked_weights(weights: Any, name: str) -> NDArray[np.float64] | None:
    """Return weights as float64, or None where there are none; raise unless they are finite numbers ≥ 0."""
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.dtype.kind not in "biuf":
        raise DataError(f"weights: must be numbers, got {weights.dtype} in {name}.")
    found = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(found).all() and (found >= 0).all()):
        row = int(np.argmax(~(np.isfinite(found) & (found >= 0))))
        raise DataError(f"weights: must be finite and ≥ 0, got {found[row]} in {name}, row {row:,}.")
    return read_only(found)


def sliced(size: int, rows: int) -> Iterator[tuple[int, int]]:
    """Walk over positions 0 … size − 1 in runs of at most so many rows."""
    for start in range(0, size, rows):
        yield start, min(start + rows, size)


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
    """Threads of this process, one for each core: reading, decoding and arithmetic all release the interpreter."""

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
