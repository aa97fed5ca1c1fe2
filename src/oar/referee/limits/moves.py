"""Every move measured again, against its own mover's limit, and broken limits put into words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import Allowance
from oar.people import Chunk, Population
from oar.people.tables.encoding import LARGEST
from oar.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Rounding in ε·(v/‖v‖) may exceed ε by a few units in the last place, never by this.
LIMIT_SLACK = 1e-9
MOST = 5  # offenders that are put into words


class Offences:
    """Sentences, of which the first few are kept and all are counted.

    >>> offences = Offences()
    >>> for person in range(42):
    ...     offences.add(f"person {person} moves too far")
    >>> offences.told[-1], len(offences.told)
    ('and 37 more', 6)
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.first: list[str] = []
        self.more = 0

    def __bool__(self) -> bool:
        """Report whether there are any."""
        return bool(self.first)

    def add(self, sentence: str) -> None:
        """Keep one, or count it."""
        self.add_all((sentence,), 1)

    def add_all(self, sentences: Iterable[str], number: int) -> None:
        """Keep the first of so many, which are not put into words beyond that, and count the others."""
        room = MOST - len(self.first)
        if room > 0:
            self.first += [sentence for sentence, _ in zip(sentences, range(room), strict=False)]
        self.more += max(0, number - max(room, 0))

    @property
    def told(self) -> tuple[str, ...]:
        """The first few, and in a last sentence how many more."""
        return (*self.first, *((f"and {self.more:,} more",) if self.more else ()))


def person(people: Population, row: int) -> str:
    """Return what somebody is called in sentences: by the table's index where there is one, by number otherwise."""
    return f"person {row if people.index is None else people.index[row]}"


@dataclass(frozen=True)
class MoveSums:
    """How many move, how far in all, and the first who move farther than they may; of several parts, their sum."""

    movers: int = 0
    effort: float = 0.0
    first: tuple[str, ...] = ()
    offenders: int = 0

    def __add__(self, other: MoveSums) -> MoveSums:
        first = (*self.first, *other.first)[:MOST]
        return MoveSums(self.movers + other.movers, self.effort + other.effort, first, self.offenders + other.offenders)

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves farther than it may, in words: the first few, and how many more."""
        told = Offences()
        told.add_all(self.first, self.offenders)
        return told.told


def measured(
    allowance: Allowance, chunk: Chunk, moves: Array, called: Callable[[int], str] = "person {}".format
) -> tuple[Array, MoveSums]:
    """Measure the moves of some consecutive people; return those that can be trained on, zero for others, and sums."""
    allowed, lengths = allowance.of(chunk.start, chunk.stop), lengths_of(moves, allowance.norm.p)
    # NaN compares false, so "not within" also catches moves that are not numbers.
    beyond = ~(lengths <= allowed * (1 + LIMIT_SLACK))
    told = tuple(
        f"{called(chunk.start + int(row))} moves by {lengths[row]:.6g}, limit {allowed[row]:.6g}"
        for row in np.flatnonzero(beyond)[:MOST]
    )
    with np.errstate(over="ignore"):
        effort = float(lengths.sum())
    sums = MoveSums(int(np.count_nonzero(lengths)), effort, told, int(np.count_nonzero(beyond)))
    return (trainable(moves, beyond) if told else moves), sums


def measured_query(problem: Problem, move: Array) -> tuple[Array, tuple[str, ...]]:
    """Return the query's own move, or zero where nothing could be said about such a query; and violations."""
    if not move.any():
        return move, ()
    length, allowed = float(lengths_of(move[None], problem.allowance.norm.p)[0]), problem.query_budget
    if length <= allowed * (1 + LIMIT_SLACK):
        return move, ()
    return trainable(move[None])[0], (f"the query moves by {length:.6g}, limit {allowed:.6g}",)


class MoveCheck:
    """Every member's move against its own limit, one chunk of people after the other."""

    def __init__(self, problem: Problem, called: Callable[[int], str] | None = None) -> None:
        """`called` says what a row is called; None means persons by number, or by the table's index."""
        self.problem, self._called = problem, called or partial(person, problem.people)
        self._sums = MoveSums()
        self._query: tuple[str, ...] = ()

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Measure the moves of some consecutive people; return those that can be trained on, and zero for others."""
        allowed, sums = measured(self.problem.allowance, chunk, moves, self._called)
        self._sums += sums
        return allowed

    def check_query(self, move: Array) -> Array:
        """Measure the query's own move; return it, or zero where nothing could be said about such a query."""
        found, self._query = measured_query(self.problem, move)
        return found

    @property
    def movers(self) -> int:
        """How many move."""
        return self._sums.movers

    @property
    def effort(self) -> float:
        """The sum of their moves' norms."""
        return self._sums.effort

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves beyond its limit, in words: the first few, and how many more; and the query."""
        return (*self._sums.violations, *self._query)


def lengths_of(moves: Array, order: float) -> Array:
    """Return everyone's ‖δ‖_p; where squares would overflow or vanish, in units of the largest coordinate."""
    unit = float(np.abs(moves).max(initial=0.0))
    if not 1e-140 < unit < 1e140 and 0 < unit < np.inf:
        with np.errstate(over="ignore"):
            return unit * np.linalg.norm(moves / unit, ord=order, axis=1)
    if order == 2:  # what numpy.linalg.norm does, without its temporary arrays
        return np.sqrt(np.einsum("nd,nd->n", moves, moves))
    return np.linalg.norm(moves, ord=order, axis=1)


def trainable(moves: Array, among: Mask | None = None) -> Array:
    """Return moves (n, d) in which everyone (or those `among` them) stays who moves by no number, or beyond all bounds.

    That has been reported by then; nothing could be trained on it.
    """
    without_end = endless(moves) if among is None else endless(moves) & among
    return np.where(without_end[:, None], 0.0, moves) if without_end.any() else moves


def endless(moves: Array) -> Mask:
    """Return who moves (n,) by no number, or beyond all bounds."""
    return np.asarray(~(np.abs(moves) <= LARGEST).all(axis=1))  # NaN compares false
