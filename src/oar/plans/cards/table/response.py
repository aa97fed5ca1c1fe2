"""A member's own answer to a card of a table: changes of columns that raise its score most, all but, within all limits.

Everyone is a problem of its own, computed side by side; arrays are (n, …), and nothing mixes people. For one member at
coordinates x with budget r, in words that any language can follow:

1. Start from staying, with the score s(x) and slopes ∇s(x). Up to ROUNDS times:
2. *Respond* to the slopes here (3–6); then to the mean of them and of the slopes where that leads. Tries are both of
   these, and points a half, a quarter and an eighth of the way from here to the first (numbers only, in whole steps
   counted from x towards staying; levels are the first's), if they keep everything. The try with the highest score
   counts, the first of equals (to EQUAL). If it is not above the score here, stop; else it is the new here.
3. *Offers.* Each column offers a gain for each unit of change, at a cost for each unit, in steps, up to a most:
   ordered columns |slope|, in the slope's direction, as far as bounds let it; a category the switch to the level of
   largest slope that may be taken, as one unit of cost `cost`, gaining the difference of slopes.
4. *Fill* the budget. A `floor` is the largest multiple of the step (to ALMOST), or anything where there is no step.
     p = ∞   every column as far as min(most, r / cost), floored.
     p = 1   in the order of gain per cost, equals by column: min(most, what is left / cost), floored. The same in the
             order of gain × min(most, r / cost) floored; the better of both.
     p = 2   `_ball`: up to MOST_LARGE large steps first, the rest in proportion to gain per cost. The best of a few.
5. *Links and rules.* Columns of which none speaks change as filled. The others follow in the order of gain per cost,
   each as far as everything is kept, found by halving; twice over, because one may make way for another. What was
   shortened is the most that is offered, and the budget is filled again, in the same way; the better of both counts.
6. *Trifles.* Where some column has steps, a change of a column without steps, of which no link or rule speaks, that
   costs less than TRIFLE of the budget is left out: it is what whole steps leave of the budget, not worth asking for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.models.protocol import Score
from oar.plans.cards.response import ByPerson, in_equal_blocks
from oar.plans.cards.table.terms import ALMOST, Room, TableTerms

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
ROUNDS = 20
EQUAL = 1e-9  # values that differ by a smaller share are equals
SHARES = (0.5, 0.25, 0.125)
LARGE, MOST_LARGE = 0.2, 3  # of a budget: steps that are decided one by one, and how many of them
FILLS = 8  # rounds in which columns reach their bounds
HALVINGS = 40
TRIFLE = 0.01  # of a budget: a smaller change of a column without steps is not worth asking for, on cards and in plans
INSIDE = 1e-6  # of a change that a link or rule ends: how far it stays from the edge
OVER = 5e-10  # of a budget, and of what links compare: rounding


@dataclass(frozen=True, eq=False)
class Responders(ByPerson):
    """The members who respond: coordinates (n, d), targets (n, o), budgets (n,), and how far each may go."""

    rows: Array
    targets: Array
    radii: Array
    room: Room


@dataclass(frozen=True, eq=False)
class Offers(ByPerson):
    """The gains that columns offer: for each unit (n, c), 0 where there is none; most units (n, c); signs; levels."""

    gains: Array
    most: Array
    signs: Array
    levels: NDArray[np.intp]


@dataclass(eq=False)
class BestMoves:
    """The best moves so far (n, d), their scores (n,) and slopes there (n, d)."""

    moves: Array
    values: Array
    slopes: Array

    def improve(self, trial: Array, values: Array, slopes: Array, who: Rows | slice = slice(None)) -> Array:
        """Take those of some people's tries that are better; return the slopes there."""
        old = self.values[who]
        better = values > old + EQUAL * (np.abs(values) + np.abs(old))
        self.values[who] = np.where(better, values, old)
        self.moves[who] = np.where(better[:, None], trial, self.moves[who])
        self.slopes[who] = np.where(better[:, None], slopes, self.slopes[who])
        return slopes


