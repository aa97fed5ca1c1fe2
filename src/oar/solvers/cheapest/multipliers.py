"""Multipliers for a part of what may be changed: from a programme in which nothing has to be whole.

Nothing here is believed: `plans/certificate.py` computes what multipliers prove, by arithmetic of its own. So HiGHS and
NNLS may be as wrong as they like; that makes bounds low, not false. Programmes are put into units in which entries are
about 1.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from oar.models.training import Array
from oar.plans.individual.certificate import CertificateRegion, Leaf, Statement
from oar.solvers.cheapest.highs import column_units
from oar.solvers.query.shortest_move import least_distance

WIDER = 1e-7  # share by which rows are loosened of entries with a sign and hardly a bound: rounding undoes nothing
FAR = 1e4  # in units of what matters: a bound that is as good as none
DUST = 1e-11  # of the largest multiplier, in units of rows
LACKING = 1e-10  # of a row's size: what a programme without costs may lack by rounding


class Relaxation(NamedTuple):
    """Multipliers; and where the programme ends (v,), None where it has no end, with the shares of columns paid for."""

    leaf: Leaf
    point: Array | None
    shares: dict[int, float]


def relaxed(statement: Statement, part: CertificateRegion) -> Relaxation:
    """Return good multipliers for a part."""
    if statement.kind == "l2":
        return _nearest(statement, part)
    programme = _Programme(statement, part)
    return programme.cheapest() or programme.lacking()


class _Programme:
    """Rows and bounds of v = p − n in units in which they are about 1, with shares z of columns to be paid for."""

    def __init__(self, statement: Statement, part: CertificateRegion) -> None:
        self.statement, self.part = statement, part
        self.up, self.down = np.flatnonzero(part.high > 0), np.flatnonzero(part.low < 0)
        self.owner = np.concatenate([self.up, self.down])
        self.signs = np.concatenate([np.ones(self.up.size), -np.ones(self.down.size)])
        self.bottom = np.concatenate([np.maximum(part.low, 0.0)[self.up], np.maximum(-part.high, 0.0)[self.down]])
        self.top = np.concatenate([part.high[self.up], -part.low[self.down]])
        rows = part.rows[:, self.owner] * self.signs
        loose = WIDER * np.abs(rows) + part.errors[:, self.owner]
        units = column_units(rows, part.room)
        one_sided = (self.top > FAR * units) & ((part.low >= 0) | (part.high <= 0))[self.owner]
        rows = np.where(one_sided, rows - loose, rows)
        self.columns = np.where((self.top > 0) & (self.top < units), self.top, units)  # no further than it may go
        rows = rows * self.columns
        units = np.maximum(np.abs(rows).max(axis=1, initial=0.0), np.abs(part.room))
        self.units = np.where(units > 0, units, 1.0)
        self.rows, self.room = rows / self.units[:, None], part.room / self.units

    def cheapest(self) -> Relaxation | None:
        """Return multipliers that bound the cost; None where HiGHS finds no place at all."""
        statement, shares = self.statement, self._shared()
        costs = np.zeros(self.owner.size) if statement.kind == "l0" else statement.prices[self.owner] * self.columns
        flat = np.array([float(statement.flat[statement.column == column][0]) for column in shares])
        costs = np.concatenate([costs, flat])
        unit = float(costs.max(initial=0.0)) or 1.0
        ties = self._ties(shares)
        rows = np.vstack([np.hstack([self.rows, np.zeros((len(self.rows), len(shares)))]), ties])
        room = np.append(self.room, np.zeros(len(ties)))
        found = _asked(costs / unit, rows, room, self._bounds(np.ones(len(shares))))
        if found is None:
            return None
        place, marginals = found
        multipliers = unit * self._clean(marginals[: len(self.rows)]) / self.units
        paid = {column: float(share) for column, share in zip(shares, place[self.owner.size :], strict=True)}
        return Relaxation(Leaf(multipliers), self._joined(place), paid)

    def lacking(self) -> Relaxation:
        """Return multipliers that show that nothing is in the part, by the least that rows must lack."""
        rows = np.hstack([self.rows, -np.ones((len(self.rows), 1))])
        found = _asked(np.append(np.zeros(self.owner.size), 1.0), rows, self.room, self._bounds(np.full(1, np.inf)))
        if found is None:
            return Relaxation(Leaf(np.zeros(len(self.rows))), None, {})
        place, marginals = found
        if place[-1] <= LACKING * (1 + np.abs(self.room).max(initial=0.0)):
            marginals = np.where(marginals > 0, marginals, 0.0)
        return Relaxation(Leaf(self._clean(marginals) / self.units, empty=True), self._joined(place), {})

    def _bounds(self, most_others: Array) -> Array:
        """Return the bounds of the parts, and of others between 0 and these."""
        bottom = np.append(self.bottom / self.columns, np.zeros_like(most_others))
        return np.column_stack([bottom, np.append(self.top / self.columns, most_others)])

    def _shared(self) -> list[int]:
        """Return the columns, not yet paid for, whose cost a share of their bounds may stand for."""
        if self.statement.kind != "l0":
            return []
        column, part = self.statement.column, self.part
        must, bounded = (part.low > 0) | (part.high < 0), np.isfinite(part.low) & np.isfinite(part.high)
        barred = set(column[must | ~bounded].tolist()) | part.paid
        return [number for number in np.unique(column[self.owner]).tolist() if number not in barred]

    def _ties(self, shares: list[int]) -> Array:
        """Return rows that say: an entry goes no further than the share of its column's cost that is paid."""
        count = self.owner.size
        place, at = np.nonzero(np.array(shares)[:, None] == self.statement.column[self.owner])
        found = np.zeros((at.size, count + len(shares)))
        found[np.arange(at.size), at] = self.columns[at] / self.top[at]
        found[np.arange(at.size), count + place] = -1.0
        return found

    def _joined(self, place: Array) -> Array:
        change = np.zeros(self.part.low.size)
        np.add.at(change, self.owner, self.signs * self.columns * place[: self.owner.size])
        return np.clip(change, self.part.low, self.part.high)

    def _clean(self, multipliers: Array) -> Array:
        found = np.maximum(multipliers, 0.0)
        return np.where(found > DUST * found.max(initial=0.0), found, 0.0)


