"""Sums over the people of each class: Σ w x, Σ w, and how large their features are. One reading, however they lie.

Σ_{i∈c} w_i x_i is the product of the (k × people) indicator matrix with the people.

**Rows.** In column form the sparse kernel adds each person's row to its class's sum: one contiguous read.

**Columns**, as files keep them, would have to become rows first, which costs more than the sums. With few classes the
dense product is quicker: blocks of people that stay in the cache, and many blocks in one call, because threads that ask
for the interpreter every few microseconds wait for one another (measured on 10⁸ numbers with blocks of 6,144 people:
one thread 0.16 s, two 0.18 s; sixteen blocks of 2,048 in a call: 0.13 s and 0.08 s).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sums = tuple[Any, ...]
"""Σ w x (k, d) and Σ w (k,), and of one in `stride` people Σ w max|x| and Σ w (k,)."""

FEW_CLASSES = 16  # a dense product costs 0.1 ns a number and class, columns to rows and their sum 1.4 ns a number
IN_CACHE = 1 << 11  # people of one dense product: 2,048 of ten classes and ten features are 0.3 MB
BLOCKS = 16  # of one call, or fewer
MOST_NUMBERS = 1 << 20  # kept by each thread: 8 MB, or what one block needs


class _Kept(threading.local):
    """Arrays of a thread that are used again: fresh ones of this size cost as much as what is done in them."""

    sizes = (0, 0, 0)
    found: tuple[Array, Array, NDArray[np.bool_]]

    def arrays(self, width: int, classes: int, people: int) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return values (d + 1, people), whose last row is 1 and counts people, and room for members (k, people)."""
        if self.sizes != (width, classes, people):
            self.sizes = width, classes, people
            self.found = np.ones((width + 1, people)), np.empty((classes, people)), np.empty((classes, people), bool)
        return self.found


_kept = _Kept()


def of_rows(features: Array, codes: Any, weights: Array | None, classes: int, stride: int) -> Sums:
    """Return the sums of C-ordered rows (n, d)."""
    from scipy.sparse import csc_array

    rows = len(features)
    terms = np.ones(rows) if weights is None else weights
    indicator = csc_array((terms, codes, np.arange(rows + 1, dtype=np.int32)), shape=(classes, rows))
    totals = np.bincount(codes, weights=weights, minlength=classes).astype(np.float64)
    largest = np.abs(features[::stride]).max(axis=1)
    return (indicator @ features, totals, *_sizes(largest, codes, weights, classes, stride))


def of_columns(columns: tuple[NDArray, ...], codes: Any, weights: Array | None, classes: int, stride: int) -> Sums:
    """Return the sums of d columns (n,) of numbers of any kind; what is not finite makes any class's sum not finite."""
    width, size = len(columns), len(codes)
    blocks = min(BLOCKS, -(-size // IN_CACHE), max(1, MOST_NUMBERS // (IN_CACHE * (width + classes))))
    values, members, belongs = _kept.arrays(width, classes, most := blocks * IN_CACHE)
    # As many products at once as there are blocks: of k × people with people × (d + 1)
    left = members.reshape(classes, blocks, IN_CACHE).transpose(1, 0, 2)
    right = values.reshape(width + 1, blocks, IN_CACHE).transpose(1, 2, 0)
    sums, names = np.zeros((classes, width + 1)), np.arange(classes, dtype=codes.dtype)[:, None]
    for start in range(0, size, most):
        some = slice(start, min(start + most, size))
        here = some.stop - start
        np.equal(codes[some], names, out=belongs[:, :here])
        members[:] = belongs.view(np.uint8)  # NumPy is quicker with small whole numbers than with truth values
        members[:, here:] = values[:-1, here:] = 0.0  # what is there from earlier might not be finite
        if weights is not None:
            members[:, :here] *= weights[some]
        for row, column in zip(values[:-1], columns, strict=True):
            row[:here] = column[some]
        with np.errstate(over="ignore", invalid="ignore"):
            sums += np.matmul(left, right).sum(axis=0)
    largest = np.zeros(len(range(0, size, stride)))
    for column in columns:
        strided = column[::stride]
        np.maximum(largest, np.abs(strided if strided.dtype.kind == "f" else strided.astype(np.float64)), out=largest)
    return sums[:, :-1], sums[:, -1].copy(), *_sizes(largest, codes, weights, classes, stride)


def _sizes(largest: Array, codes: Any, weights: Array | None, classes: int, stride: int) -> tuple[Array, Array]:
    """Return Σ w max|x| and Σ w of one in `stride` people, class by class."""
    some = codes[::stride]
    terms = np.ones(len(some)) if weights is None else weights[::stride]
    sums, totals = (np.bincount(some, weights=each, minlength=classes) for each in (terms * largest, terms))
    return sums.astype(np.float64), totals.astype(np.float64)
