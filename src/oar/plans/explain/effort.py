"""The effort that a plan asks for, member by member and column by column, in the units of budgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import distance_scales, spreads_of
from oar.people.tables.encoding import Encoding
from oar.people.tables.schema import Column
from oar.people.wording import shown
from oar.plans.moves.changes_table import columns_of
from oar.plans.plan import Plan
from oar.tolerances import FEW_PEOPLE

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Efforts:
    """Everyone's effort.

    Attributes:
        plan: the plan.
        names: the table's columns, or the features.
        moves: (n, d) in the features' units.
        each: (n, columns) what each column's change costs.
    """

    plan: Plan
    names: tuple[str, ...]
    moves: Array
    each: Array

    @staticmethod
    def of(plan: Plan) -> Efforts:
        """Measure a plan: on a table by the limits' costs, otherwise by how far features move."""
        people = plan.problem.people
        moves = people.rows_moved(plan)
        encoding, limits = columns_of(people), plan.problem.limits
        if limits is None:
            return Efforts(plan, encoding.schema.names, moves, np.abs(moves))
        weights = people.first_row_weights
        spreads = spreads_of(np.asarray(people.features, dtype=np.float64), weights / weights.sum())
        # A switch of a category moves two coordinates, and these scales make its Euclidean length its cost.
        moved = np.abs(moves) * distance_scales(limits, encoding, spreads)
        places = (encoding.places[name] for name in encoding.schema.names)
        each = np.column_stack([np.linalg.norm(moved[:, place], axis=1) for place in places])
        return Efforts(plan, encoding.schema.names, moves, each)

    @cached_property
    def totals(self) -> Array:
        """The cost of each member's whole move (n,), in the norm of the budget."""
        return self.plan.problem.allowance.norm.length(self.each)

    @cached_property
    def movers(self) -> Mask:
        """The mask of those who move (n,)."""
        return np.asarray(self.moves.any(axis=1))

    def by_column(self) -> list[dict[str, Any]]:
        """Return how many change each column, what that costs in all, and what they do; most effort first."""
        found: list[dict[str, Any]] = []
        for number, name in enumerate(self.names):
            effort = self.each[:, number]
            changed = np.asarray(self.moves[:, self._columns.places[name]].any(axis=1))
            if changed.any():
                row = {"column": name, "movers": int(changed.sum()), "effort": float(effort.sum())}
                found.append(row | {"change": self._in_words(name, changed)})
        return sorted(found, key=lambda row: -row["effort"])

    def by_group(self, groups: Any) -> list[dict[str, Any]]:
        """Return, for each value of `groups` (n,), how many there are and move, and what that costs them."""
        allowed = self.plan.problem.allowance.everyones(self.plan.problem.people.size) > 0
        (values, codes), rows = unique_words(groups), []
        for code, value in enumerate(values):
            inside = codes == code
            members, movers, effort = int(inside.sum()), int((inside & self.movers).sum()), self.totals[inside].sum()
            rows.append(
                {
                    "group": value,
                    "members": members,
                    "participants": int((inside & allowed).sum()),
                    "movers": movers,
                    "effort": float(effort),
                    "effort_per_member": float(effort / members) if members else 0.0,
                    "effort_per_mover": float(effort / movers) if movers else None,
                }
            )
        return rows

    @cached_property
    def _columns(self) -> Encoding:
        return columns_of(self.plan.problem.people)

    def _in_words(self, name: str, changed: Mask) -> str:
        """Say what happens to a column, without saying it of anybody."""
        column, place, count = self._columns.schema[name], self._columns.places[name], int(changed.sum())
        if count < FEW_PEOPLE:
            return f"by fewer than {FEW_PEOPLE} people"
        if column.kind == "category":
            return _switches(column, self.moves[changed][:, place])
        steps = self.moves[changed, place.start]
        up = int((steps > 0).sum())
        if column.kind == "boolean":
            return f"to yes {up:,}, to no {count - up:,}"
        return f"up {up:,}, down {count - up:,}"  # a median would be one person's own change


def _switches(column: Column, moves: Array) -> str:
    """Return a category's most frequent switches."""
    ways = moves.argmin(axis=1) * len(column.levels) + moves.argmax(axis=1)
    kinds, counts = np.unique(ways, return_counts=True)
    told = [
        f"{shown(column.levels[kinds[order] // len(column.levels)])} → "
        f"{shown(column.levels[kinds[order] % len(column.levels)])}: {counts[order]:,}"
        for order in np.argsort(-counts, kind="stable")[:3]
        if counts[order] >= FEW_PEOPLE
    ]
    more = counts.sum() - np.sort(counts)[::-1][: len(told)].sum()
    return "; ".join([*told, f"others: {more:,}"] if more else told)


def unique_words(groups: Any) -> tuple[list[str], NDArray[np.intp]]:
    """Return the different values as texts, and everyone's place among them; a gap is called "missing"."""
    import pandas

    if getattr(getattr(groups, "dtype", None), "ordered", False):
        codes, values = np.asarray(groups.cat.codes), groups.cat.categories
    else:
        codes, values = pandas.factorize(pandas.Series(groups).astype(object), sort=False, use_na_sentinel=True)
    words = [str(value) for value in values]
    if (codes < 0).any():
        codes, words = np.where(codes < 0, len(words), codes), [*words, "missing"]
    different = {word: place for place, word in enumerate(dict.fromkeys(words))}  # 1 and "1" read the same
    return list(different), np.array([different[word] for word in words], dtype=np.intp)[codes]
