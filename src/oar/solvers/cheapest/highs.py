"""One question to HiGHS, a mixed-integer programme, asked so that its tolerances matter little. It proves nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array
from oar.progress import deadline

PROVED = 1e-6  # share of the cost to which bound and cost agree
GAP = 1e-9  # share that HiGHS may leave open; it also leaves 1e-6 of whatever units the costs are in,
SIZE = 1e3  # so costs are put into units in which the optimum is about this
NOTHING = 1e-11  # of a row's largest entry
WHOLE = 1e-12  # how far from whole a whole number may be
SECONDS = 10.0  # for one programme
ROUNDS = 6
NONE = slice(0)
NOWHERE: Array = np.zeros(0)  # in place of a place where there is none


@dataclass(frozen=True, eq=False)
class CheapestChange:
    """The best place or change, its cost (infinite where there is none), HiGHS's bound of it, and whether it ended."""

    change: Array = field(default_factory=lambda: NOWHERE)
    cost: float = np.inf
    bound: float = np.inf
    finished: bool = True

    @property
    def found(self) -> bool:
        """Whether there is one."""
        return self.cost < np.inf


@dataclass(frozen=True, eq=False)
class MixedIntegerProgramme:
    """Minimise costs · z with rows · z ≤ room and bottom ≤ z ≤ top, some of it whole."""

    costs: Array
    rows: Array
    room: Array
    whole: NDArray[np.bool_]
    bottom: Array
    top: Array

    def answered(self) -> CheapestChange:
        """Ask HiGHS, and again in units in which what it leaves open is small, where it may have left too much.

        Where the time for searches is over it is not asked at all, which is no answer.
        """
        unit = 1 / (float(np.abs(self.costs).max()) or 1.0)
        first = self._once(unit)
        if not (first.finished or first.found):  # HiGHS gave up: its presolve can lose the last digits
            first = self._once(unit, presolve=False)
        if not first.found or first.cost - first.bound <= 0.1 * PROVED * first.cost:
            return first
        again = self._once(SIZE / first.cost)
        return again if again.found else first

    def _once(self, unit: float, presolve: bool = True) -> CheapestChange:
        from scipy.optimize import Bounds, LinearConstraint, milp

        left = deadline(SECONDS) - time.monotonic()
        if left <= 0:
            return CheapestChange(bound=0.0, finished=False)
        # Next to nothing is nothing to HiGHS, and has made it crash.
        rows = np.where(np.abs(self.rows) > NOTHING * np.abs(self.rows).max(axis=1, keepdims=True), self.rows, 0.0)
        answer = milp(
            unit * self.costs,
            constraints=LinearConstraint(rows, -np.inf, self.room),
            bounds=Bounds(self.bottom, self.top),
            integrality=self.whole.astype(int),
            options={"mip_rel_gap": GAP, "time_limit": left, "presolve": presolve},
        )
        # Costs are never negative: what HiGHS calls infeasible or unbounded is infeasible.
        if answer.status == 2 or (answer.x is None and "infeasible" in str(answer.message).lower()):
            return CheapestChange()
        if answer.x is None:
            return CheapestChange(bound=0.0, finished=False)
        cost = float(answer.fun) / unit
        bound = cost if answer.mip_dual_bound is None else min(float(answer.mip_dual_bound) / unit, cost)
        place = np.clip(answer.x, self.bottom, self.top)  # which HiGHS may miss by its tolerance
        return CheapestChange(place, cost, max(bound, 0.0), answer.status == 0)

    def halves(self, place: Array) -> tuple[MixedIntegerProgramme, ...]:
        """Return the questions on both sides of the entry that is least whole; none where all are."""
        off = np.where(self.whole, np.abs(place - np.rint(place)), 0.0)
        entry = int(off.argmax())
        if off[entry] <= WHOLE:
            return ()
        top, bottom = self.top.copy(), self.bottom.copy()
        top[entry], bottom[entry] = np.floor(place[entry]), np.ceil(place[entry])
        sides = replace(self, top=top), replace(self, bottom=bottom)
        return tuple(side for side in sides if (side.bottom <= side.top).all())


def column_units(rows: Array, room: Array, fixed: NDArray[np.bool_] | slice = NONE) -> Array:
    """Return units (v,) of the unknowns of rows (m, v) · x ≤ room; those that are `fixed` keep a unit of 1.

    Numbers of a programme are then about 1: rows and columns are divided by their middle sizes, in turns. What rows
    leave counts as a column too, so that what is looked for is about 1, whatever the data's units are.

    >>> column_units(np.array([[1e-9, 2.0]]), np.array([1.0]))
    array([1.e+09, 5.e-01])
    """
    sizes = np.abs(np.column_stack([rows, room]))
    filled = sizes > 0
    units = np.ones(sizes.shape[1])
    for _ in range(ROUNDS):
        own = _middle(np.log(np.where(filled, sizes * units, 1.0)), filled, axis=1)
        units = np.exp(-_middle(np.log(np.where(filled, sizes, 1.0)) - own[:, None], filled, axis=0))
        units[:-1][fixed] = units[-1]
    for _ in range(ROUNDS):  # what is far smaller than the rest of its column must not make the rest large or small
        own = np.log(np.where(filled, sizes * units, 1e-300).max(axis=1, initial=1e-300))
        largest = np.where(filled, np.log(np.where(filled, sizes, 1.0)) - own[:, None], -np.inf)
        units = np.where(filled.any(axis=0), np.exp(-largest.max(axis=0, initial=-700.0)), units)
        units[:-1][fixed] = units[-1]
    found = units[:-1] / units[-1]
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)


def _middle(logs: Array, filled: NDArray[np.bool_], axis: int) -> Array:
    """Return the middle between the largest and the smallest logarithm; 0 where there is none."""
    high = np.where(filled, logs, -np.inf).max(axis=axis, initial=-np.inf)
    low = np.where(filled, logs, np.inf).min(axis=axis, initial=np.inf)
    some = filled.any(axis=axis)
    return 0.5 * (np.where(some, high, 0.0) + np.where(some, low, 0.0))
