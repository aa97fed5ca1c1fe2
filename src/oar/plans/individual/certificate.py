"""Why nothing is cheaper: a certificate that is checked by arithmetic alone, without the solver that found it.

**What is claimed.** Every change v that the audit would accept is in a box and keeps rows,

    low ≤ v ≤ high,   some of v whole,   (R + D) v ≤ h   for some |D| ≤ errors,

and costs Σ prices |v| ("l1"), the root of Σ (prices v)² ("l2"), or the flat costs of the columns that change ("l0").
Rounding, ties and whatever an audit lets pass are in `errors` and `room`, outwards: they can only lower a bound.

**Why it holds.** For multipliers y ≥ 0 every such v has y·((R + D) v − h) ≤ 0, so that

    cost(v) ≥ −y·h + Σ_j min { cost_j(u) + g_j u − e_j |u| : low_j ≤ u ≤ high_j },   g = yR,   e = y·errors,

and the minimum for each entry is a formula. Without costs, the same number above 0 says that there is no v at all
(Farkas). Where one list of multipliers is not enough, a tree parts the box: an entry is at most k or at least k + 1, or
has one sign; a column stays or is paid for; a rule is kept in one of its ways. The walk makes the parts itself, so that
nothing is left out, and the least leaf counts. Every sum is in floating point with a bound on its rounding taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
UNIT = 2.0**-52  # twice the rounding of one operation
COSTS_AGAIN = 1e-11  # share by which a cost may be rounded down where it is added up again


@dataclass(frozen=True, eq=False)
class RuleAlternative:
    """One way of keeping a rule: tighter bounds (v,), and rows (m, v) with their errors and room."""

    low: Array
    high: Array
    rows: Array
    errors: Array
    room: Array


@dataclass(frozen=True, eq=False)
class Statement:
    """The constraints of every change that would be accepted, and its cost.

    Attributes:
        kind: "l1", "l2" or "l0".
        prices: (v,) cost of a unit of each entry. flat: (v,) of its column in "l0".
        column: (v,) the number of the entry's column.
        whole: (v,) which entries are whole numbers.
        low, high: (v,) bounds.
        rows, errors: (m, v), room: (m,).
        rules: for each rule the ways of keeping it, one of which every accepted change keeps.
        waste: by how much a cost may be less than that of v, because steps are kept only up to rounding.
    """

    kind: str
    prices: Array
    flat: Array
    column: NDArray[np.intp]
    whole: NDArray[np.bool_]
    low: Array
    high: Array
    rows: Array
    errors: Array
    room: Array
    rules: tuple[tuple[RuleAlternative, ...], ...] = ()
    waste: float = 0.0


@dataclass(frozen=True, eq=False)
class Leaf:
    """Multipliers (m,) for one part; with `empty` they show that nothing is in it."""

    multipliers: Array
    empty: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """An entry is at most `at`, or at least `at` + 1 if it is whole and `at` if it is not."""

    entry: int
    at: float
    below: Tree
    above: Tree


@dataclass(frozen=True, eq=False)
class Choice:
    """A column stays as it is, or is paid for ("l0")."""

    column: int
    stays: Tree
    paid: Tree


@dataclass(frozen=True, eq=False)
class Either:
    """A rule, by its number, is kept in one of its ways."""

    rule: int
    ways: tuple[Tree, ...]


Tree: TypeAlias = Leaf | Split | Choice | Either


@dataclass(frozen=True, eq=False)
class CertificateRegion(RuleAlternative):
    """A part of what a statement is about: its bounds, rows, and the columns that are paid for."""

    paid: frozenset[int] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether its bounds leave nothing."""
        return bool((self.low > self.high).any())

    def split(self, statement: Statement, entry: int, at: float) -> tuple[CertificateRegion, CertificateRegion]:
        """Return what is below and what is above."""
        high, low = self.high.copy(), self.low.copy()
        high[entry] = min(high[entry], at)
        low[entry] = max(low[entry], at + 1 if statement.whole[entry] else at)
        return replace(self, high=high), replace(self, low=low)

    def choice(self, statement: Statement, column: int) -> tuple[CertificateRegion, CertificateRegion]:
        """Return where a column stays, and where it is paid for."""
        mine = statement.column == column
        stays = replace(
            self,
            low=np.where(mine, np.maximum(self.low, 0.0), self.low),
            high=np.where(mine, np.minimum(self.high, 0.0), self.high),
        )
        return stays, replace(self, paid=self.paid | {column})

    def narrowed(self, way: RuleAlternative) -> CertificateRegion:
        """Return where a rule is kept in one way."""
        return replace(
            self,
            low=np.maximum(self.low, way.low),
            high=np.minimum(self.high, way.high),
            rows=np.vstack([self.rows, way.rows]),
            errors=np.vstack([self.errors, way.errors]),
            room=np.concatenate([self.room, way.room]),
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """A statement, and the tree that proves a bound on the cost of every change that keeps it.

    Attributes:
        statement: what is kept.
        tree: of multipliers.
        most: a cost that somebody pays: what costs more needs no proof. Infinite where nothing was found.

    `bound` is computed from these by arithmetic alone, each time anew.
    """

    statement: Statement
    tree: Tree
    most: float = np.inf

    @property
    def bound(self) -> float:
        """The least cost of any change; infinite where it is proved that there is none."""
        found = least(self.statement, whole_part(self.statement, self.most), self.tree)
        if found == np.inf and self.most == np.inf:
            return np.inf
        found = min(found, self.most)
        return max(found - COSTS_AGAIN * abs(found) - self.statement.waste, 0.0)


def whole_part(statement: Statement, most: float) -> CertificateRegion:
    """Return all that costs at most `most`: no entry alone costs more."""
    low, high = statement.low, statement.high
    if most < np.inf and statement.kind != "l0":
        with np.errstate(divide="ignore", over="ignore"):
            far = (most + statement.waste) * (1 + 1e-9) / statement.prices
        far = np.where(statement.whole, np.floor(far * (1 + 1e-9) + 1e-9), far)
        low, high = np.maximum(low, -far), np.minimum(high, far)
    return CertificateRegion(low, high, statement.rows, statement.errors, statement.room)


def least(statement: Statement, part: CertificateRegion, tree: Tree) -> float:
    """Return the least cost in a part that a tree proves; infinite where nothing is in it."""
    lowest, waiting = np.inf, [(part, tree)]  # a list, for trees may be deeper than functions may call themselves
    while waiting:
        part, tree = waiting.pop()
        if part.empty:
            continue
        match tree:
            case Leaf():
                lowest = min(lowest, leaf_bound(statement, part, tree))
            case Split():
                waiting += zip(part.split(statement, tree.entry, tree.at), (tree.below, tree.above), strict=True)
            case Choice():
                waiting += zip(part.choice(statement, tree.column), (tree.stays, tree.paid), strict=True)
            case Either():
                ways = statement.rules[tree.rule]
                if len(ways) != len(tree.ways):
                    return 0.0
                waiting += zip(map(part.narrowed, ways), tree.ways, strict=True)
    return lowest


def leaf_bound(statement: Statement, part: CertificateRegion, leaf: Leaf) -> float:
    """Return what multipliers prove of a part: a cost (0 at least), or infinity where nothing is in it."""
    y = leaf.multipliers
    if y.shape != part.room.shape or not np.isfinite(y).all() or (y < 0).any():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        slopes, errors = _combined(part, y)
        offset = float(y @ part.room)
        unsure = (y.size + 4) * UNIT * float(y @ np.abs(part.room))
        if leaf.empty:
            terms = _linear(np.zeros_like(slopes), slopes, errors, part)
        elif statement.kind == "l0":
            terms = _flat(statement, part, slopes, errors)
        elif statement.kind == "l1":
            terms = _linear(statement.prices, slopes, errors, part)
        else:
            terms = _squares(statement, slopes, errors, part)
        size = abs(offset) + float(np.abs(terms).sum())
        value = float(terms.sum()) - offset - unsure - (terms.size + 8) * UNIT * size  # rounded down
        if not value > 0:
            return 0.0
        if leaf.empty:
            return np.inf
        return float(np.sqrt(value)) * (1 - UNIT) if statement.kind == "l2" else value


def entry_terms(prices: Array, part: CertificateRegion, multipliers: Array) -> Array:
    """Return what each entry (v,) adds to what multipliers prove of a part, at these prices."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _linear(prices, *_combined(part, multipliers), part)


def _combined(part: CertificateRegion, y: Array) -> tuple[Array, Array]:
    """Return g = yR, and by how much it may be wrong."""
    sizes = y @ np.abs(part.rows)
    return y @ part.rows, (1 + 1e-9) * (y @ part.errors) + (y.size + 4) * UNIT * sizes


def _linear(prices: Array, slopes: Array, errors: Array, part: CertificateRegion) -> Array:
    """Return min { prices |u| + slopes u − errors |u| } over each entry's bounds (v,).

    It is linear on either side of 0: its minimum is at a bound, or where it bends.
    """
    up, down = prices + slopes - errors, -prices + slopes + errors  # slopes above and below 0
    found = np.full(prices.size, np.inf)
    inside = (part.low <= 0) & (part.high >= 0)
    found[inside] = 0.0
    above, below = (np.maximum(part.low, 0.0), part.high), (np.minimum(part.high, 0.0), part.low)
    for side, there, both in ((up, part.high >= 0, above), (down, part.low <= 0, below)):
        for ends in both:
            found[there] = np.minimum(found[there], _times(side, ends)[there])
    return found


def _times(slopes: Array, ends: Array) -> Array:
    """Return slopes · ends, of which 0 times an infinite bound is 0."""
    return np.where((slopes == 0) | (ends == 0), 0.0, slopes * ends)


def _squares(statement: Statement, slopes: Array, errors: Array, part: CertificateRegion) -> Array:
    """Return min { (prices u)² + slopes u − errors |u| } over each entry's bounds, whole where it must be (v,)."""
    squares = statement.prices**2
    found = np.full(slopes.size, np.inf)
    for low, high, slope in (
        (np.maximum(part.low, 0.0), part.high, slopes - errors),
        (part.low, np.minimum(part.high, 0.0), slopes + errors),
    ):
        there = low <= high
        most = np.maximum(low, high)
        best = np.clip(-slope / (2 * squares), low, most)
        for whole in (np.floor(best), np.ceil(best)):
            place = np.clip(np.where(statement.whole, whole, best), low, most)
            value = squares * place**2 + _times(slope, place)
            # The very lowest place is missed by rounding, which costs far less than its square.
            value -= 8 * UNIT * (squares * place**2 + np.abs(_times(slope, place)))
            found[there] = np.minimum(found[there], value[there])
    return found


def _flat(statement: Statement, part: CertificateRegion, slopes: Array, errors: Array) -> Array:
    """Return for each column its flat cost with the least of slopes u, or nothing where it may stay for nothing."""
    moved = _linear(np.zeros_like(slopes), slopes, errors, part)
    terms = []
    for column in np.unique(statement.column):
        mine = statement.column == column
        must = column in part.paid or bool(((part.low > 0) | (part.high < 0))[mine].any())
        worth = float(statement.flat[mine][0]) + float(moved[mine].sum())
        worth -= (int(mine.sum()) + 2) * UNIT * float(np.abs(moved[mine]).sum() + statement.flat[mine][0])
        terms.append(worth if must else min(worth, 0.0))
    return np.array(terms)
