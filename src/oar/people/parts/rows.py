"""Tables with a row for each person of a population in parts: features, moves, targets, and whatever is made of them.

Such a table is a formula. NumPy's functions of it are formulas too, and nothing is read for them; what has one number
a person, or one in all, is computed by one pass over the parts. So what is written for arrays of people in memory
mostly does for people in parts, in memory of O(chunk) and a few numbers for each person:

    everywhere = features + moves * acting[:, None]      nothing is read
    who = (moves != 0).any(axis=1)                       one pass, n booleans
    there = everywhere.each(predict)                     one pass, n predictions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from oar.people.labels import LabelCoding
from oar.people.parts.part import Part
from oar.people.parts.population import StreamedPopulation, chunks_of
from oar.people.population import Chunk

INNER = ("nd,nd->n", "...d,...d->...")  # how einsum is asked for inner products of rows
AT_A_TIME = 128_000  # people whose arrays are in memory at a time, on each thread


class Formula(Protocol):
    """Whatever has rows for some consecutive people: what hands out moves is one."""

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return their rows."""
        ...


@dataclass(frozen=True, eq=False)
class Features:
    """Everyone's features as they are."""

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return some people's features."""
        return chunk.features


@dataclass(frozen=True, eq=False)
class Targets:
    """Everyone's class shares in the order of the classes, or values where there are no classes."""

    classes: int

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return some people's targets."""
        if self.classes:
            return np.eye(self.classes)[chunk.codes]
        assert chunk.values is not None
        return np.asarray(chunk.values, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Same:
    """The same for everyone: what is broadcast."""

    value: Any

    def of_chunk(self, chunk: Chunk) -> Any:
        """Return it."""
        return self.value


@dataclass(frozen=True, eq=False)
class Each:
    """A row for each person, in memory."""

    rows: NDArray[Any]

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return some people's rows."""
        return self.rows[chunk.start : chunk.stop]


@dataclass(frozen=True, eq=False)
class Made:
    """What a function makes of other rows."""

    function: Callable[..., Any]
    of: tuple[Formula, ...]

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return what it makes of some people's."""
        return self.function(*(one.of_chunk(chunk) for one in self.of))


@dataclass(frozen=True, eq=False)
class RowsAsked:
    """The task of every worker: rows of a formula, and what to make of them."""

    formula: Formula
    coding: LabelCoding | None
    function: Callable[..., Any]
    sent_once: ClassVar[bool] = True

    def chunks(self, part: Part, start: int) -> Iterator[Any]:
        """Walk over a part's people."""
        for chunk in chunks_of(part.read(), start, self.coding, AT_A_TIME, both=True):
            yield self.function(self.formula.of_chunk(chunk), chunk)


def _listed(part: Part, start: int, asked: RowsAsked) -> list[Any]:
    return list(asked.chunks(part, start))


class RowsInParts(NDArrayOperatorsMixin):
    """A row for each of the people, as a formula; see above."""

    ndim = 2
    copy = __copy__ = lambda self: self  # rows cannot be written to

    def __init__(self, people: StreamedPopulation, formula: Formula, width: int) -> None:
        self.people, self.formula, self.shape = people, formula, (people.size, width)

    def __len__(self) -> int:
        return self.shape[0]

    def of_chunk(self, chunk: Chunk) -> NDArray[Any]:
        """Return the rows of some consecutive people."""
        return self.formula.of_chunk(chunk)

    # Other tables, for which nothing is read

    def made(self, function: Callable[..., Any], *others: Any, width: int | None = None) -> RowsInParts:
        """Return what a function makes of these rows, and of others: one for each person, or the same for everyone."""
        return _made(self.people, function, (self, *others), self.shape[1] if width is None else width)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            raise self.people._in_parts(f"np.{ufunc.__name__}.{method} of everybody's rows")
        if ufunc is np.matmul:  # each row by a matrix; or everybody's weights, summed up
            if inputs[0] is not self:
                return products(self, np.asarray(inputs[0])[:, None])[0]
            matrix = np.asarray(inputs[1])
            return self.made(np.matmul, Same(matrix), width=matrix.shape[1])
        return self._elementwise(partial(ufunc, **options), inputs)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        if function is np.where and not options:
            return self._elementwise(np.where, given)
        if function is np.einsum and given[0] in INNER:
            return (given[1] * given[2]).sum(axis=1)
        if function in (np.shape, np.ndim):
            return self.shape if function is np.shape else self.ndim
        if function is np.zeros_like:
            return self._elementwise(np.multiply, (self, 0.0))
        raise self.people._in_parts(f"np.{function.__name__} of everybody's rows")

    def _elementwise(self, function: Callable[..., Any], given: tuple[Any, ...]) -> RowsInParts:
        widths = [shape[-1] for one in given if (shape := getattr(one, "shape", ()))]
        return _made(self.people, function, given, max(widths))

    def __getattr__(self, name: str) -> Any:
        """Refuse what only an array can."""
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise self.people._in_parts(f"{name} of everybody's rows")
        raise AttributeError(name)

    def __array__(self, *given: Any, **options: Any) -> Any:
        raise self.people._in_parts("an array of everybody's rows")

    # Arrays

    def each(self, function: Callable[..., Any], *others: Any) -> NDArray[Any]:
        """Return what a function makes of everybody's rows (m, width), one result a person: one pass."""
        made = self.made(function, *others)
        return np.concatenate(self._over(made.formula, _rows))

    def summed(self, function: Callable[..., Any], *others: Any) -> Any:
        """Return the sum of what a function makes of some people's rows (m, width), over all: one pass."""
        return sum(self._over(self.made(function, *others).formula, _rows))

    def _over(self, formula: Formula, function: Callable[..., Any]) -> list[Any]:
        asked = RowsAsked(formula, self.people._coded, function)
        return [one for part in self.people.mapped(_listed, asked) for one in part]

    def __getitem__(self, key: Any) -> Any:
        """Return rows of some people or one column of everyone, as arrays (one pass), or some columns as rows."""
        if isinstance(key, tuple):
            some, columns = key
            if isinstance(columns, int | np.integer):
                return self.each(partial(_column, column=columns))[some]
            if isinstance(some, slice) and some == slice(None):
                return self.made(partial(_columns, columns=columns), width=np.arange(self.shape[1])[columns].size)
            return self[some][:, columns]
        positions = np.arange(len(self))[key]
        return self._rows_of(np.atleast_1d(positions)).reshape(*np.shape(positions), self.shape[1])

    def __setitem__(self, key: Any, values: Any) -> None:
        raise self.people._in_parts("writing to somebody's rows")

    def _rows_of(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        if not positions.size:
            return np.zeros((0, self.shape[1]))
        several, place = np.unique(positions, return_inverse=True)
        found = self._over(self.formula, partial(_picked, positions=several))
        return np.concatenate(found)[place.reshape(-1)]

    def _reduced(self, function: Any, axis: int | None) -> Any:
        """Return a reduction that may be done in any order, over rows, columns, or both."""
        if axis in (1, -1):
            return self.each(partial(function, axis=1))
        found = function(np.array(self._over(self.formula, partial(_reduced, function=function))), axis=0)
        return found if axis == 0 else function(found)

    def any(self, axis: int | None = None) -> Any:
        """Report of each row or column, or of all, whether something is not 0."""
        return self._reduced(np.any, axis)

    def sum(self, axis: int | None = None) -> Any:
        """Return sums."""
        return self._reduced(np.sum, axis)

    def max(self, axis: int | None = None) -> Any:
        """Return what is largest."""
        return self._reduced(np.max, axis)

    def min(self, axis: int | None = None) -> Any:
        """Return what is smallest."""
        return self._reduced(np.min, axis)

    def mean(self, axis: int) -> NDArray[Any]:
        """Return each person's mean."""
        return self.each(partial(np.mean, axis=axis))

    def std(self, axis: int) -> NDArray[Any]:
        """Return each column's standard deviation: two passes."""
        assert axis == 0
        mean = self.sum(axis=0) / len(self)
        return np.sqrt(((self - mean) ** 2).sum(axis=0) / len(self))

    def argmax(self, axis: int) -> NDArray[Any]:
        """Return the place of each person's largest."""
        return self.each(partial(np.argmax, axis=axis))

    def __repr__(self) -> str:
        return f"RowsInParts({self.shape[0]:,} × {self.shape[1]})"


def products(rows: RowsInParts, others: Any) -> NDArray[Any]:
    """Return Σ_i a_i b_iᵀ of two rows for each person, (width of b, width of a): one pass."""
    return rows.summed(_outer, others)


def everyones_features(people: StreamedPopulation) -> RowsInParts:
    """Return everybody's features."""
    return RowsInParts(people, Features(), people.dimensions)


def everyones_targets(people: StreamedPopulation, regresses: bool) -> RowsInParts:
    """Return everybody's class shares, or values."""
    classes = 0 if regresses else len(people.classes)
    return RowsInParts(people, Targets(classes), classes or 1)


def _made(people: StreamedPopulation, function: Callable[..., Any], given: Any, width: int) -> RowsInParts:
    return RowsInParts(people, Made(function, tuple(_one_of(one, people.size) for one in given)), width)


def formula_of(given: Any) -> Formula:
    """Return the formula of rows in parts, or that of an array with a row for each person."""
    return getattr(given, "formula", given) if hasattr(given, "of_chunk") else Each(np.asarray(given))


def _one_of(given: Any, size: int) -> Formula:
    """Return a formula of what has a row for each person, or is the same for everyone."""
    of_each = hasattr(given, "of_chunk") or (np.ndim(given) == 2 and len(given) == size)
    return formula_of(given) if of_each else Same(given)


def _rows(rows: NDArray[Any], chunk: Chunk) -> NDArray[Any]:
    return rows


def _picked(rows: NDArray[Any], chunk: Chunk, positions: NDArray[np.intp]) -> NDArray[Any]:
    first, last = np.searchsorted(positions, [chunk.start, chunk.stop])
    return rows[positions[first:last] - chunk.start]


def _reduced(rows: NDArray[Any], chunk: Chunk, function: Any) -> NDArray[Any]:
    return function(rows, axis=0)


def _columns(rows: NDArray[Any], columns: Any) -> NDArray[Any]:
    return rows[:, columns]


def _column(rows: NDArray[Any], column: Any) -> NDArray[Any]:
    return rows[:, column]


def _outer(rows: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    return others.T @ rows
