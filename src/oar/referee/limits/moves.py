"""Every move measured again, against its own mover's limit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oar.people import Chunk
from oar.problem import Problem
from oar.referee.limits.offences import Offences, person
from oar.referee.limits.table_moves import TableMoveCheck, trainable

Array = NDArray[np.float64]

# Rounding in ε·(v/‖v‖) may exceed ε by a few units in the last place, never by this.
LIMIT_SLACK = 1e-9


class MoveCheck:
    """Every member's move against its own limit; only the first few offenders are put into words."""

    def __init__(self, problem: Problem, called: Callable[[int], str] | None = None) -> None:
        """`called` says what a row is called; None means persons by number, or by the table's index."""
        self.problem, self._called = problem, called or partial(person, problem.people)
        self.order = problem.allowance.norm.p
        self._offences = Offences()
        self.movers = 0
        self.effort = 0.0
        self._query: tuple[str, ...] = ()

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Measure the moves of some consecutive people; return those that can be trained on, and zero for others."""
        allowed = self.problem.allowance.of(chunk.start, chunk.stop)
        lengths = lengths_of(moves, self.order)
        self.movers += int(np.count_nonzero(lengths))
        with np.errstate(over="ignore"):
            self.effort += float(lengths.sum())
        # NaN compares false, so "not within" also catches moves that are not numbers.
        beyond = ~(lengths <= allowed * (1 + LIMIT_SLACK))
        told = (
            f"{self._called(chunk.start + int(row))} moves by {lengths[row]:.6g}, limit {allowed[row]:.6g}"
            for row in np.flatnonzero(beyond)
        )
        self._offences.add_all(told, int(np.count_nonzero(beyond)))
        return trainable(moves, beyond) if beyond.any() else moves

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves beyond its limit, in words: the first few, and how many more; and the query."""
        return (*self._offences.told, *self._query)

    def check_query(self, move: Array) -> Array:
        """Measure the query's own move; return it, or zero where nothing could be said about such a query."""
        if not move.any():
            return move
        length, allowed = float(lengths_of(move[None], self.order)[0]), self.problem.query_budget
        if length <= allowed * (1 + LIMIT_SLACK):
            return move
        self._query = (f"the query moves by {length:.6g}, limit {allowed:.6g}",)
        return trainable(move[None])[0]


def lengths_of(moves: Array, order: float) -> Array:
    """Return everyone's ‖δ‖_p; where squares would overflow or vanish, in units of the largest coordinate."""
    unit = float(np.abs(moves).max(initial=0.0))
    if not 1e-140 < unit < 1e140 and 0 < unit < np.inf:
        with np.errstate(over="ignore"):
            return unit * np.linalg.norm(moves / unit, ord=order, axis=1)
    if order == 2:  # what numpy.linalg.norm does, without its temporary arrays
        return np.sqrt(np.einsum("nd,nd->n", moves, moves))
    return np.linalg.norm(moves, ord=order, axis=1)


def limits_of(problem: Problem) -> MoveCheck | TableMoveCheck:
    """Return what checks this problem's moves: of a table, column by column; of an own action, by its own measure."""
    if problem.own_action is not None:
        from oar.referee.limits.own_moves import OwnMoveCheck

        return OwnMoveCheck(problem)
    return MoveCheck(problem) if problem.limits is None else TableMoveCheck(problem)
