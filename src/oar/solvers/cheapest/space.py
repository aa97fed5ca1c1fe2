"""The feasible changes of one person, as numbers for a programme.

A change is a vector v of a few kinds of entries, and δ = B v is what it does to the person's coordinates:

    a number                    v is its cost, of any size              B: 1 / (cost of a unit)
    whole steps                 v counts them                           B: the step
    a level of a category       v is 1 if it is switched to, else 0     B: e_level − e_held;  Σ v ≤ 1 in a category

so that |v_i| prices_i is what an entry costs, and limits are low ≤ v ≤ high and rows v ≤ room. v = 0 always keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.links import LinearExpression
from oar.actions.limits.plausible import EVERYWHERE, NOBODY, Everywhere, Neighbourhood
from oar.actions.limits.rules import EncodedRule
from oar.actions.sets.cost_region import FREE, measure
from oar.actions.sets.norms import Norm
from oar.models.training import Array
from oar.people.tables.encoding import Encoding

COSTS = ("l1", "l2", "l0")
NEARLY = 1e-9  # share of a step by which a bound may miss a whole number of them
LINK_SLACK = 1.001e-9  # of what a link adds up: what an audit lets pass, and a little more
QUERY = 2  # the query's row beside two that stand for everybody


@dataclass(frozen=True, eq=False)
class Space:
    """One person's possible changes.

    Attributes:
        encoding: of the table.
        limits: checked; for the bounds that numbers are put back into.
        start: (d,) the person before.
        kind: "l1", "l2" or "l0".
        basis: (d, v) B.
        low, high: (v,) bounds of v.
        whole: (v,) which entries are whole numbers.
        prices: (v,) the cost of a unit of each entry.
        flat: (v,) what a change of the entry's column costs in "l0".
        column: (v,) the number of the entry's column in the schema.
        rows: (m, v), room: (m,): links, and at most one level a category.
        rules: if-then rules; they are no rows, because they can be kept in several ways (`rules`).
        where: people's neighbourhood, in which changes must end.
        row_errors: (m, v), row_slack: (m,): what an audit lets pass of rows, in proportion to |v| and besides.
        spread: (d,) everybody's standard deviations.
    """

    encoding: Encoding
    limits: Limits
    start: Array
    kind: str
    basis: Array
    low: Array
    high: Array
    whole: NDArray[np.bool_]
    prices: Array
    flat: Array
    column: NDArray[np.intp]
    rows: Array
    room: Array
    row_errors: Array
    row_slack: Array
    spread: Array
    rules: tuple[EncodedRule, ...] = ()
    where: Neighbourhood | Everywhere = EVERYWHERE

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
    """The condition to be reached: slopes · δ + leads ≥ margins.

    Attributes:
        slopes: (r, d) how leads change with coordinates.
        leads: (r,) those of the person before.
        margins: (r,) above which they are no ties.
        scales: (r,) the size of what leads are differences of.
    """

    slopes: Array
    leads: Array
    margins: Array
    scales: Array

    def at(self, offset: Array) -> Array:
        """Return the leads after a move δ."""
        return self.leads + self.slopes @ offset


def space_of(
    limits: Limits,
    encoding: Encoding,
    spread: tuple[Array, Array],
    start: Array,
    kind: str,
    own: Mapping[str, Limit],
    where: Neighbourhood | Everywhere = EVERYWHERE,
) -> Space:
    """Return what a person may change: `limits` as checked, with its own ones in place of everybody's.

    `spread` is everybody's mean and standard deviation (d,).
    """
    centre, deviation = spread
    # Two people at mean ± deviation have everybody's mean and deviation; the query weighs nothing.
    rows = np.vstack([centre - deviation, centre + deviation, start])
    theirs = Limits(limits.columns, limits.links, {QUERY: own} if own else {})
    norm = Norm(2.0 if kind == "l2" else 1.0)
    with np.errstate(invalid="ignore"):
        found = measure(theirs, encoding, rows, np.array([0.5, 0.5, 0.0]), np.full(3, np.inf), norm)
    low, high = (bounds[QUERY] / found.costs for bounds in (found.region.lower, found.region.upper))
    merged = Limits({**limits.columns, **own}, limits.links, {}, limits.rules, limits.plausible)
    entries = _Entries(encoding, merged, start, kind, found.costs, found.steps, low, high)
    basis = entries.basis()
    links = found.region.links * found.costs if len(found.region.links) else np.zeros((0, start.size))
    room = found.region.room[QUERY] if len(links) else np.zeros(0)
    groups = entries.groups()
    errors, slack = _let_pass(theirs, encoding, start, basis)
    return Space(
        encoding=encoding,
        limits=merged,
        start=start,
        kind=kind,
        basis=basis,
        low=np.array(entries.low),
        high=np.array(entries.high),
        whole=np.array(entries.whole, dtype=bool),
        prices=np.array(entries.prices),
        flat=np.array(entries.flat),
        column=np.array(entries.column, dtype=np.intp),
        rows=np.vstack([links @ basis, groups]),
        room=np.concatenate([room, np.ones(len(groups))]),
        row_errors=np.vstack([errors, np.zeros_like(groups)]),
        row_slack=np.concatenate([slack, np.zeros(len(groups))]),
        spread=deviation,
        rules=limits.ruled(encoding.schema),
        where=where,
    )


def link_row(said: LinearExpression, encoding: Encoding, start: Array, basis: Array) -> tuple[Array, Array, float]:
    """Return a link's row (v,); and of what it adds up, before anything cancels, the row and the size at the start."""
    values, changes = np.zeros(start.size), np.zeros(start.size)
    for name, factor in said.values.items():
        values[encoding.places[name]] += factor
    for name, factor in said.changes.items():
        changes[encoding.places[name]] += factor
    sizes = np.abs(values) + np.abs(changes)
    size = abs(said.constant) + float((np.abs(values) + 2 * np.abs(changes)) @ np.abs(start))
    return (values + changes) @ basis, sizes @ np.abs(basis), size


