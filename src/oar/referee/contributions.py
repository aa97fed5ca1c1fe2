"""Contributions of a plan, checked again: every move, changed label and leaver, against every limit.

Broken limits are put into words. Moves of a table are checked column by column, in `table_moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.own_action import Who, asked
from oar.actions.sets.norms import Allowance
from oar.errors import DataError
from oar.models.protocol import delegated
from oar.people import Chunk, Population
from oar.people.labels import label_array
from oar.people.tables.encoding import LARGEST
from oar.people.wording import counted
from oar.plans import LeverPlan, Plan
from oar.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Rounding in ε·(v/‖v‖) may exceed ε by a few units in the last place, never by this.
LIMIT_SLACK = 1e-9
ALLOWED = 1 + 2 * LIMIT_SLACK  # times its limit, a move is as long as an audit lets pass, and a little longer
SLACK = 1e-9  # rounding in a soft label's shares, never more
MOST = 5  # offenders that are put into words


@dataclass(frozen=True)
class Offences:
    """Sentences, of which the first few are put into words and all are counted; they add up.

    >>> offences = Offences.of(np.ones(42, dtype=bool), lambda row: f"person {row} moves too far")
    >>> offences.told[-1], len(offences.told)
    ('and 37 more', 6)
    """

    first: tuple[str, ...] = ()
    number: int = 0

    @classmethod
    def of(cls, who: Mask, says: Callable[[int], str]) -> Offences:
        """Return what is said of each of these rows (n,)."""
        rows = np.flatnonzero(who)
        return cls(tuple(says(int(row)) for row in rows[:MOST]), rows.size)

    def __add__(self, other: Offences) -> Offences:
        return Offences((*self.first, *other.first)[:MOST], self.number + other.number)

    @property
    def told(self) -> tuple[str, ...]:
        """The first few, and in a last sentence how many more."""
        more = self.number - len(self.first)
        return (*self.first, *((f"and {more:,} more",) if more else ()))


def person(people: Population, row: int) -> str:
    """Return what somebody is called in sentences: by the table's index where there is one, by number otherwise."""
    return f"person {row if people.index is None else people.index[row]}"


@dataclass(frozen=True)
class MoveSums:
    """Sums over moves: how many move, how far in all, and who breaks a limit; sums add up.

    Nobody is relabelled and nobody leaves: these people can only move.
    """

    movers: int = 0
    effort: float = 0.0
    offences: Offences = Offences()
    relabelled: ClassVar[int] = 0
    leavers: ClassVar[int] = 0

    def __add__(self, other: MoveSums) -> MoveSums:
        offences = self.offences + other.offences
        return MoveSums(self.movers + other.movers, self.effort + other.effort, offences)

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves farther than it may, in words: the first few, and how many more."""
        return self.offences.told


def measured(
    allowance: Allowance, chunk: Chunk, moves: Array, called: Callable[[int], str] = "person {}".format
) -> tuple[Array, MoveSums]:
    """Measure the moves of some consecutive people; return those that can be trained on, zero for others, and sums."""
    allowed, lengths = allowance.of(chunk.start, chunk.stop), lengths_of(moves, allowance.norm.p)
    # NaN compares false, so "not within" also catches moves that are not numbers.
    beyond = ~(lengths <= allowed * (1 + LIMIT_SLACK))
    offences = Offences.of(
        beyond, lambda row: f"{called(chunk.start + row)} moves by {lengths[row]:.6g}, limit {allowed[row]:.6g}"
    )
    with np.errstate(over="ignore"):
        effort = float(lengths.sum())
    allowed_moves = trainable(moves, beyond) if offences.number else moves
    return allowed_moves, MoveSums(int(np.count_nonzero(lengths)), effort, offences)


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
        self.sums, self._query = MoveSums(), tuple[str, ...]()

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Measure the moves of some consecutive people; return those that can be trained on, and zero for others."""
        allowed, sums = measured(self.problem.allowance, chunk, moves, self._called)
        self.sums += sums
        return allowed

    def lengths(self, chunk: Chunk, moves: Array) -> Array:
        """Return how far some consecutive people move (m,); nothing is reported."""
        return lengths_of(moves, self.problem.allowance.norm.p)

    def check_query(self, move: Array) -> Array:
        """Measure the query's own move; return it, or zero where nothing could be said about such a query."""
        found, self._query = measured_query(self.problem, move)
        return found

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves beyond its limit, in words: the first few, and how many more; and the query."""
        return (*self.sums.violations, *self._query)


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


class OwnMoveCheck(MoveCheck):
    """Every member's move against its ball, and against its set as `Action.violations` measures it."""

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Measure the moves of some consecutive people; return those that can be trained on, and zero for others."""
        action = self.problem.own_action
        assert action is not None
        moves = super().check(chunk, moves)
        movers = np.flatnonzero(moves.any(axis=1))
        who = Who(np.asarray(chunk.features, dtype=np.float64)[movers], chunk.start + movers)
        allowed = self.problem.allowance.of(chunk.start, chunk.stop)
        excess = np.zeros(len(moves))
        if movers.size:
            excess[movers] = asked(action, "violations", moves[movers], who)
        beyond = ~(excess <= LIMIT_SLACK * allowed)  # also where the author's measure is no number
        offences = Offences.of(
            beyond,
            lambda row: f"{self._called(chunk.start + row)} leaves the set of {action.name!r} by {excess[row]:.6g}",
        )
        self.sums += MoveSums(offences=offences)
        return trainable(moves, beyond) if offences.number else moves

    def check_query(self, move: Array) -> Array:
        """Report any move of the query: the sets of an action of one's own are members'."""
        if move.any():
            self._query = ("the query moves, and the action is for members alone",)
        return trainable(move[None])[0]


def move_check(problem: Problem, called: Callable[[int], str] | None = None) -> MoveCheck:
    """Return what checks this problem's moves: of a table, column by column; of an own action, by its own measure."""
    if problem.own_action is not None:
        return OwnMoveCheck(problem)
    if problem.limits is None:
        return MoveCheck(problem, called)
    from oar.referee.table_moves import TableMoveCheck  # which asks this file

    return TableMoveCheck(problem, called)