def _asked(costs: Array, rows: Array, room: Array, bounds: Array) -> tuple[Array, Array] | None:
    """Return where HiGHS ends, and its multipliers; None where it finds no place."""
    from scipy.optimize import linprog

    if not costs.size:
        return None if (room < 0).any() else (np.zeros(0), np.zeros(room.size))
    fine = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = linprog(costs, A_ub=rows, b_ub=room, bounds=bounds, method="highs", options=fine)
        except ValueError:
            return None
    if found.x is None or found.status != 0:
        return None
    return found.x, -found.ineqlin.marginals


def _nearest(statement: Statement, part: CertificateRegion) -> Relaxation:
    """Return multipliers of the least distance of entries times prices: 2u / −r_{d+1} by `least_distance`.

    Where r = 0 nothing is in the part, and u itself shows it.
    """
    prices, count = statement.prices, len(part.room)
    fixed = np.where(part.low == part.high, part.low, 0.0)  # an entry between equal bounds is no longer one to be found
    free = part.low < part.high
    unit = np.eye(prices.size)
    above, below = free & np.isfinite(part.high), free & np.isfinite(part.low)
    rows = np.vstack([part.rows / prices, unit[above], -unit[below]]) * free
    room = np.concatenate([part.room - part.rows @ fixed, (part.high * prices)[above], -(part.low * prices)[below]])
    lengths = np.linalg.norm(rows, axis=1)
    lengths = np.where(lengths > 0, lengths, np.where(room != 0, np.abs(room), 1.0))
    rows, room = rows / lengths[:, None], room / lengths
    if (room >= 0).all():
        return Relaxation(Leaf(np.zeros(count)), fixed, {})
    size = -float(room.min())  # what is lacked most is at least so far away
    try:
        found, residual = least_distance(rows, room / size)
    except RuntimeError:
        return Relaxation(Leaf(np.zeros(count)), None, {})
    if np.abs(residual).max() <= 1e-9 or residual[-1] >= 0:
        return _Programme(statement, part).lacking()
    multipliers = 2 * size * found / -residual[-1] / lengths
    place = np.where(free, -size * residual[:-1] / residual[-1] / prices, fixed)
    return Relaxation(Leaf(multipliers[:count]), np.clip(place, part.low, part.high), {})
