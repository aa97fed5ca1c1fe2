"""Limits on a table's columns as a region of moves, measured in cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import FREE, Limit, Limits
from oar.actions.limits.links import Link
from oar.actions.limits.plausible import EVERYWHERE, Everywhere, Neighbourhood
from oar.actions.limits.rules import EncodedRule, Way, edges, holds
from oar.actions.sets.norms import Array, Norm
from oar.actions.sets.region import Levels, Region
from oar.people.tables.encoding import Encoding
from oar.people.tables.schema import Column

Rows = NDArray[np.intp]
ROUNDED = 1e-12  # share of a number that rounding may add to it


@dataclass(frozen=True, eq=False)
class CostRegion:
    """The feasible set of people's moves, in coordinates of cost u = costs · δ.

    Moves (n, r) are of some of the table's d coordinates: of those that somebody may move, once it is `reduced`.
    """

    region: Region  # where they may move to, categories mixed and steps not yet kept
    columns: Rows  # (r,) which of the table's coordinates these are
    costs: Array  # (r,) the cost of a unit of each
    steps: Array  # (r,) of which changes must be multiples, in the coordinates' own units; 0 where anything goes
    features: Array  # (n, d) everyone before any move
    where: Neighbourhood | Everywhere = EVERYWHERE  # people's neighbourhood, where moves must be plausible
    # (n,) the members' positions among the people; `plausible.NOBODY` for the query
    who: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    rules: ClassVar[tuple[EncodedRule, ...]] = ()
    ruled: ClassVar[Any] = None

    def _changed(self, change: Callable[[Region], Region], **others: Any) -> Self:
        """Return the same with its feasible set changed, and others of its parts."""
        return replace(self, region=change(self.region), **others)

    def of(self, rows: NDArray[np.intp]) -> Self:
        """Return what some of the people may do."""
        who = self.who[rows] if self.who.size else self.who
        return self._changed(lambda region: region.of(rows), features=self.features[rows], who=who)

    def reduced(self) -> Self:
        """Return the same of those coordinates alone that somebody may move: others only take time."""
        free = self.unruled.movable
        kept = {name: getattr(self, name)[free] for name in ("columns", "costs", "steps")}
        return self._changed(lambda region: region.along(free), **kept)

    @property
    def unruled(self) -> Region:
        """The feasible set if rules are looked after elsewhere."""
        return self.region

    def with_budgets(self, radii: Array) -> Self:
        """Return the same with other budgets, before rules narrow it."""
        return self._changed(lambda region: replace(region, radii=radii))

    def towards(self, moves: Array) -> Self:
        """Return the same with nobody going beyond these moves (n, r), in cost, nor against them."""
        low, high = np.minimum(moves, 0.0), np.maximum(moves, 0.0)
        return self._changed(
            lambda region: replace(region, lower=np.maximum(region.lower, low), upper=np.minimum(region.upper, high))
        )

    def plausible(self, moves: Array, some: Rows) -> NDArray[np.bool_]:
        """Report for which of some people moves (m, r), in cost, end where others are."""
        before = self.features[some]
        return self.where.near(self.after(moves, before), self.who[some], before)

    def after(self, moves: Array, before: Array) -> Array:
        """Return rows (m, d) of the table after moves (m, r), in cost."""
        after = before.copy()
        after[:, self.columns] += moves / self.costs
        return after

    def wide(self, values: Array) -> Array:
        """Return values (m, r) as of all the table's coordinates (m, d), 0 elsewhere."""
        found = np.zeros((len(values), self.features.shape[1]))
        found[:, self.columns] = values
        return found

    def exactly(self, moves: Array) -> Array:
        """Return moves (n, d) of all coordinates, in their own units, with whole steps free of rounding."""
        own, steps = moves / self.costs + 0.0, np.where(self.steps > 0, self.steps, 1.0)
        return self.wide(np.where(self.steps > 0, np.rint(own / steps) * steps, own))


