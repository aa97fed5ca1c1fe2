"""Parts of a population that is not in memory: each can be read on its own, again and again, and by anybody.

A part says how many people it holds and reads them; what it is made of (a row group of a Parquet file, a slice of an
array on disk) is its own affair. Parts are small descriptions that can be sent to another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError

IN_CACHE = 1 << 13  # rows that are laid out side by side: 8,192 of ten float64 features are 0.7 MB


@dataclass(frozen=True, eq=False)
class Rows:
    """One part's people as they were read.

    Attributes:
        features: (n, d) numbers, or d columns (n,) as files keep them.
        labels: (n,) as stored.
        weights: (n,), or None where all weigh 1.
        name: of the part, for messages.
        names: of the features, for messages, where they have names.
    """

    features: NDArray | tuple[NDArray, ...]
    labels: NDArray
    weights: NDArray[np.float64] | None
    name: str
    names: tuple[str, ...] = ()

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
            if not finite:
                self._check(found, start)
        return found

    def weights_of(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Return the weights of some consecutive people, or None where all weigh 1."""
        return None if self.weights is None else self.weights[start:stop]

    def _check(self, found: NDArray[np.float64], start: int) -> None:
        bad = np.argwhere(~np.isfinite(found))
        if bad.size:
            row, column = bad[0]
            raise DataError(
                f"features: must be finite, got {found[row, column]} in {self.name}, row {start + row}, feature "
                f"{repr(self.names[column]) if self.names else column}; drop or impute such values."
            )


class Part(Protocol):
    """The protocol of a part: some of the people, by where they can be read."""

    @property
    def size(self) -> int:
        """How many people it holds."""
        ...

    @property
    def name(self) -> str:
        """The part's name in messages."""
        ...

    def stamp(self) -> Any:
        """Return something that changes when the data do; None where nobody can tell."""
        ...

    def content(self) -> str | None:
        """Return a digest of what the people are read from, by which changes show that no stamp tells; None without."""
        ...

    def known_as(self, content: str | None) -> Part:
        """Return the part with the digest that its content must have."""
        ...

    def read(self) -> Rows:
        """Read them."""
        ...

    def read_labels(self) -> Rows:
        """Read labels and weights alone; there are no features then."""
        ...


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


def checked_weights(weights: NDArray, name: str) -> NDArray[np.float64]:
    """Return weights as float64; raise unless they are finite numbers ≥ 0."""
    if weights.dtype.kind not in "biuf":
        raise DataError(f"weights: must be numbers, got {weights.dtype} in {name}.")
    found = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(found).all() and (found >= 0).all()):
        row = int(np.argmax(~(np.isfinite(found) & (found >= 0))))
        raise DataError(f"weights: must be finite and ≥ 0, got {found[row]} in {name}, row {row:,}.")
    return found


def sliced(size: int, rows: int) -> Iterator[tuple[int, int]]:
    """Walk over positions 0 … size − 1 in runs of at most so many rows."""
    for start in range(0, size, rows):
        yield start, min(start + rows, size)
