"""The terms of a card for a table: its columns, what may be done to each, links and rules; and a member's response."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit
from oar.actions.limits.links import Link
from oar.actions.limits.rules import EncodedRule
from oar.checks import choose
from oar.people.labels import plain
from oar.people.tables.arrays import is_frame, is_series
from oar.people.tables.encoding import USUAL, Encoding
from oar.people.tables.schema import Column, Schema
from oar.pictures.notebook import ShownAsText
from oar.plans.cards.response import ByPerson
from oar.plans.cards.table.score import Scaler

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
ALMOST = 1e-10  # of a step: what counts as a whole one
ANOTHER = "(another)"  # stands on a card for all levels that too few people have for them to be named


@dataclass(frozen=True)
class ColumnTerms:
    """The limits of one column, by its coordinates: an ordinal's are ranks.

    Attributes:
        column: its name, kind and levels.
        movable: whether anybody may change it.
        lower, upper: bounds; infinite where there is none. Who is outside may not go further out.
        direction: "up", "down" or None.
        step: changes are multiples of it; 0 where any change will do. Of a category 1, which is a switch.
        cost: of a change by 1; of a category, of a switch. 0 where it is not movable.
        choices: of a category, positions of the levels that may be taken; else empty.
        pooled: whether the last level stands for all that are not named.
        per_spread: what a change by a standard deviation costs, where `cost` follows from that, rounded up; else 0.
        missing: values that stand for a missing one: who has one of them keeps it.
    """

    column: Column
    movable: bool
    lower: float = -math.inf
    upper: float = math.inf
    direction: str | None = None
    step: float = 0.0
    cost: float = 0.0
    choices: tuple[int, ...] = ()
    pooled: bool = False
    per_spread: float = 0.0
    missing: tuple[float, ...] = ()

    def asked(self, budget: float) -> bool:
        """Report whether a member may change this at all, and a budget pays for the smallest change of it."""
        return self.movable and self.step * self.cost <= budget * (1 + ALMOST)

    def known(self, value: Any) -> Any:
        """Return a person's value as the card names it."""
        own = plain(value)
        usual = type(own) in USUAL and own == own  # anything else, and a gap, is for the encoding to refuse
        return self.column.levels[-1] if self.pooled and usual and own not in self.column.levels else value


