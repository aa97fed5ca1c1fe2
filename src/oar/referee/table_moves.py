"""Every move on a table checked again, column by column, in the units that people know.

No code of the solvers is used, only what the limits say: values that a column can have, who may do what to it, links,
rules, what the move costs, and where it may end: scikit-learn's tree finds the neighbours there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.links import Link
from oar.actions.limits.rules import Comparison
from oar.people import Chunk, Population
from oar.people.tables.encoding import LARGEST
from oar.people.tables.schema import Column
from oar.problem import Problem
from oar.referee.contributions import Array, Mask, MoveCheck, MoveSums, Offences, endless, trainable

SLACK = 1e-9  # of a budget, as for plain moves
ROUNDING = 1e-9  # of the values that are compared
FREE = Limit()
WITH_EDGE, WITHOUT_EDGE = ("<=", ">=", "=="), ("<", ">", "!=")  # operators


class TableMoveCheck(MoveCheck):
    """Checks everyone's moves; only the first few offenders are put into words."""

    def __init__(self, problem: Problem, called: Callable[[int], str] | None = None) -> None:
        super().__init__(problem, called)
        self._name = called
        assert problem.limits is not None
        self.limits, self.encoding = problem.limits, problem.people.table
        self._units = {
            column.name: unit_of(problem.people, column, self.limits.columns.get(column.name, FREE))
            for column in self.encoding.schema
        }
        self._own = self._own_limits()

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Check the moves of some consecutive people; return those that can be trained on, and zero for others."""
        allowed = self.problem.allowance.of(chunk.start, chunk.stop)
        names = [f"person {name}" for name in self.problem.people.row_names[chunk.start : chunk.stop]]
        if self._name is not None:
            names = [self._name(row) for row in range(chunk.start, chunk.stop)]
        costs = self._check(chunk.features, moves, allowed, names, range(chunk.start, chunk.stop))
        self.sums += MoveSums(int(moves.any(axis=1).sum()), float(costs.sum()))
        return trainable(moves)

    def lengths(self, chunk: Chunk, moves: Array) -> Array:
        """Return what the moves of some consecutive people cost (m,); nothing is reported."""
        before, costs = chunk.features, np.zeros((len(moves), len(self.encoding.schema)))
        after = before + trainable(moves)
        for number, column in enumerate(self.encoding.schema):
            place, limit = self.encoding.places[column.name], self.limits.columns.get(column.name, FREE)
            costs[:, number] = self._cost(column, limit, before[:, place], after[:, place])
        return np.linalg.norm(costs, ord=self.problem.allowance.norm.p, axis=1)

    def check_query(self, move: Array) -> Array:
        """Check the query's own move; return it, or zero where nothing could be said about such a query."""
        if move.any():
            budget = np.array([self.problem.query_budget])
            self._check(self.problem.query_features[None], move[None], budget, ["the query"], range(-1, 0))
        return trainable(move[None])[0]

    def _check(self, before: Array, moves: Array, budgets: Array, names: list[str], people: range) -> Array:
        """Report everything that is broken; return what moves cost (n,)."""
        without_end = endless(moves)
        self._note(without_end, names, f"moves by something that is no number of at most {LARGEST:g}")
        after = before + trainable(moves)
        costs = np.zeros((len(before), len(self.encoding.schema)))
        for number, column in enumerate(self.encoding.schema):
            place, limit = self.encoding.places[column.name], self.limits.columns.get(column.name, FREE)
            was, now = before[:, place], after[:, place]
            everyone = np.ones(len(before), dtype=bool)
            for position, own in self._own.get(column.name, {}).items():
                if position in people:
                    alone = slice(position - people.start, position - people.start + 1)
                    everyone[alone] = False
                    if not own.immutable:
                        own = replace(own, step=limit.step)  # steps are everybody's
                    self._check_column(column, own, was[alone], now[alone], names[alone])
            self._check_column(column, limit, was, now, names, everyone)
            imputed = self.problem.people.imputed
            if imputed is not None and people.start >= 0:
                changed = (was != now).any(axis=1) & imputed[people.start : people.stop, number]
                self._note(changed, names, f"changes {column.name!r}, which was missing and filled in")
            if limit.missing:
                changed = (was != now).any(axis=1) & np.isin(was[:, 0], limit.missing)
                self._note(changed, names, f"changes {column.name!r}, where it stands for a missing value")
            costs[:, number] = self._cost(column, limit, was, now)
        self._check_links(before, after, names)
        self._check_rules(before, after, names)
        self._check_places(before, after, names, people)
        lengths = np.linalg.norm(costs, ord=self.problem.allowance.norm.p, axis=1)
        offences = Offences.of(
            ~(lengths <= budgets * (1 + SLACK)),
            lambda row: f"{names[row]} moves at a cost of {lengths[row]:.6g}, limit {budgets[row]:.6g}",
        )
        self.sums += MoveSums(offences=offences)
        return np.where(without_end, np.nan, lengths)

    def _check_column(
        self, column: Column, limit: Limit, was: Array, now: Array, names: list[str], who: Mask | None = None
    ) -> None:
        who = np.ones(len(was), dtype=bool) if who is None else who
        what = f"{column.name!r}"
        changed = (was != now).any(axis=1) & who
        if limit.immutable:
            self._note(changed, names, f"changes {what}, which is immutable")
        if column.kind == "category":
            whole = np.isin(now, (0.0, 1.0)).all(axis=1) & (now.sum(axis=1) == 1)
            self._note(who & ~whole, names, f"has a mixture of levels in {what}")
            if limit.levels is not None:
                allowed = np.array([level in limit.levels for level in column.levels])
                wrong = changed & whole & ~allowed[now.argmax(axis=1)]
                self._note(wrong, names, f"takes a level of {what} that is not allowed")
            return
        was, now = was[:, 0], now[:, 0]
        if column.whole:
            self._note(who & (now != np.rint(now)), names, f"has a value of {what} that is not whole")
        if limit.step is not None:
            steps = (now - was) / limit.step
            self._note(
                who & (np.abs(steps - np.rint(steps)) > 1e-6), names, f"moves {what} by no multiple of {limit.step}"
            )
        spans = {"boolean": (0.0, 1.0), "ordinal": (0.0, len(column.levels) - 1.0)}
        least, most = spans.get(column.kind, (-np.inf, np.inf))
        least = least if limit.lower is None else max(least, float(limit.lower))
        most = most if limit.upper is None else min(most, float(limit.upper))
        slack = ROUNDING * (np.abs(was) + np.abs(now) + np.abs(now - was))
        self._note(who & (now < np.minimum(was, least) - slack), names, f"puts {what} below {least:g}")
        self._note(who & (now > np.maximum(was, most) + slack), names, f"puts {what} above {most:g}")
        if limit.direction == "up":
            self._note(who & (now < was), names, f"lowers {what}, which may only rise")
        if limit.direction == "down":
            self._note(who & (now > was), names, f"raises {what}, which may only fall")

    def _check_links(self, before: Array, after: Array, names: list[str]) -> None:
        for link in self.limits.parsed:
            stood, stands, slack = self._stands(link, before, after)
            # Whoever broke it before may not break it further.
            broken = ~(stands <= np.maximum(stood, 0.0) + 10 * ROUNDING * slack)
            self._note(broken, names, f"breaks {link.text!r}")

    def _stands(self, link: Link, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Return by how much a link was broken before and is after, and the size of what that is a difference of."""
        said = link.expression
        slack = np.full(len(before), abs(said.constant))
        stood, stands = np.full(len(before), said.constant), np.full(len(before), said.constant)
        for factors, changes in ((said.values, False), (said.changes, True)):
            for name, factor in factors.items():
                was, now = (values[:, self.encoding.places[name].start] for values in (before, after))
                stood += 0.0 if changes else factor * was
                stands += factor * (now - was if changes else now)
                slack += abs(factor) * (np.abs(was) + np.abs(now))
        return stood, stands, slack

    def _check_rules(self, before: Array, after: Array, names: list[str]) -> None:
        """Evaluate rules as they are written: conditions, consequence, and whether anything of it has changed."""
        for rule in self.limits.parsed_rules:
            applies, changed = np.ones(len(before), dtype=bool), np.zeros(len(before), dtype=bool)
            for name in rule.names:
                place = self.encoding.places[name]
                changed |= (before[:, place] != after[:, place]).any(axis=1)
            for condition in rule.conditions:
                applies &= self._says(condition, before, after, surely=True)
            if isinstance(rule.consequence, Comparison):
                follows = self._says(rule.consequence, before, after, surely=False)
            else:
                follows = np.ones(len(before), dtype=bool)
                for link in rule.consequence:
                    _, stands, slack = self._stands(link, before, after)
                    follows &= stands <= 10 * ROUNDING * slack
            self._note(applies & changed & ~follows, names, f"breaks {rule.text!r}")

    def _says(self, said: Comparison, before: Array, after: Array, surely: bool) -> Mask:
        """Report where a comparison is true; what rounding may have decided counts as false if `surely`, else true."""
        column, place = self.encoding.schema[said.name], self.encoding.places[said.name]
        if column.kind == "category":
            held = after[:, place][:, column.levels.index(said.value)] == 1
            return held if said.operator == "==" else ~held
        was, now = before[:, place.start], after[:, place.start]
        slack = np.zeros_like(now) if column.whole else ROUNDING * (np.abs(was) + np.abs(now))
        return np.asarray(holds(said.operator, now, number_of(column, said.value), slack, surely))

    def _check_places(self, before: Array, after: Array, names: list[str], people: range) -> None:
        """Look for neighbours of everyone who has moved."""
        asked = self.limits.plausible
        moved = np.flatnonzero((before != after).any(axis=1))
        if asked is None or not moved.size:
            return
        who = np.array(people)[moved]
        far = self._places.kth(after[moved], who)
        own = np.zeros_like(far)
        members = who >= 0
        own[members] = self._places.own[who[members]]
        own[~members] = self._places.kth(before[moved][~members], who[~members])
        away = np.zeros(len(before), dtype=bool)
        away[moved] = ~(far <= np.maximum(self._places.usual, own) * (1 + 10 * ROUNDING))
        self._note(away, names, f"goes where fewer than {asked.neighbours} people are near")

    @cached_property
    def _places(self) -> NeighbourDistances:
        found = places_of(self.problem.people, self.limits, self._units)
        assert found is not None
        return found

    def _cost(self, column: Column, limit: Limit, was: Array, now: Array) -> Array:
        if column.kind == "category":
            return limit.cost * 0.5 * np.abs(now - was).sum(axis=1)
        return limit.cost * np.abs(now - was)[:, 0] / self._units[column.name]

    def _own_limits(self) -> dict[str, dict[int, Limit]]:
        """Return people's own limits by column and position."""
        found: dict[str, dict[int, Limit]] = {}
        index = self.problem.people.index if self.limits.own else None
        positions = {} if index is None else {name: place for place, name in enumerate(index)}
        for who, limits in self.limits.own.items():
            for name, limit in limits.items():
                found.setdefault(name, {})[positions.get(who, who)] = limit
        return found

    def _note(self, wrong: Mask, names: list[str], what: str) -> None:
        self.sums += MoveSums(offences=Offences.of(wrong, lambda row: f"{names[row]} {what}"))


def number_of(column: Column, value: Any) -> float:
    """Return a value of a column that is no category: as it is, or its rank."""
    return float(column.levels.index(value)) if column.kind == "ordinal" else float(value)


def unit_of(people: Population, column: Column, limit: Limit) -> float:
    """Return by how much a column changes at its cost: by its own unit, by a flip or switch, or by its spread."""
    if column.kind in ("boolean", "category"):
        return 1.0
    return float(limit.unit or spread_of(people, column) or 1.0)


def spread_of(people: Population, column: Column) -> float:
    """Return a column's standard deviation; 0 where it is rounding, so that it never varies."""
    values = np.asarray(people.features[:, people.table.places[column.name].start], dtype=np.float64)
    weights = people.first_weights
    centre = np.average(values, weights=weights)
    spread = float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))
    return spread if spread > ROUNDING * abs(centre) else 0.0


