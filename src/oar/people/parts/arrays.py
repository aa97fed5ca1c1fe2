"""People in arrays that can be sliced, memory-mapped `.npy` files above all: a part for each so many rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from numpy.typing import NDArray

from oar.checks import check_that, is_listing, read_only
from oar.errors import DataError
from oar.opening import regular
from oar.people.parts.part import Part, Rows, as_numbers, checked_weights, sliced
from oar.people.parts.population import StreamedPopulation

PART_ROWS = 1 << 18  # of arrays that come without parts of their own


@dataclass(frozen=True, eq=False)
class ArrayPart(Part):
    """A part that is a run of rows of arrays that can be sliced: memory-mapped files, or anything like them."""

    features: Any
    labels: Any
    weights: Any
    start: int
    stop: int

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many people it holds."""
        return self.stop - self.start

    @property
    def name(self) -> str:  # type: ignore[override]
        """The part's name in messages."""
        return f"rows {self.start:,} to {self.stop - 1:,}"

    def read(self) -> Rows:
        """Read them into memory."""
        some = as_numbers(self.features[self.start : self.stop], self.name)
        return Rows(read_only(some), *self._others(), self.name)

    def read_labels(self) -> Rows:
        """Read labels and weights alone."""
        return Rows((), *self._others(), self.name)

    def _others(self) -> tuple[NDArray, NDArray[np.float64] | None]:
        some = slice(self.start, self.stop)
        weights = checked_weights(None if self.weights is None else self.weights[some], self.name)
        return read_only(np.asarray(self.labels[some])), weights


def in_arrays(features: Any, labels: Any, weights: Any, names: Any) -> StreamedPopulation:
    """Return people who stay in arrays that can be sliced, or in `.npy` files; nothing is read."""
    given = {"features": features, "labels": labels, "weights": weights}
    features, labels, weights = (_on_disk(values, argument) for argument, values in given.items())
    shape: Any = getattr(features, "shape", ())
    if len(shape) != 2:
        kind = f"an object of type {type(features).__name__}"
        found = f"shape {tuple(shape)}" if hasattr(features, "shape") else kind
        raise DataError(f"features: must be a two-dimensional array on disk (people × features), got {found}.")
    for argument, values in (("labels", labels), ("weights", weights)):
        if values is not None and tuple(np.shape(values)) != (shape[0],):
            raise DataError(f"{argument}: must be one for each of the {shape[0]} people, got shape {np.shape(values)}.")
    parts = [ArrayPart(features, labels, weights, start, stop) for start, stop in sliced(shape[0], PART_ROWS)]
    width = int(shape[1])
    if names is not None:
        texts = is_listing(names) and all(isinstance(name, str) for name in names)
        check_that(texts, "names", "a list of texts", names, "say names=[…]")
        names = tuple(names)
        check_that(len(names) == width, "names", f"one for each of the {width} features", len(names))
        if len(set(names)) != width:
            raise DataError(f"names: must differ, got {list(names)}.")
    return StreamedPopulation(parts, width, names, None, weights is not None, None, "these arrays")


def _on_disk(values: Any, argument: str) -> Any:
    """Open a `.npy` file without reading it; anything else is as it is."""
    if not isinstance(values, str | Path):
        return values
    try:
        with open(regular(values), "rb") as file:
            first = file.read(len(MAGIC_PREFIX))
    except OSError as error:
        raise DataError(f"{argument}: must be a .npy file, got {str(values)!r} ({error}).") from None
    if first != MAGIC_PREFIX:
        raise DataError(
            f"{argument}: must be a .npy file, as numpy.save writes it, got {str(values)!r}, which is of another kind; "
            "open a file of bare numbers with numpy.memmap(path, dtype, shape=…), and give that."
        )
    try:
        return np.load(values, mmap_mode="r", allow_pickle=False)
    except Exception:  # a head is read as Python's own text, and damaged ones fail in as many ways as that can
        raise DataError(
            f"{argument}: must be a .npy file of numbers or texts of one length, got {str(values)!r}, which cannot be "
            "mapped into memory; save it again with astype(float), or astype(str) for labels."
        ) from None
