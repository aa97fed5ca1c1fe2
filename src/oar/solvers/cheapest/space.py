"""The feasible changes of one person, as numbers for a programme.

A change is a vector v of a few kinds of entries, and δ = B v is what it does to the person's coordinates:

    a number                    v is its cost, of any size              B: 1 / (cost of a unit)
    whole steps                 v counts them                           B: the step
    a level of a category       v is 1 if it is switched to, else 0     B: e_level − e_held;  Σ v ≤ 1 in a category

so that |v_i| prices_i is what an entry costs, and limits are low ≤ v ≤ high and rows v ≤ room. v = 0 always keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.links import LinearExpression
from oar.actions.limits.plausible import EVERYWHERE, NOBODY, Everywhere, Neighbourhood
from oar.actions.limits.rules import EncodedRule
from oar.actions.sets.cost_region import FREE, CostRegion, measure
from oar.actions.sets.norms import Norm
from oar.models.training import Array
from oar.people.tables.encoding import Encoding

COSTS = ("l1", "l2", "l0")
NEARLY = 1e-9  # share of a step by which a bound may miss a whole number of them
LINK_SLACK = 1.001e-9  # of what a link adds up: what an audit lets pass, and a little more
QUERY = 2  # the query's row beside two that stand for everybody


@dataclass(frozen=True, eq=False)
class Space:
    """One person's possible changes."""

    encoding: Encoding  # of the table
    limits: Limits  # checked; for the bounds that numbers are put back into
    start: Array  # (d,) the person before
    kind: str  # "l1", "l2" or "l0"
    basis: Array  # (d, v) B
    low: Array  # low, high: (v,) bounds of v
    high: Array
    whole: NDArray[np.bool_]  # (v,) which entries are whole numbers
    prices: Array  # (v,) the cost of a unit of each entry
    flat: Array  # (v,) what a change of the entry's column costs in "l0"
    column: NDArray[np.intp]  # (v,) the number of the entry's column in the schema
    rows: Array  # (m, v) links, and at most one level a category
    room: Array  # (m,)
    row_errors: Array  # (m, v) what an audit lets pass of rows, in proportion to |v|,
    row_slack: Array  # (m,) and besides
    spread: Array  # (d,) everybody's standard deviations
    rules: tuple[EncodedRule, ...] = ()  # if-then rules: no rows, because they can be kept in several ways (`rules`)
    where: Neighbourhood | Everywhere = EVERYWHERE  # people's neighbourhood, in which changes must end

    @property
    def size(self) -> int:
        """How many entries v has."""
        return self.low.size

    @property
    def switches(self) -> NDArray[np.bool_]:
        """Which entries are switched on or stay off: their cost is linear whatever it is measured by."""
        return self.whole & (self.low == 0) & (self.high == 1)

    @property
    def apart(self) -> bool:
        """Whether columns have nothing to do with each other: rows say no more than at most one level a category."""
        mine = self.rows == 1
        levels = self.whole & (self.low == 0) & (self.high <= 1)
        first, last = np.where(mine, self.column, np.inf).min(axis=1), np.where(mine, self.column, -1).max(axis=1)
        return bool((mine & levels | (self.rows == 0)).all() and (self.room == 1).all() and (first == last).all())

    def entries_of(self, name: str) -> NDArray[np.intp]:
        """Return the entries of a column."""
        return np.flatnonzero(self.column == self.encoding.schema.names.index(name))

    def cost(self, change: Array) -> float:
        """Return what v costs."""
        if self.kind == "l0":
            changed = {int(column): price for column, price, v in zip(self.column, self.flat, change, strict=True) if v}
            return float(sum(changed.values()))
        parts = self.prices * np.abs(change)
        return float(parts.sum() if self.kind == "l1" else np.sqrt((parts**2).sum()))

    def allows(self, change: Array) -> bool:
        """Report whether v keeps every limit."""
        slack = NEARLY * (1 + np.abs(self.rows) @ np.abs(change))
        return bool(
            (change >= self.low).all()
            and (change <= self.high).all()
            and (self.rows @ change <= self.room + slack).all()
            and self.broken(change) is None
            and self.is_plausible(change)
        )

    def broken(self, change: Array) -> EncodedRule | None:
        """Return a rule that v breaks, or None."""
        before, after = self.start[None], (self.start + self.basis @ change)[None]
        return next((rule for rule in self.rules if not rule.kept(self.encoding, before, after)[0]), None)

    def is_plausible(self, change: Array) -> bool:
        """Report whether v ends where people are."""
        return bool(self.where.near(self.person(change)[None], np.array([NOBODY]), self.start[None])[0])

    def tidy(self, change: Array) -> Array:
        """Return v with whole entries whole, and within its bounds."""
        return np.clip(np.where(self.whole, np.rint(change), change), self.low, self.high) + 0.0

    def person(self, change: Array) -> Array:
        """Return the person afterwards (d,), with bounds that were reached met to the last digit."""
        point = self.start + self.basis @ change
        for column in self.encoding.schema:
            place = self.encoding.places[column.name]
            moved = point[place] != self.start[place]
            if column.kind == "category" or not moved.any():
                continue
            limit = self.limits.columns.get(column.name, FREE)
            if limit.lower is not None and self.start[place][0] >= limit.lower:
                point[place] = np.maximum(point[place], limit.lower)
            if limit.upper is not None and self.start[place][0] <= limit.upper:
                point[place] = np.minimum(point[place], limit.upper)
        return point