@dataclass(frozen=True, eq=False)
class RuledRegion(CostRegion):
    """The same where there are if-then rules: `region` keeps each of them in one way, in which staying keeps it."""

    # the rules, and everyone's region without them
    ruled: TableRules = field(kw_only=True)  # type: ignore[misc]

    @property
    def rules(self) -> tuple[EncodedRule, ...]:  # type: ignore[override]
        """The rules."""
        return self.ruled.rules

    @property
    def unruled(self) -> Region:
        """The feasible set if rules are looked after elsewhere."""
        return self.ruled.region

    def _changed(self, change: Callable[[Region], Region], **others: Any) -> Self:
        """Return the same with both feasible sets changed, and others of its parts."""
        return super()._changed(change, ruled=replace(self.ruled, region=change(self.ruled.region)), **others)

    def with_budgets(self, radii: Array) -> Self:
        """Return the same with other budgets, before rules narrow it."""
        return replace(self, ruled=replace(self.ruled, region=replace(self.unruled, radii=radii)))


@dataclass(frozen=True, eq=False)
class TableRules:
    """Rules of a table, and everyone's region without them."""

    rules: tuple[EncodedRule, ...]
    encoding: Encoding
    costs: Array
    region: Region

    def kept(self, before: Array, after: Array) -> NDArray[np.bool_]:
        """Report whose rows (n, d) after a move keep all rules."""
        fine = np.ones(len(after), dtype=bool)
        for rule in self.rules:
            fine &= rule.kept(self.encoding, before, after)
        return fine

    def narrowed(self, region: Region, before: Array, after: Array, still: NDArray[np.bool_]) -> Region:
        """Return a region, in all coordinates, in which everyone keeps each rule in one way that holds in `after`.

        The region is of further moves from `after`, rows that keep all rules, and contains staying there. `still` (d,)
        are coordinates that do not move any more: a way in which these alone keep a rule costs nothing, so it comes
        first.
        """
        lower, upper = region.lower.copy(), region.upper.copy()
        rows: list[Array] = []
        room: list[Array] = []
        for rule in self.rules:
            waiting = np.ones(len(after), dtype=bool)
            for way in sorted(rule.ways, key=lambda way: not self._settled(way, still)):  # otherwise as they are
                chosen = waiting & holds(way, self.encoding, before, after)
                waiting &= ~chosen
                if chosen.any() and not self._settled(way, still):
                    self._narrow(way, chosen, (before, after), (lower, upper), region, (rows, room), still)
            for name in rule.names:  # broken before, and nothing of it may change
                place = self.encoding.places[name]
                lower[waiting, place], upper[waiting, place] = 0.0, 0.0
        links = region.links if len(region.links) else np.zeros((0, after.shape[1]))
        old_room = region.room if len(region.links) else np.zeros((len(after), 0))
        if rows:
            links, old_room = np.vstack([links, *rows]), np.column_stack([old_room, *room])
        return replace(region, lower=lower, upper=upper, links=links, room=old_room)

    def _settled(self, way: Way, still: NDArray[np.bool_]) -> bool:
        """Report whether a way speaks of coordinates alone that do not move any more."""
        names = [name for each in way for name in each.names]
        return all(still[self.encoding.places[name]].all() for name in names)

    def _narrow(
        self,
        way: Way,
        chosen: NDArray[np.bool_],
        rows: tuple[Array, Array],
        bounds: tuple[Array, Array],
        region: Region,
        links: tuple[list[Array], list[Array]],
        still: NDArray[np.bool_],
    ) -> None:
        """Have the chosen people keep to one way: by bounds, levels or links."""
        (before, after), (lower, upper) = rows, bounds
        for each in way:
            if isinstance(each, Link):
                values, changes = _factors(each, self.encoding)  # of further moves u, in cost, from `after`
                normal = np.where(still, 0.0, (values + changes) / self.costs)
                room = np.maximum(-each.expression.constant - after @ values - (after - before) @ changes, 0.0)
                if (normal != 0).sum() == 1:  # of one coordinate it is a bound, which is quicker to keep
                    at = int(np.flatnonzero(normal)[0])
                    if normal[at] > 0:
                        upper[chosen, at] = np.minimum(upper[chosen, at], room[chosen] / normal[at])
                    else:
                        lower[chosen, at] = np.maximum(lower[chosen, at], room[chosen] / normal[at])
                    continue
                # Where it does not apply, there is room for everything that a budget reaches in any norm.
                spare = np.abs(normal).sum() * region.radii + 1.0
                if normal.any():
                    links[0].append(normal[None])
                    links[1].append(np.where(chosen, room, spare)[:, None])
                continue
            place = self.encoding.places[each.name]
            if each.levels is not None:
                others = [place.start + at for at in range(place.stop - place.start) if at not in each.levels]
                upper[np.ix_(chosen, others)] = 0.0
                continue
            at, cost = place.start, self.costs[place.start]
            low, high = edges(each, 1 / cost)
            least, most = np.minimum(low - after[:, at], 0.0) * cost, np.maximum(high - after[:, at], 0.0) * cost
            lower[chosen, at] = np.maximum(lower[chosen, at], least[chosen])
            upper[chosen, at] = np.minimum(upper[chosen, at], most[chosen])


