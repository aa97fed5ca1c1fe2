"""What discrete levers stand on: people with their labels and moves so far, and which single changes are open to them.

A *change* is a person who gets the label of a class, or who leaves; a set of changes is a dict from person to what it
does. A *ground* says what true refits make of a set of changes, and what each further change promises.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oar.actions.choice import Levers
from oar.problem import Problem

Array = NDArray[np.float64]
Changes = dict[int, int]
"""From person to the code of the class whose label it gets, or to LEAVE."""
LEAVE = -1
EMPTY = 1e-9  # of everyone's weight: a class that is left with less counts as empty


class Ground(Protocol):
    """What the levers are pulled on."""

    exact: bool
    """Whether `promised` are losses of true refits, not first-order estimates."""

    @property
    def refits(self) -> int:
        """True refits so far; a look at everybody's exact losses counts as one."""
        ...

    def loss(self, changes: Changes) -> float:
        """Return the query's loss after a true refit; infinite where there is none."""
        ...

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) losses to be expected after one more change of each kind, the last column for leaving."""
        ...


@dataclass(frozen=True, eq=False)
class OpenChanges:
    """Which single changes are open, given people, their labels (n, k) and their weights (n,)."""

    levers: Levers
    rows: Array
    weights: Array
    regresses: bool

    @cached_property
    def _others(self) -> NDArray[np.bool_]:
        """(n, k): where a flip would change something, and is allowed to."""
        relabel = self.levers.relabel
        if relabel is None or relabel.soft is not None:
            return np.zeros(self.rows.shape, dtype=bool)
        own = (self.rows == 1.0) & (self.rows.sum(axis=1, keepdims=True) == 1.0)
        return ~own & relabel.allowed & (relabel.mask & (self.weights > 0))[:, None]

    @cached_property
    def _free_to_leave(self) -> NDArray[np.bool_]:
        withhold = self.levers.withhold
        none = np.zeros(len(self.weights), dtype=bool)
        return none if withhold is None else withhold.mask & (self.weights > 0)

    def quotas(self, changes: Changes) -> tuple[int, int]:
        """Return how many flips, and how many leavers, are still allowed."""
        leavers = sum(what == LEAVE for what in changes.values())
        relabel, withhold = self.levers.relabel, self.levers.withhold
        flips = 0 if relabel is None else relabel.most - (len(changes) - leavers)
        return flips, 0 if withhold is None else withhold.most - leavers

    def fills(self, changes: Changes) -> bool:
        """Report whether some changes leave somebody, and no class empty that was not."""
        rows, weights = applied(changes, self.rows, self.weights)
        if self.regresses:
            return bool(weights.sum() > EMPTY * self.weights.sum())
        left, before = weights @ rows, self.weights @ self.rows
        return bool((left > EMPTY * before.sum())[before > 0].all())

    def now(self, changes: Changes) -> NDArray[np.bool_]:
        """Return (n, k + 1): the single changes that may follow. No class may be left empty."""
        flips, leavers = self.quotas(changes)
        found = np.zeros((len(self.rows), self.rows.shape[1] + 1), dtype=bool)
        if flips > 0:
            found[:, :-1] = self._others
        if leavers > 0:
            found[:, -1] = self._free_to_leave
        found[list(changes)] = False
        rows, weights = applied(changes, self.rows, self.weights)
        if self.regresses:
            found[weights.sum() - weights <= EMPTY * weights.sum(), -1] = False
            return found
        left = weights @ rows - weights[:, None] * rows <= EMPTY * weights.sum()  # (n, k): empty without this person
        # A flip to class c refills c alone.
        found[:, -1] &= ~left.any(axis=1)
        several = left.sum(axis=1, keepdims=True) - left  # classes other than c that it would leave empty
        found[:, :-1] &= several == 0
        return found


def applied(changes: Changes, rows: Array, weights: Array) -> tuple[Array, Array]:
    """Return labels (n, k) and weights (n,) after some changes."""
    if not changes:
        return rows, weights
    rows, weights = rows.copy(), weights.copy()
    for person, what in changes.items():
        if what == LEAVE:
            weights[person] = 0.0
        else:
            rows[person] = 0.0
            rows[person, what] = 1.0
    return rows, weights


def given_rows(problem: Problem) -> Array:
    """Return everyone's class shares (n, k), or values (n, m), as given."""
    return problem.people.target_rows(problem.regresses)


def given_weights(problem: Problem) -> Array:
    """Return everyone's weight (n,) as given."""
    return problem.people.row_weights