@dataclass(frozen=True, eq=False)
class Leads:
    """Leads of the goal, leads + slopes·δ (r,), to be above margins; scales are of what they are differences of."""

    slopes: Array
    leads: Array
    margins: Array
    scales: Array


def space_of(
    limits: Limits,
    encoding: Encoding,
    spread: tuple[Array, Array],
    start: Array,
    kind: str,
    own: Mapping[str, Limit],
    where: Neighbourhood | Everywhere = EVERYWHERE,
) -> Space:
    """Return what a person may change: `limits` as checked, with its own ones in place of everybody's."""
    centre, deviation = spread  # (d,), of everybody
    # Two people at mean ± deviation have everybody's mean and deviation; the query weighs nothing.
    rows = np.vstack([centre - deviation, centre + deviation, start])
    theirs = Limits(limits.columns, limits.links, {QUERY: own} if own else {})
    norm = Norm(2.0 if kind == "l2" else 1.0)
    with np.errstate(invalid="ignore"):
        found = measure(theirs, encoding, rows, np.array([0.5, 0.5, 0.0]), np.full(3, np.inf), norm)
    low, high = (bounds[QUERY] / found.costs for bounds in (found.region.lower, found.region.upper))
    merged = Limits({**limits.columns, **own}, limits.links, {}, limits.rules, limits.plausible)
    entries = list(zip(*_entries(encoding, merged, start, found, low, high), strict=True)) or [()] * 7
    vectors, lows, highs, whole, prices, flat, columns = entries
    basis = np.column_stack(vectors) if vectors else np.zeros((start.size, 0))
    column = np.array(columns, dtype=np.intp)
    kinds = [one.kind for one in encoding.schema]
    categories = np.array([number for number in np.unique(column) if kinds[number] == "category"], dtype=np.intp)
    groups = (column == categories[:, None]).astype(np.float64)  # at most one level of each
    links = found.region.links * found.costs if len(found.region.links) else np.zeros((0, start.size))
    room = found.region.room[QUERY] if len(links) else np.zeros(0)
    errors, slack = _let_pass(theirs, encoding, start, basis)
    return Space(
        encoding=encoding,
        limits=merged,
        start=start,
        kind=kind,
        basis=basis,
        low=np.array(lows, dtype=np.float64),
        high=np.array(highs, dtype=np.float64),
        whole=np.array(whole, dtype=bool),
        prices=np.array(prices, dtype=np.float64),
        flat=np.array(flat, dtype=np.float64),
        column=column,
        rows=np.vstack([links @ basis, groups]),
        room=np.concatenate([room, np.ones(len(groups))]),
        row_errors=np.vstack([errors, np.zeros_like(groups)]),
        row_slack=np.concatenate([slack, np.zeros(len(groups))]),
        spread=deviation,
        rules=limits.ruled(encoding.schema),
        where=where,
    )


def link_row(
    said: LinearExpression, encoding: Encoding, start: Array, basis: Array
) -> tuple[Array, float, Array, float]:
    """Return a link's row (v,) and its room; and of what it adds up, before anything cancels, the row and the size."""
    values, changes = np.zeros((2, start.size))
    for factors, given in ((values, said.values), (changes, said.changes)):
        for name, factor in given.items():
            factors[encoding.places[name]] += factor
    sizes = np.abs(values) + np.abs(changes)
    size = abs(said.constant) + float((sizes + np.abs(changes)) @ np.abs(start))
    return (values + changes) @ basis, -said.constant - float(values @ start), sizes @ np.abs(basis), size


def _let_pass(limits: Limits, encoding: Encoding, start: Array, basis: Array) -> tuple[Array, Array]:
    """Return what an audit lets pass of links: in proportion to |v| (m, v), and besides (m,)."""
    links = [link.expression for link in limits.parsed]
    # What cancels says nothing about moves.
    links = [one for one in links if any(one.values.get(name, 0.0) + one.changes.get(name, 0.0) for name in one.names)]
    found = [link_row(one, encoding, start, basis)[2:] for one in links]
    sizes = np.array([each for each, _ in found]).reshape(len(found), basis.shape[1])
    return LINK_SLACK * sizes, LINK_SLACK * np.array([size for _, size in found])


def _entries(
    encoding: Encoding, limits: Limits, start: Array, found: CostRegion, low: Array, high: Array
) -> Iterator[tuple[Array, float, float, bool, float, float, int]]:
    """Yield the entries of v, column by column; those that cannot move are left out.

    Of each: what it does to coordinates (d,), its bounds, whether it is whole, its costs, and its column.
    """

    def along(at: int, size: float) -> Array:
        vector = np.zeros(start.size)
        vector[at] = size
        return vector

    for number, column in enumerate(encoding.schema):
        place, flat = encoding.places[column.name], float(limits.columns.get(column.name, FREE).cost)
        at = place.start
        cost, step = found.costs[at], found.steps[at]
        if column.kind == "category":
            held = at + int(start[place].argmax())
            for level in range(at, place.stop):
                if level != held and high[level] > 0:
                    yield along(level, 1.0) - along(held, 1.0), 0.0, 1.0, True, flat, flat, number
            continue
        if step > 0:
            near = [NEARLY + 1e-15 * abs(end / step) for end in (low[at], high[at])]
            size, price = step, cost * step
            bottom, top = np.ceil(low[at] / step - near[0]), np.floor(high[at] / step + near[1])
        else:
            size, price, bottom, top = 1 / cost, 1.0, low[at] * cost, high[at] * cost
        if bottom < 0 or top > 0:
            yield along(at, size), min(bottom, 0.0), max(top, 0.0), bool(step > 0), price, flat, number
