"""What a plan hands in: every move, changed label and leaver, checked again against the limits of who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Chunk, Population
from oar.people.labels import label_array
from oar.plans import LeverPlan, Plan
from oar.problem import Problem
from oar.referee.limits.moves import MoveCheck, Offences, person
from oar.referee.limits.own_moves import OwnMoveCheck
from oar.referee.limits.table_moves import TableMoveCheck

Array = NDArray[np.float64]
SLACK = 1e-9  # rounding in a soft label's shares, never more


class Contributions:
    """What people hand in by a plan, every limit checked again: moves, changed labels, leavers.

    Attributes:
        after: the people whom the operator trains on after the plan, with their labels and weights; the problem's own
            where no label and no weight changes, or where what the plan hands out cannot be trained on.
        relabelled, leavers: how many labels change, and how many leave.
    """

    def __init__(self, plan: Plan) -> None:
        """Read what the plan hands out, and check labels and leavers; moves are checked as they are read."""
        self.plan, self.problem = plan, plan.problem
        self.after: Population = plan.problem.people
        self.relabelled = self.leavers = 0
        self._moves = move_check(self.problem)
        self._broken: list[str] = []
        if isinstance(plan, LeverPlan):
            self._read(plan)

    def chunks(self) -> Iterator[tuple[Chunk, Array]]:
        """Walk over everyone: people as they are, and moves that can be trained on."""
        for chunk in self.problem.people.chunks():
            yield chunk, self._moves.check(chunk, self.plan.of_chunk(chunk))

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
        own, asked = self._moves.check_query(self.plan.query_move), self.problem.asked
        if asked.members is None:
            return asked.points + own
        assert after is not None
        return after[asked.members]

    @property
    def movers(self) -> int:
        """How many members move."""
        return self._moves.movers

    @property
    def effort(self) -> float:
        """The sum of their moves' norms."""
        return self._moves.effort

    @property
    def violations(self) -> tuple[str, ...]:
        """Every broken limit, in words."""
        return (*self._moves.violations, *self._broken)

    def _read(self, plan: LeverPlan) -> None:
        people = self.problem.people
        before = people.value_rows() if self.problem.regresses else people.class_rows()
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
        weights = np.ones(people.size) if people.weights is None else people.weights
        weights = np.where(away, 0.0, weights)
        if not self._can_be_trained_on(after, weights):
            return
        if not away.any():
            weights = people.weights  # type: ignore[assignment]  # as they were, None included
        kind = "values" if self.problem.regresses else "shares"
        self.after = people.contributing(weights, **{kind: after})

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

    def _check_labels(self, before: Array, after: Array, changed: NDArray[np.bool_]) -> None:
        limits = None if self.problem.levers is None else self.problem.levers.relabel
        if limits is None:
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
            self._tell(
                apart > limits.soft + SLACK * (limits.soft + 1e-3 * size),
                f"has its label moved by more than {limits.soft:.6g}",
            )
            return
        self._tell(changed & ~np.isin(after, (0.0, 1.0)).all(axis=1), "is flipped to a label between classes")
        if self.relabelled > limits.most:
            self._broken.append(f"{self.relabelled} labels are flipped, limit {limits.most}")

    def _check_leavers(self, away: NDArray[np.bool_]) -> None:
        limits = None if self.problem.levers is None else self.problem.levers.withhold
        if limits is None:
            self._tell(away, "leaves, and nobody may")
            return
        self._tell(away & ~limits.mask, "leaves without taking part")
        if self.leavers > limits.most:
            self._broken.append(f"{self.leavers} members leave, limit {limits.most}")

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

    def _tell(self, offends: NDArray[np.bool_], what: str) -> None:
        people, told = self.problem.people, Offences()
        told.add_all((f"{person(people, int(row))} {what}" for row in np.flatnonzero(offends)), int(offends.sum()))
        self._broken += told.told


def move_check(problem: Problem) -> MoveCheck | TableMoveCheck:
    """Return what checks this problem's moves: of a table, column by column; of an own action, by its own measure."""
    if problem.own_action is not None:
        return OwnMoveCheck(problem)
    return MoveCheck(problem) if problem.limits is None else TableMoveCheck(problem)