@dataclass(frozen=True, eq=False)
class TableTerms:
    """All columns' terms, and what holds between them.

    Attributes:
        columns: in the table's order.
        links: of the people's columns; each with `text`.
        rules: as coordinates know them.
        scaler: how the model sees coordinates.
        scaled: "refitted" or "frozen" where there is a scaler, None where there is none.
    """

    columns: tuple[ColumnTerms, ...]
    links: tuple[Link, ...]
    rules: tuple[EncodedRule, ...]
    scaler: Scaler
    scaled: str | None

    @cached_property
    def encoding(self) -> Encoding:
        """From rows to coordinates."""
        return Encoding(Schema(tuple(each.column for each in self.columns)), (object,) * len(self.columns))

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Each column's coordinates."""
        return tuple(self.encoding.places[each.column.name] for each in self.columns)

    @cached_property
    def bound(self) -> tuple[int, ...]:
        """Positions of movable columns of which links or rules speak."""
        names = {name for link in self.links for name in link.expression.names}
        names |= {name for rule in self.rules for name in rule.names}
        return tuple(at for at, each in enumerate(self.columns) if each.movable and each.column.name in names)

    def encode_row(self, row: Any, argument: str) -> Array:
        """Return the coordinates (d,) of one person; levels that the card does not name are the pooled one."""
        pooled = [each for each in self.columns if each.pooled]
        given = row.iloc[0] if is_frame(row) and len(row) == 1 else row
        if pooled and (is_series(given) or isinstance(given, Mapping)):
            row = dict(given.items())
            row |= {each.column.name: each.known(row[each.column.name]) for each in pooled if each.column.name in row}
        return self.encoding.encode_row(row, argument)

    def places_in(self, encoding: Encoding) -> NDArray[np.intp] | None:
        """Return where on the card the coordinates (d,) of a table are; None where it is not a table of the card's."""
        if tuple(each.column.name for each in self.columns) != encoding.schema.names:
            return None
        found: list[int] = []
        for each, place, theirs in zip(self.columns, self.places, encoding.schema, strict=True):
            column = each.column
            if column.kind != theirs.kind or (column != theirs and not each.pooled):
                return None
            if column.kind != "category":
                found.append(place.start)
                continue
            named = {level: place.start + at for at, level in enumerate(column.levels[: -1 if each.pooled else None])}
            if not named.keys() <= set(theirs.levels):
                return None
            found += [named.get(level, place.stop - 1) for level in theirs.levels]
        return np.array(found, dtype=np.intp)

    def seen(self, rows: Array, places: NDArray[np.intp]) -> Array:
        """Return rows (n, d) of a table as the card knows them: of levels that it does not name, the pooled one."""
        found = np.zeros((len(rows), self.encoding.dimensions))
        for theirs, ours in enumerate(places):
            found[:, ours] += rows[:, theirs]
        return found

    def given_back(self, moves: Array, rows: Array, places: NDArray[np.intp]) -> Array:
        """Return moves of the card's coordinates as those of a table: who leaves the pooled level leaves its own."""
        found = moves[:, places]
        for each, place in zip(self.columns, self.places, strict=True):
            if each.pooled:
                pooled = places == place.stop - 1
                found[:, pooled] *= rows[:, pooled]
        return found

    def room(self, rows: Array, keep: Iterable[str] = ()) -> Room:
        """Return how far people with coordinates (n, d) may go in each column; `keep` names columns that stay."""
        names = self.encoding.schema.names
        kept = {choose("keep", name, names) for name in keep}
        size = (len(rows), len(self.columns))
        found = Room(np.zeros(size), np.zeros(size), np.zeros(rows.shape, dtype=bool))
        for at, (each, place) in enumerate(zip(self.columns, self.places, strict=True)):
            if not each.movable or each.column.name in kept:
                continue
            if each.column.kind == "category":
                found.takes[:, [place.start + level for level in each.choices]] = True
                continue
            values = rows[:, place.start]
            if each.direction != "up":
                found.fall[:, at] = np.maximum(values - each.lower, 0.0)
            if each.direction != "down":
                found.rise[:, at] = np.maximum(each.upper - values, 0.0)
            coded = np.isin(values, each.missing)
            found.fall[coded, at], found.rise[coded, at] = 0.0, 0.0
        return found

    def values_of(self, point: Array) -> dict[str, Any]:
        """Return a person's values by column, as Python's own text, numbers and booleans."""
        read: dict[str, Any] = {"ordinal": round, "boolean": bool, "integer": round, "number": float}
        values: dict[str, Any] = {}
        for each, place in zip(self.columns, self.places, strict=True):
            name, kind, levels = each.column.name, each.column.kind, each.column.levels
            held = point[place].argmax() if kind == "category" else read[kind](float(point[place.start]))
            values[name] = levels[held] if kind in ("category", "ordinal") else held
        return values


@dataclass(frozen=True, eq=False)
class Room(ByPerson):
    """The room that people have: down and up (n, columns), in coordinates, and levels that they may take (n, d)."""

    fall: Array
    rise: Array
    takes: Mask

    def keep(self, terms: TableTerms, still: Mask) -> None:
        """Keep values (n, columns) as they are."""
        self.fall[still], self.rise[still] = 0.0, 0.0
        for at, place in enumerate(terms.places):
            self.takes[still[:, at], place] = False

    def narrow(self, terms: TableTerms, person: int, row: Array, name: str, limit: Limit) -> None:
        """Keep one person, at coordinates (d,), within a limit of its own too; it has been checked."""
        at = terms.encoding.schema.names.index(name)
        column, place = terms.columns[at].column, terms.places[at]
        if column.kind == "category":
            self.takes[person, place] &= [not limit.immutable and limit.allows(level) for level in column.levels]
            return
        value, (lower, upper) = float(row[place.start]), limit.span
        for room, way, far in ((self.fall, "down", value - lower), (self.rise, "up", upper - value)):
            still = limit.immutable or limit.direction not in (None, way)
            room[person, at] = min(room[person, at], 0.0 if still else max(far, 0.0))


@dataclass(frozen=True, eq=False)
class Answer(ShownAsText):
    """The response of one member of a table to a card.

    Attributes:
        before, after: its values by column, as text, numbers and booleans.
        move: (d,), the change of its coordinates, a category's by level.
        cost: what that costs, in the card's norm; at most the budget.
        gain: by how much its score rises: to first order, the query's loss falls by this times the member's share of
            all weights.
    """

    before: dict[str, Any]
    after: dict[str, Any]
    move: Array
    cost: float
    gain: float

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """The columns that change, with their values before and after."""
        return [(name, old, self.after[name]) for name, old in self.before.items() if old != self.after[name]]

    def __str__(self) -> str:
        lines = [f"{name}: {said(old)} → {said(new)}" for name, old, new in self.changes]
        return "\n".join(lines) or "stay as you are"


def said(value: Any) -> str:
    """Return a value as members read it."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