class TableResponse:
    """The answers of members to one card."""

    def __init__(self, score: Score, terms: TableTerms, norm: Norm) -> None:
        self.score, self.terms, self.norm = score, terms, norm
        self.costs = np.array([each.cost if each.movable else 1.0 for each in terms.columns])
        self.steps = np.array([each.step for each in terms.columns])
        self.trifling = self.steps == 0  # columns of which small changes are left out
        self.trifling[list(terms.bound)] = False
        self._is_category = np.array([each.column.kind == "category" for each in terms.columns])

    def of(self, members: Responders) -> tuple[Array, Array]:
        """Return everyone's move (n, d), and by how much its score rises (n,)."""
        moves = np.zeros_like(members.rows)
        values, slopes = self._scored(members, moves)
        first, going = values.copy(), np.flatnonzero(members.radii > 0)
        for _ in range(ROUNDS):
            if not going.size:
                break
            some, here, steep = members[going], moves[going], slopes[going]
            best = BestMoves(here.copy(), values[going], steep.copy())
            straight = self._response(some, steep)
            there = best.improve(straight, *self._scored(some, straight))
            other = np.flatnonzero((straight != here).any(axis=1))  # for all others there is nothing else to try
            if other.size:
                mine, ends = some[other], (here[other], straight[other])
                tries = [self._between(mine, *ends, share) for share in SHARES]
                for trial in (*tries, self._response(mine, 0.5 * (steep[other] + there[other]))):
                    best.improve(trial, *self._scored(mine, trial), who=other)
            risen = best.values > values[going]
            moves[going], values[going], slopes[going] = best.moves, best.values, best.slopes
            going = going[risen]
        return moves, values - first

    def lengths(self, moves: Array) -> Array:
        """Return what moves (n, d) cost, in the norm."""
        paid = self.costs * np.column_stack([np.abs(moves[:, place]).max(axis=1) for place in self.terms.places])
        if self.norm.p == np.inf:
            return paid.max(axis=1)
        return _total(paid) if self.norm.p == 1 else np.sqrt(_total(paid**2))

    def _scored(self, members: Responders, moves: Array) -> tuple[Array, Array]:
        return in_equal_blocks(self.score, members.rows + moves, members.targets)

    def _between(self, members: Responders, here: Array, there: Array, share: float) -> Array:
        """Return a point on the way, or `there` itself where that breaks anything."""
        found = there.copy()
        for at in np.flatnonzero(~self._is_category):
            place, step = self.terms.places[at].start, self.steps[at]
            way = here[:, place] + share * (there[:, place] - here[:, place])
            found[:, place] = np.sign(way) * _floored(np.abs(way), step)
        fine = self.lengths(found) <= members.radii * (1 + OVER)
        fine &= self._kept(members.rows, members.rows + found)
        return np.where(fine[:, None], found, there)

    def _response(self, members: Responders, slopes: Array) -> Array:
        """Return moves that gain most by the slopes, all but (3–6)."""
        offers = self._offers(members, slopes)
        amounts = self._filled(members.radii, offers)
        if self.terms.bound:
            first = self._within(members, offers, amounts)
            shorter = replace(offers, most=np.where(first < amounts, first, offers.most))
            second = self._within(members, shorter, self._filled(members.radii, shorter))
            amounts = _better(offers.gains, first, second)
        if (self.steps > 0).any():
            trifles = self.trifling & (amounts * self.costs < TRIFLE * members.radii[:, None])
            amounts = np.where(trifles, 0.0, amounts)
        return self._moves(members.rows, offers, amounts)

    def _offers(self, members: Responders, slopes: Array) -> Offers:
        rows, room, people = members.rows, members.room, np.arange(len(slopes))
        gains, most, signs = np.zeros((3, len(rows), len(self.costs)))
        levels = np.zeros(gains.shape, dtype=np.intp)
        for at, (each, place) in enumerate(zip(self.terms.columns, self.terms.places, strict=True)):
            if not each.movable:
                continue
            if each.column.kind == "category":
                worth = np.where(room.takes[:, place], slopes[:, place], -np.inf)
                levels[:, at] = worth.argmax(axis=1)
                held = rows[:, place].argmax(axis=1)
                gains[:, at] = np.maximum(worth.max(axis=1) - slopes[people, place.start + held], 0.0)
                most[:, at] = gains[:, at] > 0
                continue
            slope = slopes[:, place.start]
            signs[:, at] = np.sign(slope)
            most[:, at] = np.where(slope > 0, room.rise[:, at], room.fall[:, at])
            gains[:, at] = np.abs(slope)
        most = _floored(most, self.steps)
        return Offers(np.where(most > 0, gains, 0.0), most, signs, levels)

    def _filled(self, radii: Array, offers: Offers) -> Array:
        """Return how many units (n, c) of each offer a budget is best spent on, all but."""
        farthest = _floored(np.minimum(offers.most, radii[:, None] / self.costs), self.steps)
        farthest = np.where(offers.gains > 0, farthest, 0.0)
        if self.norm.p == np.inf:
            return farthest
        if self.norm.p == 1:
            orders = offers.gains / self.costs, offers.gains * farthest
            return _better(offers.gains, *(self._one_by_one(radii, offers, order) for order in orders))
        best = self._ball(radii, offers, np.zeros_like(offers.gains))
        paid = self.steps * self.costs
        large = (self.steps > 0) & (farthest >= self.steps * (1 - ALMOST)) & (farthest > 0)
        large &= self._is_category | (paid > LARGE * radii[:, None])
        some = np.flatnonzero(large.any(axis=1))
        if some.size:
            best[some] = self._with_large_steps(radii[some], offers[some], large[some], best[some])
        return best

    def _with_large_steps(self, radii: Array, offers: Offers, large: Mask, best: Array) -> Array:
        """Return the best fill, for p = 2, with up to MOST_LARGE large steps made first: the worthiest, in two orders.

        A step that no longer fits is left out, and the next one tried.
        """
        paid, gain, people = self.steps * self.costs, offers.gains * self.steps, np.arange(len(radii))
        for worth in (gain / _positive(paid) ** 2, gain):
            order = np.argsort(-np.where(large, worth, 0.0), axis=1, kind="stable")[:, :MOST_LARGE]
            forced = np.zeros_like(best)
            for places in order.T:
                if not large[people, places].any():  # nobody has more of them
                    break
                more = forced.copy()
                more[people, places] = np.where(large[people, places], self.steps[places], 0.0)
                fits = _total((more * self.costs) ** 2) <= radii**2 * (1 + ALMOST)
                forced = np.where(fits[:, None], more, forced)
                best = _better(offers.gains, best, self._ball(radii, offers, forced))
        return best

    def _one_by_one(self, radii: Array, offers: Offers, worth: Array) -> Array:
        """Spend a budget of p = 1 on one offer after the other, the worthiest first."""
        people, left, amounts = np.arange(len(radii)), radii.copy(), np.zeros_like(worth)
        for places in np.argsort(-worth, axis=1, kind="stable").T:
            costs = self.costs[places]
            taken = _floored(np.minimum(offers.most[people, places], left / costs), self.steps[places])
            taken = np.where(offers.gains[people, places] > 0, taken, 0.0)
            amounts[people, places] = taken
            left = np.maximum(left - taken * costs, 0.0)
        return amounts

    def _ball(self, radii: Array, offers: Offers, forced: Array) -> Array:
        """Spend what forced steps leave of a budget of p = 2 on ordered columns.

        Σ gain·a is largest on Σ (cost·a)² ≤ left where cost·a is in proportion to gain / cost; what ends at its most
        leaves the rest to the others. Then steps are floored, the costliest first, and what a column cannot use all
        that come after it share in proportion. At last each, in that order, takes one more step if it fits.
        """
        rates = np.where((forced == 0) & ~self._is_category, offers.gains / self.costs, 0.0)
        ends = offers.most * self.costs
        budget = np.maximum(radii**2 - _total((forced * self.costs) ** 2), 0.0)
        left, open_, aims = budget.copy(), rates > 0, np.zeros_like(rates)
        for _ in range(FILLS):
            size = _total(np.where(open_, rates, 0.0) ** 2)
            further = np.sqrt(left / _positive(size))[:, None] * rates
            aims = np.where(open_, np.minimum(further, ends), aims)
            ended = open_ & (further > ends)
            if not ended.any():
                break
            open_ &= ~ended
            left = np.maximum(left - _total(np.where(ended, aims, 0.0) ** 2), 0.0)
        paid = np.where(self._is_category, 0.0, self.steps * self.costs)
        order = np.argsort(-paid, kind="stable")
        # What each column and those after it would take of the budget, added up from the last
        takes = np.cumsum(aims[:, order[::-1]].T ** 2, axis=0)[::-1]
        whole, left = np.zeros_like(aims), budget
        for at, ahead in zip(order, takes, strict=True):
            more = np.sqrt(np.where(left > ahead, left / _positive(ahead), 1.0))
            taken = np.minimum(np.minimum(aims[:, at] * more, ends[:, at]), np.sqrt(left))
            whole[:, at] = _floored(taken, paid[at])
            left = np.maximum(left - whole[:, at] ** 2, 0.0)
        for at in order:
            if paid[at] <= 0:
                break
            more = whole[:, at] + paid[at]
            price = more**2 - whole[:, at] ** 2
            fits = (rates[:, at] > 0) & (more <= ends[:, at] * (1 + ALMOST)) & (price <= left)
            whole[:, at] = np.where(fits, more, whole[:, at])
            left = np.where(fits, left - price, left)
        return forced + _floored(whole / self.costs, self.steps)

    def _moves(self, rows: Array, offers: Offers, amounts: Array) -> Array:
        """Return moves (n, d) that make so many units of each offer."""
        moves, people = np.zeros_like(rows), np.arange(len(rows))
        for at, (each, place) in enumerate(zip(self.terms.columns, self.terms.places, strict=True)):
            if each.column.kind != "category":
                moves[:, place.start] = offers.signs[:, at] * amounts[:, at]
                continue
            switch = (amounts[:, at] > 0).astype(np.float64)
            moves[people, place.start + rows[:, place].argmax(axis=1)] -= switch
            moves[people, place.start + offers.levels[:, at]] += switch
        return moves + 0.0

    def _within(self, members: Responders, offers: Offers, amounts: Array) -> Array:
        """Return as many of these units as links and rules let everyone make, one column after the other (5)."""
        bound = np.array(self.terms.bound)
        taken = amounts.copy()
        taken[:, bound] = 0.0
        order = bound[np.argsort(-(offers.gains / self.costs)[:, bound], axis=1, kind="stable")]
        for places in (*order.T, *order.T):
            for at in bound:
                who = np.flatnonzero((places == at) & (taken[:, at] < amounts[:, at]))
                if who.size:
                    taken[who, at] = self._farthest(members, offers, taken, amounts, who, at)
        return taken

    def _farthest(self, members: Responders, offers: Offers, taken: Array, amounts: Array, who: Rows, at: int) -> Array:
        """Return how many units of one column some people can make, the others' being made: all, or by halving."""
        found = amounts[who, at]
        short = np.flatnonzero(~self._kept_with(members, offers, taken, who, at, found))
        if not short.size:
            return found
        who, step = who[short], self.steps[at]
        low, high = taken[who, at], found[short]
        for _ in range(HALVINGS):
            middle = _floored(0.5 * (low + high), step)
            if not (middle > low).any():
                break
            fine = self._kept_with(members, offers, taken, who, at, middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        if not step:
            inside = (1 - INSIDE) * low
            low = np.where(self._kept_with(members, offers, taken, who, at, inside), inside, low)
        found[short] = low
        return found

    def _kept_with(self, members: Responders, offers: Offers, taken: Array, who: Rows, at: int, units: Array) -> Mask:
        """Report which of some people keep everything if they make so many units of one column, others as taken."""
        rows, trial = members.rows[who], taken[who]
        trial[:, at] = units
        return self._kept(rows, rows + self._moves(rows, offers[who], trial))

    def _kept(self, before: Array, after: Array) -> Mask:
        """Report who keeps all links and rules."""
        fine, encoding = np.ones(len(after), dtype=bool), self.terms.encoding
        for link in self.terms.links:
            said = link.expression
            stood, size = np.full(len(after), said.constant), np.full(len(after), abs(said.constant))
            stands = stood.copy()
            for name, factor in said.values.items():
                was, now = (values[:, encoding.places[name].start] for values in (before, after))
                stood, stands = stood + factor * was, stands + factor * now
                size = size + abs(factor) * (np.abs(was) + np.abs(now))
            for name, factor in said.changes.items():
                was, now = (values[:, encoding.places[name].start] for values in (before, after))
                stands, size = stands + factor * (now - was), size + abs(factor) * (np.abs(was) + np.abs(now))
            fine &= stands <= np.maximum(stood, 0.0) + OVER * size
        for rule in self.terms.rules:
            fine &= rule.kept(encoding, before, after)
        return fine


def _better(gains: Array, first: Array, second: Array) -> Array:
    """Return of two fills (n, c) the one that gains more, of equals the first."""
    one, two = _total(gains * first), _total(gains * second)
    return np.where((two > one * (1 + EQUAL))[:, None], second, first)


def _total(values: Array) -> Array:
    """Return sums over columns, in their order: the same to the last bit whoever else is asked about."""
    total = np.zeros(len(values))
    for column in values.T:
        total = total + column
    return total


def _floored(amounts: Array, steps: Array) -> Array:
    """Return the largest whole steps that are at most these amounts, which stay where there is no step."""
    unit = _positive(steps)
    return np.where(steps > 0, np.floor(amounts / unit + ALMOST) * unit, amounts)


def _positive(values: Array) -> Array:
    """Return values to divide by: 1 where they are 0."""
    return np.where(values > 0, values, 1.0)