@delegated("_moves.sums", "movers", "effort")
class Contributions:
    """The contributions of a plan with every limit checked again: moves, changed labels, leavers.

    Attributes:
        movers, effort: how many members move, and the sum of their moves' norms.
        after: the people whom the operator trains on after the plan, with their labels and weights; the problem's own
            where no label and no weight changes, or where what the plan hands out cannot be trained on.
        relabelled, leavers: how many labels change, and how many leave.
    """

    movers: int
    effort: float

    def __init__(self, plan: Plan, called: Callable[[int], str] | None = None) -> None:
        """Read what the plan hands out, and check labels and leavers; moves are checked as they are read."""
        self.plan, self.problem = plan, plan.problem
        self.after: Population = plan.problem.people
        self.relabelled = self.leavers = 0
        self._moves = move_check(self.problem, called)
        self._broken: list[str] = []
        if isinstance(plan, LeverPlan):
            self._read(plan)

    def chunks(self) -> Iterator[tuple[Chunk, Array]]:
        """Walk over everyone: people as they are, and moves that can be trained on."""
        for chunk in self.problem.people.chunks():
            yield chunk, self._moves.check(chunk, self.plan.of_chunk(chunk))

    def lengths(self, chunk: Chunk, moves: Array) -> Array:
        """Return how far some consecutive people move (m,), of a table what that costs."""
        return self._moves.lengths(chunk, moves)

    def chunks_after(self) -> Iterable[Chunk | None]:
        """Walk over everyone as they are after the plan; None for chunks where no label and no weight changes."""
        return repeat(None) if self.after is self.problem.people else self.after.chunks()

    def rows(self) -> tuple[Array, Array]:
        """Return everyone's features (n, d) before and after the moves."""
        people = self.problem.people
        before, after = np.empty((2, people.size, people.dimensions))
        for chunk, moves in self.chunks():
            before[chunk.start : chunk.stop] = chunk.features
            after[chunk.start : chunk.stop] = chunk.features + moves
        return before, after

    def points(self, after: Array | None) -> Array:
        """Return where those who ask are (q, d) after the plan, of whom members move with their features (n, d)."""
        own, asked = self._own_moves(), self.problem.asked
        if asked.among.size and own.any():
            self._broken.append("the query moves, and members who ask move with their data alone")
        if asked.members is None:
            return asked.points + own
        assert after is not None
        return after[asked.members]

    def _own_moves(self) -> Array:
        """Return the query's own move, or those of several (q, d), each measured as if it were alone."""
        if self.plan.query_move.ndim == 1:
            return self._moves.check_query(self.plan.query_move)
        checks = [move_check(one) for one in self.problem.singly]
        own = [check.check_query(move) for check, move in zip(checks, self.plan.query_move, strict=True)]
        self._broken += [f"of query {at}: {one}" for at, check in enumerate(checks) for one in check.violations]
        return np.array(own)

    @property
    def violations(self) -> tuple[str, ...]:
        """Every broken limit, in words."""
        return (*self._moves.violations, *self._broken)

    def _read(self, plan: LeverPlan) -> None:
        people = self.problem.people
        before = people.target_rows(self.problem.regresses)
        after = self._rows(plan.labels(), before)
        away = np.asarray(plan.leavers())
        if after is None:
            return
        if away.shape != (people.size,) or away.dtype != bool:
            self._broken.append(f"leavers are not {people.size} times yes or no")
            return
        changed = (after != before).any(axis=1)
        self.relabelled, self.leavers = int(changed.sum()), int(away.sum())
        self._check_labels(before, after, changed)
        self._check_leavers(away)
        if not (changed.any() or away.any()):
            return
        weights = np.where(away, 0.0, people.row_weights)
        if not self._can_be_trained_on(after, weights):
            return
        if not away.any():
            weights = people.weights  # type: ignore[assignment]  # as they were, None included
        self.after = people.contributing(weights, after, self.problem.regresses)

    def _rows(self, labels: Any, before: Array) -> Array | None:
        """Return labels as shares or values (n, k); None, and a violation, where they are none."""
        people = self.problem.people
        if np.ndim(labels) == 1 and not self.problem.regresses:
            try:
                codes = people.coding.encode(label_array(labels))
            except DataError as error:
                self._broken.append(f"a label that does not exist is given ({error})")
                return None
            rows = np.eye(len(people.classes))[codes]
        else:
            rows = np.asarray(labels, dtype=np.float64)
            rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.shape != before.shape or not np.isfinite(rows).all():
            self._broken.append(f"labels are not {before.shape[0]} × {before.shape[1]} finite numbers")
            return None
        return rows

    def _check_labels(self, before: Array, after: Array, changed: Mask) -> None:
        limits = self.problem.levers.relabel
        if not limits.given:
            self._tell(changed, "is relabelled, and nobody may be")
            return
        self._tell(changed & ~limits.mask, "is relabelled without taking part")
        if not self.problem.regresses:
            shares = (after >= -SLACK).all(axis=1) & (np.abs(after.sum(axis=1) - 1) <= SLACK)
            self._tell(changed & ~shares, "gets a label whose shares are negative or do not add up to 1")
            gains = (after > before + SLACK)[:, ~limits.allowed].any(axis=1)
            self._tell(changed & gains, "gets a label that may not be given")
        if limits.soft is not None:
            apart = np.abs(after - before).sum(axis=1) / 2
            if self.problem.regresses:
                apart = np.linalg.norm(after - before, axis=1)
            size = np.maximum(1.0, np.abs(before).max(axis=1))  # of which y' − y carries the rounding
            beyond = apart > limits.soft + SLACK * (limits.soft + 1e-3 * size)
            self._tell(beyond, f"has its label moved by more than {limits.soft:.6g}")
            return
        self._tell(changed & ~np.isin(after, (0.0, 1.0)).all(axis=1), "is flipped to a label between classes")
        if self.relabelled > limits.most:
            self._broken.append(f"{self.relabelled} labels are flipped, limit {limits.most}")

    def _check_leavers(self, away: Mask) -> None:
        limits = self.problem.levers.withhold
        if not limits.given:
            self._tell(away, "leaves, and nobody may")
            return
        self._tell(away & ~limits.mask, "leaves without taking part")
        if self.leavers > limits.most:
            self._broken.append(f"{counted(self.leavers, 'member leaves', 'members leave')}, limit {limits.most}")

    def _can_be_trained_on(self, after: Array, weights: Array) -> bool:
        """Report, and say if not, whether somebody is left in every class."""
        if not weights.sum() > 0:
            self._broken.append("nobody is left to train on")
            return False
        if self.problem.regresses:
            return True
        empty = np.flatnonzero(~(weights @ after > 0))
        if empty.size:
            self._broken.append(f"nobody is left in class {self.problem.people.classes[empty[0]]!r}")
        return not empty.size and bool((after >= -SLACK).all())

    def _tell(self, offends: Mask, what: str) -> None:
        people = self.problem.people
        self._broken += Offences.of(offends, lambda row: f"{person(people, row)} {what}").told
