"""Labels of any hashable type, as small codes.

Classes are in sorted order where they can be sorted, otherwise in order of first appearance.
Integer labels within a narrow range are coded through a lookup table, chunk by chunk, so that ten
million of them cost no memory; every other kind is coded once through a hash table.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_text
from oar.errors import DataError

Codes = NDArray[np.int32]
WIDEST_TABLE = 1 << 16
CHUNK = 1 << 18


def label_array(labels: Any, argument: str = "labels") -> NDArray:
    """Return labels as a one-dimensional array without changing their kind.

    Lists go through Python objects, because `np.asarray([1, "a"])` would turn 1 into a string and
    `np.asarray([(1, 2), (3, 4)])` would turn tuples into rows.
    """
    if hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    if not isinstance(labels, np.ndarray):
        if isinstance(labels, str | bytes) or not hasattr(labels, "__iter__"):
            raise DataError(f"{argument}: must be one label for each person, got {labels!r}.")
        values = list(map(_alone, labels))
        if values and all(type(value) is int for value in values):
            whole = np.asarray(values)
            if whole.dtype.kind in "iu":  # else some are so large that they became floats
                return whole
        labels = np.empty(len(values), dtype=object)
        for position, value in enumerate(values):
            labels[position] = value
    if labels.dtype.kind == "V":
        raise DataError(f"{argument}: must be single values, got records of type {labels.dtype}; use tuples.")
    if labels.ndim != 1:
        raise DataError(
            f"{argument}: must be one-dimensional, got shape {labels.shape}; give one label for each person."
        )
    return labels


def _alone(label: Any) -> Any:
    """Return the value in an array of no dimensions, such as a scalar of JAX or PyTorch, which cannot be hashed."""
    return label if isinstance(label, np.generic) or getattr(label, "ndim", None) != 0 else label.item()


def plain(label: Any) -> Any:
    """Turn a NumPy scalar into the Python value that it equals (so that it prints and stores well).

    >>> plain(np.int64(3)), plain("a")
    (3, 'a')
    """
    if isinstance(label, np.bool_ | np.integer | np.floating | np.str_):
        return label.item()
    return label


class LabelCoding:
    """The classes of a population and the way from labels to codes 0 … k−1."""

    def __init__(self, labels: NDArray) -> None:
        """Find the classes."""
        self._table: Codes | None = None
        whole = labels.dtype.kind in "iu" and labels.size > 0
        self._lowest, highest = (int(labels.min()), int(labels.max())) if whole else (0, 0)
        narrow = whole and highest - self._lowest < WIDEST_TABLE and highest < 2**63
        self.classes: tuple[Any, ...] = self._in_table(labels, highest) if narrow else _hashed(labels)
        self._positions: dict[Hashable, int] = {label: code for code, label in enumerate(self.classes)}

    def _in_table(self, labels: NDArray, highest: int) -> tuple[Any, ...]:
        """Return the classes of whole numbers, chunk by chunk, and keep the table of their codes."""
        present = np.zeros(highest - self._lowest + 1, dtype=bool)
        for start in range(0, labels.size, CHUNK):
            present[labels[start : start + CHUNK].astype(np.int64) - self._lowest] = True
        self._table = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
        return tuple(int(value) + self._lowest for value in np.flatnonzero(present))

    def position(self, label: Any, argument: str) -> int:
        """Return the code of one label, or raise with the known classes."""
        try:
            return self._positions[plain(label)]
        except (KeyError, TypeError):
            known = [name for name in self.classes if isinstance(name, str)]
            near = difflib.get_close_matches(str(label), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            classes = ", ".join(map(repr, self.classes[:12])) + (", …" if len(self.classes) > 12 else "")
            raise DataError(f"{argument}: must be one of the classes {classes}, got {plain(label)!r}.{hint}") from None

    def encode(self, labels: NDArray, argument: str = "labels") -> Codes:
        """Return the codes of an array of labels; unknown labels raise."""
        if labels.size == 0:
            return np.empty(0, dtype=np.int32)
        if self._table is not None and labels.dtype.kind in "iu":
            shifted = labels
            if self._lowest or len(self.classes) < self._table.size:
                shifted = np.subtract(labels, self._lowest, dtype=np.int64, casting="unsafe")
            if len(self.classes) == self._table.size:  # every whole number between the lowest and the highest
                for label in (int(labels.min()), int(labels.max())):
                    if not self._lowest <= label < self._lowest + self._table.size:
                        self.position(label, argument)
                return shifted.astype(np.int32)
            outside = shifted.view(np.uint64) >= self._table.size  # negative ones are then the largest
            if outside.any():
                self.position(labels[np.argmax(outside)], argument)
            codes = self._table[shifted]
            if codes.min() < 0:
                self.position(labels[np.argmin(codes)], argument)
            return codes
        local, seen = _factorise(labels, argument)
        return np.asarray([self.position(label, argument) for label in seen], dtype=np.int32)[local]

    @property
    def in_chunks(self) -> bool:
        """Whether coding is so cheap that it is done chunk by chunk rather than stored."""
        return self._table is not None


def _hashed(labels: NDArray) -> tuple[Any, ...]:
    """Return the classes of labels of any kind."""
    _, seen = _factorise(labels, "labels")
    for label in seen:
        check_text("labels", label)
    with suppress(TypeError):  # Labels of kinds that do not compare stay in order of first appearance.
        seen.sort()
    return tuple(seen)


def _factorise(labels: NDArray, argument: str) -> tuple[NDArray[np.intp], list]:
    """Return codes by first appearance, and the distinct labels; missing or unhashable ones raise."""
    import pandas

    try:
        codes, seen = pandas.factorize(labels)
    except TypeError as error:
        raise DataError(f"{argument}: must be hashable ({error}); use strings, numbers or tuples.") from None
    missing = np.flatnonzero(codes < 0)
    if missing.size:
        more = f" and {missing.size - 1} more" if missing.size > 1 else ""
        raise DataError(
            f"{argument}: must not be missing, got {labels[missing[0]]!r} at position {missing[0]}{more}; "
            "drop or label these people."
        )
    return codes, [plain(label) for label in seen]