def _let_pass(limits: Limits, encoding: Encoding, start: Array, basis: Array) -> tuple[Array, Array]:
    """Return what an audit lets pass of links: in proportion to |v| (m, v), and besides (m,)."""
    errors, slack = [], []
    for link in limits.parsed:
        said = link.expression
        if all(said.values.get(name, 0.0) + said.changes.get(name, 0.0) == 0 for name in said.names):
            continue  # what cancels says nothing about moves
        _, sizes, size = link_row(said, encoding, start, basis)
        errors.append(LINK_SLACK * sizes)
        slack.append(LINK_SLACK * size)
    return np.array(errors).reshape(len(errors), basis.shape[1]), np.array(slack)


class _Entries:
    """The entries of v, gathered column by column; those that cannot move are left out."""

    def __init__(
        self,
        encoding: Encoding,
        limits: Limits,
        start: Array,
        kind: str,
        costs: Array,
        steps: Array,
        low: Array,
        high: Array,
    ) -> None:
        self.dimensions = start.size
        self.vectors: list[Array] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.whole: list[bool] = []
        self.prices: list[float] = []
        self.flat: list[float] = []
        self.column: list[int] = []
        self.categories: list[int] = []
        for number, column in enumerate(encoding.schema):
            place, limit = encoding.places[column.name], limits.columns.get(column.name, FREE)
            at = place.start
            if column.kind == "category":
                self._levels(number, place, start, high, limit.cost)
            elif steps[at] > 0:
                near = [NEARLY + 1e-15 * abs(end / steps[at]) for end in (low[at], high[at])]
                whole = np.ceil(low[at] / steps[at] - near[0]), np.floor(high[at] / steps[at] + near[1])
                self._add(number, at, steps[at], whole, True, costs[at] * steps[at], limit.cost)
            else:
                bounds = low[at] * costs[at], high[at] * costs[at]
                self._add(number, at, 1 / costs[at], bounds, False, 1.0, limit.cost)

    def _add(
        self, number: int, at: int, size: float, bounds: tuple[float, float], whole: bool, price: float, flat: float
    ) -> None:
        if bounds[0] < 0 or bounds[1] > 0:
            vector = np.zeros(self.dimensions)
            vector[at] = size
            self._append(number, vector, (min(bounds[0], 0.0), max(bounds[1], 0.0)), whole, price, flat)

    def _levels(self, number: int, place: slice, start: Array, high: Array, cost: float) -> None:
        held = place.start + int(start[place].argmax())
        for at in range(place.start, place.stop):
            if at != held and high[at] > 0:
                vector = np.zeros(self.dimensions)
                vector[at], vector[held] = 1.0, -1.0
                self._append(number, vector, (0.0, 1.0), True, cost, cost)
                if number not in self.categories:
                    self.categories.append(number)

    def _append(
        self, number: int, vector: Array, bounds: tuple[float, float], whole: bool, price: float, flat: float
    ) -> None:
        self.vectors.append(vector)
        self.low.append(float(bounds[0]))
        self.high.append(float(bounds[1]))
        self.whole.append(whole)
        self.prices.append(float(price))
        self.flat.append(float(flat))
        self.column.append(number)

    def basis(self) -> Array:
        return np.column_stack(self.vectors) if self.vectors else np.zeros((self.dimensions, 0))

    def groups(self) -> Array:
        """Rows that say: at most one level of each category."""
        return np.array([[float(own == number) for own in self.column] for number in self.categories]).reshape(
            len(self.categories), len(self.column)
        )
