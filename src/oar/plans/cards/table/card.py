"""The card of a plan for a table: its columns' terms and a signal, which members answer in their own values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limits
from oar.models.protocol import Score
from oar.people import Population
from oar.people.labels import plain
from oar.people.tables.arrays import is_frame
from oar.people.tables.schema import Schema
from oar.plans.cards.card import Array, Broadcast, Card, Change
from oar.plans.cards.table.response import Responders, TableResponse
from oar.plans.cards.table.score import TableScore
from oar.plans.cards.table.terms import Answer, Room, TableTerms
from oar.plans.cards.usual_values import doubt
from oar.problem import Problem

IN_CACHE = 2_048  # members whose answers are computed side by side


@dataclass(frozen=True, eq=False)
class TableCard(Card):
    """A card of a table. Its directions are zero and not used; θ and v are the model's behind the scaler."""

    broadcast: Broadcast = field(kw_only=True)
    table: TableTerms = field(kw_only=True)

    @property
    def schema(self) -> Schema:
        """The types of the columns."""
        return self.table.encoding.schema

    @property
    def terms(self) -> TableTerms:
        """The terms of the columns."""
        return self.table

    def _places_in(self, people: Population) -> NDArray[np.intp] | None:
        return None if people.encoding is None else self.table.places_in(people.encoding)

    @property
    def score(self) -> Score:
        """Everyone's score, up to a constant of its label, and its gradient."""
        sent = self.broadcast
        return TableScore(sent.model, sent.parameters, sent.signal, self.table.scaler)

    def _seen(self, rows: Array, places: NDArray[np.intp]) -> Array:
        return self.table.seen(rows, places)

    def moves_of(self, problem: Problem, places: NDArray[np.intp], targets: Array | None = None) -> Array:
        """Return the moves (n, d) of a problem's people who answer it, where their coordinates are in these places."""
        rows, own, radii = self._members(problem)
        targets = own if targets is None else targets
        seen = self.table.seen(rows, places)
        room, moves = everyones_room(self.table, problem, seen), np.empty_like(seen)
        for start in range(0, len(rows), IN_CACHE):  # nobody's answer depends on anybody else's
            who = np.arange(start, min(start + IN_CACHE, len(rows)))
            moves[who] = self.table_responses(seen[who], targets[who], radii[who], room[who])[0]
        return self.table.given_back(moves, rows, places)

    def table_responses(self, rows: Array, targets: Array, radii: Array, room: Room) -> tuple[Array, Array, Array]:
        """Return moves (n, d) of many members of a table, their costs (n,), and by how much scores rise (n,)."""
        response = TableResponse(self.score, self.table, self.norm)
        wanted = np.ascontiguousarray(self.broadcast.model.target_rows(targets))
        moves, gains = response.of(Responders(rows, wanted, radii, room))
        return moves, response.lengths(moves), gains

    def _changes(self, features: dict[str, Any], answer: Answer) -> list[Change]:
        return answer.changes

    def _answer(self, features: Any, row: Array, target: Array, budget: float, keep: tuple) -> Answer:
        room = self.table.room(row[None], keep)
        moves, costs, gains = self.table_responses(row[None], target[None], np.array([budget]), room)
        before, after = self.table.values_of(row), self.table.values_of(row + moves[0])
        for each in self.table.columns:  # a level that the card does not name is the member's own
            name, others = each.column.name, each.column.levels[-1] if each.pooled else None
            if each.pooled and before[name] == others:
                mine = plain(features[name].iloc[0] if is_frame(features) else features[name])
                before[name], after[name] = mine, mine if after[name] == others else after[name]
        return Answer(before, after, moves[0], float(costs[0]), float(gains[0]))

    def _row(self, features: Any) -> Array:
        return self.table.encode_row(features, "features")

    def _doubts(self, row: Array) -> list[str]:
        usual = self.usual or (None,) * len(self.table.columns)
        return [
            words
            for each, place, around in zip(self.table.columns, self.table.places, usual, strict=True)
            if each.column.kind in ("number", "integer") and row[place.start] not in each.missing
            for words in doubt(each.column.name, row[place.start], around, each.lower, each.upper)
        ]


def without_answer(problem: Problem) -> NDArray[np.bool_]:
    """Return who of those who may move (n,) cannot answer a card, for it takes whole rows, and theirs was filled in."""
    people = problem.people
    if people.imputed is None:
        return np.zeros(people.size, dtype=bool)
    return people.imputed.any(axis=1) & (problem.allowance.everyones(people.size) > 0)


def everyones_room(terms: TableTerms, problem: Problem, rows: Array) -> Room:
    """Return how far everyone, in the card's coordinates, may go: as it says, and within limits of their own.

    Who has a gap goes nowhere: a median stands in for it in the training, and in no answer.
    """
    room, positions = terms.room(rows), {name: place for place, name in enumerate(problem.people.row_names)}
    for person, own in (problem.limits or Limits()).own.items():
        place = positions.get(person, person)
        for name, limit in own.items():
            room.narrow(terms, place, rows[place], name, limit)
    room.keep(terms, np.repeat(without_answer(problem)[:, None], len(terms.columns), axis=1))
    return room