def measure(
    limits: Limits,
    encoding: Encoding,
    features: Array,
    weights: Array,
    radii: Array,
    norm: Norm,
    index: Any = None,
    still: NDArray[np.bool_] | bool = False,
) -> CostRegion:
    """Return what people with these features (n, d) may do; `limits` are checked, and name people as `index` does.

    Values that are `still` (n, columns) stay as they are, whatever limits say: they were filled in, and are nobody's.
    So do those that stand for a missing one.

    A switch from one level to another changes two coordinates by 1, so that it costs ‖(c, c)‖_p, which is to be the
    category's cost.
    """
    spreads = spreads_of(features, weights)
    lower, upper = np.full_like(features, -np.inf), np.full_like(features, np.inf)
    costs, steps = np.ones(encoding.dimensions), np.zeros(encoding.dimensions)
    levels = []
    for column in encoding.schema:
        place, limit = encoding.places[column.name], limits.columns.get(column.name, FREE)
        lower[:, place], upper[:, place] = _bounds(column, limit, features[:, place])
        costs[place] = _cost(column, limit, spreads[place], norm)
        if column.kind not in ("boolean", "category") and not limit.unit and not spreads[place].any():
            lower[:, place] = upper[:, place] = 0.0  # it never varies, so nothing says what a change would cost
        steps[place] = limit.step or float(column.whole)
        if column.kind == "category":
            levels.append(Levels(place, features[:, place].argmax(axis=1), float(costs[place.start])))
    for person, own in limits.own.items():
        row = person if index is None else index.get_loc(person)
        for name, limit in own.items():
            place, column = encoding.places[name], encoding.schema[name]
            bounds = _bounds(column, limit, features[row : row + 1, place])
            if costs[place].any() and (limit.unit or column.kind in ("boolean", "category") or spreads[place].any()):
                lower[row : row + 1, place], upper[row : row + 1, place] = bounds
    still = still | limits.coded(encoding, features)
    for number, column in enumerate(encoding.schema if still.any() else ()):
        lower[still[:, number], encoding.places[column.name]] = 0.0
        upper[still[:, number], encoding.places[column.name]] = 0.0
    links, room = _links(limits, encoding, features)
    everywhere = np.arange(encoding.dimensions)
    region = Region(norm, radii, lower * costs, upper * costs, tuple(levels), links / costs, room)
    if not limits.rules:
        return CostRegion(region, everywhere, costs, steps, features)
    ruled = TableRules(limits.ruled(encoding.schema), encoding, costs, region)
    narrowed = ruled.narrowed(region, features, features, np.zeros(encoding.dimensions, dtype=bool))
    return RuledRegion(narrowed, everywhere, costs, steps, features, ruled=ruled)