def places_of(
    people: Population, limits: Limits, units: Mapping[str, float] | None = None
) -> NeighbourDistances | None:
    """Return where people are, with the units of columns where they are known; None where people may go anywhere."""
    asked, columns = limits.plausible, []
    if asked is None:
        return None
    for column in people.table.schema:
        limit = limits.columns.get(column.name, FREE)
        unit = unit_of(people, column, limit) if units is None else units[column.name]
        columns.append((people.table.places[column.name], float(limit.cost) / unit))
    return NeighbourDistances(np.asarray(people.features, dtype=np.float64), columns, asked.neighbours, asked.share)


class NeighbourDistances:
    """Distances of people to their neighbours before any move.

    Args:
        features: (n, d).
        columns: the coordinates of each column, and what a difference of 1 (of a category, another level) costs.
        neighbours: k.
        share: of the people, whose k-th nearest is near enough.
    """

    def __init__(self, features: Array, columns: Sequence[tuple[slice, float]], neighbours: int, share: float) -> None:
        self.features, self.neighbours, self.share = features, neighbours, share
        self._scales = np.ones(features.shape[1])
        for place, cost in columns:
            # Another level differs in two coordinates.
            self._scales[place] = cost if place.stop - place.start == 1 else cost / 2**0.5

    @cached_property
    def usual(self) -> float:
        """How far the k-th nearest may be: a quantile over the people themselves."""
        return float(np.quantile(self.own, self.share))

    @cached_property
    def own(self) -> Array:
        """How far each member's k-th nearest is (n,)."""
        return self.kth(self.features, np.arange(len(self.features)))

    @cached_property
    def _tree(self) -> Any:
        from sklearn.neighbors import KDTree

        return KDTree(self.features * self._scales)

    def kth(self, rows: Array, who: NDArray[np.intp]) -> Array:
        """Return how far the k-th nearest of the others is from each row (m, d); `who` is negative for no member."""
        if not len(rows):
            return np.zeros(0)
        near, found = self._tree.query(rows * self._scales, k=self.neighbours + 1)
        others = np.where(found == who[:, None], np.inf, near)  # nobody is its own neighbour
        return np.sort(others, axis=1)[:, self.neighbours - 1]


def holds(operator: str, now: Any, edge: Any, slack: Any, surely: bool) -> Any:
    """Report whether a comparison in a rule is true, of numbers or arrays.

    What `slack` may have decided is false if `surely`, and true otherwise. An edge at which a condition begins to apply
    is meant to the digit; so is one at which a consequence ends.
    """
    if operator in (WITH_EDGE if surely else WITHOUT_EDGE):
        slack = 0.0 * slack
    more = -slack if surely else slack
    return {
        "<": now < edge + more,
        "<=": now <= edge + more,
        ">": now > edge - more,
        ">=": now >= edge - more,
        "==": abs(now - edge) <= slack,
        "!=": abs(now - edge) > slack,
    }[operator]