def on_bounds(limits: Limits, encoding: Encoding, before: Array, moves: Array) -> Array:
    """Return moves (n, d) of which none ends past a bound by what rounding adds: 0 is 0, and not -1e-16."""
    moves = moves.copy()
    for name, limit in limits.columns.items():
        if encoding.schema[name].kind != "number":
            continue
        at = encoding.places[name].start
        stood = before[:, at]
        for _, bound, sign in limit.bounds:
            beyond = -sign * (bound - stood - moves[:, at])
            # Who goes further has a limit of its own.
            past = (beyond > 0) & (beyond <= ROUNDED * (abs(bound) + np.abs(stood) + np.abs(moves[:, at])))
            snapped = past & (-sign * (stood - bound) >= 0) & (moves[:, at] != 0)
            moves[:, at] = np.where(snapped, bound - stood, moves[:, at])
    return moves


def distance_scales(limits: Limits, encoding: Encoding, spreads: Array) -> Array:
    """Return what coordinates (d,) are multiplied by, so that a category's switch is as far as it costs."""
    scales = np.ones(encoding.dimensions)
    for column in encoding.schema:
        place = encoding.places[column.name]
        scales[place] = _cost(column, limits.columns.get(column.name, FREE), spreads[place], Norm(2.0))
    return scales


def spreads_of(features: Array, weights: Array) -> Array:
    """Return everyone's standard deviations (d,); the rounding of a column that never varies is no spread."""
    centres = weights @ features
    spreads = np.sqrt(np.maximum(weights @ (features - centres) ** 2, 0.0))
    spreads[spreads <= 1e-9 * np.abs(centres)] = 0.0
    return spreads


def _bounds(column: Column, limit: Limit, values: Array) -> tuple[Array, Array]:
    """Return how far coordinates (n, w) may fall and rise; 0 is always between."""
    stay = np.zeros_like(values)
    if limit.immutable:
        return stay, stay
    if column.kind == "category":
        allowed = np.array([limit.allows(level) for level in column.levels])
        return np.full_like(values, -1.0), np.broadcast_to(allowed, values.shape).astype(np.float64)
    least, most = limit.span_of(column)
    down = stay if limit.direction == "up" else np.minimum(least - values, 0.0)
    up = stay if limit.direction == "down" else np.maximum(most - values, 0.0)
    return down, up


def _cost(column: Column, limit: Limit, spreads: Array, norm: Norm) -> Array:
    if column.kind == "category":
        return np.full_like(spreads, limit.cost / 2 ** (0.0 if norm.p == np.inf else 1 / norm.p))
    if column.kind == "boolean":
        return np.full_like(spreads, limit.cost)
    unit = limit.unit or np.where(spreads > 0, spreads, 1.0)  # a column that never varies has no spread to go by
    return np.asarray(limit.cost / unit)


def _links(limits: Limits, encoding: Encoding, features: Array) -> tuple[Array, Array]:
    """Return rows (m, d) and room (n, m) of (α + β)·δ ≤ −c − α·x, with room of at least 0."""
    parsed = limits.parsed
    rows, room = np.zeros((len(parsed), encoding.dimensions)), np.zeros((len(features), len(parsed)))
    for number, link in enumerate(parsed):
        values, changes = _factors(link, encoding)
        rows[number] = changes + values
        room[:, number] = np.maximum(-link.expression.constant - features @ values, 0.0)
    kept = rows.any(axis=1)  # what cancels says nothing about moves
    return rows[kept], room[:, kept]


def _factors(link: Link, encoding: Encoding) -> tuple[Array, Array]:
    """Return a link's factors of values and of changes, (d,) both."""
    values, changes = np.zeros((2, encoding.dimensions))
    for row, factors in ((values, link.expression.values), (changes, link.expression.changes)):
        for name, factor in factors.items():
            row[encoding.places[name]] += factor
    return values, changes
