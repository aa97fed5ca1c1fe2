"""Moves that a table allows: whole categories, whole steps.

Best responses stay whole: everyone fills its budget with what gains most for its cost, in whole steps (a knapsack,
filled greedily). `exchanges` is the search among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import CostRegion
from oar.actions.sets.region import Region
from oar.models.training import Array
from oar.plans.cards.table.response import TRIFLE
from oar.solvers.feasible.sets import FeasibleRegions

Mask = NDArray[np.bool_]
ALMOST = 1e-9  # of a step: what counts as a whole one; of a budget: what is rounding
LARGE, MOST_LARGE = 0.2, 3  # of a budget: steps that are decided one by one, and how many of them
SQUARE = 2**0.5  # what a switch costs for p = 2, with both levels' coordinates
MOST_FILLED = 4  # rounds
MOST_PAIRS = 400  # pairs of columns' changes that are looked at
CONTRACTED = (0.75, 0.5, 0.25, 0.0)  # shares of a way that does not end where people are


class Lattice:
    """The moves, in cost, that keep to whole levels and steps, and what is left for the other coordinates."""

    def __init__(self, measured: CostRegion) -> None:
        self.measured, self.region = measured, measured.unruled
        self.steps = measured.steps * measured.costs  # in cost; 0 where anything goes
        self.discrete = self.steps > 0
        self.rules = measured.rules
        self.plausible_only = measured.where.bounded  # moves must end where people are
        self._ruled = measured.ruled  # asked only where there are rules
        self.plain, offered = np.ones((2, self.steps.size), dtype=bool)  # plain: not of a category
        for each in self.region.levels:  # a category is offered in its first coordinate's place
            self.plain[each.place] = offered[each.place.start + 1 : each.place.stop] = False
        self.offered = np.flatnonzero(offered)

    def of(self, rows: NDArray[np.intp]) -> Lattice:
        """Return the same of some of the people."""
        return Lattice(self.measured.of(rows))

    def response(self, slopes: Array) -> Array:
        """Return everyone's whole moves (n, d) that gain most by the slopes, all but."""
        region = self.region
        rates, sizes, goals = region.offers(slopes)
        if region.norm.p == 2:
            return self._in_a_ball(slopes, rates, sizes, goals)
        steps = np.broadcast_to(self.steps, rates.shape).copy()
        for each in region.levels:
            steps[:, each.place.start] = sizes[:, each.place.start]
        amounts = np.zeros_like(rates)
        left, people = region.radii.copy(), np.arange(len(rates))
        order = self.offered[np.argsort(-rates[:, self.offered], axis=1, kind="stable")]
        going = people  # who has something left, and something to gain
        for places in order.T:
            going = going[(rates[going, places[going]] > 0) & (left[going] > 0)]
            place = places[going]
            most, step = np.minimum(sizes[going, place], left[going]), steps[going, place]
            whole = np.floor(most / np.where(step > 0, step, 1.0) + ALMOST) * step
            amounts[going, place] = taken = np.where(step > 0, whole, most)
            if region.norm.p == 1:
                left[going] = np.maximum(left[going] - taken, 0.0)
        moves = np.where(slopes > 0, amounts, -amounts) + 0.0
        for each, goal in zip(region.levels, goals, strict=True):
            share = amounts[:, each.place.start] / (2.0 if region.norm.p == 1 else 1.0)
            moves[:, each.place] = 0.0
            moves[people, each.place.start + goal] += share
            moves[people, each.place.start + each.current] -= share
        whole = self.repaired(np.where(self.discrete, moves, 0.0))
        return self._and_rest(np.where(self._fits_together(whole)[:, None], whole, 0.0), moves)

    def answer(self, slopes: Array) -> Array:
        """Return members' whole responses (n, d) to slopes (n, d); the last of the people is the query, who stays."""
        moves = self.response(np.vstack([slopes, np.zeros(slopes.shape[1])]))
        return self.settled(moves, np.zeros_like(moves))[:-1]

    def _in_a_ball(self, slopes: Array, rates: Array, sizes: Array, goals: list[NDArray[np.intp]]) -> Array:
        """Return whole responses for p = 2: a few large steps first, and little steps with what they leave.

        A large step of cost c and gain r c takes c² of ε². Those with the highest r / c come first, or in a second try
        those with the highest gain; how many of them are worth it is seen from what the whole response gains.
        """
        region, people = self.region, np.arange(len(slopes))
        large = np.broadcast_to(self.steps, rates.shape).copy()
        gains, room = rates * large, sizes.copy()
        for each in region.levels:
            large[:, each.place.start] = room[:, each.place.start] = SQUARE * each.size
            gains[:, each.place.start] = rates[:, each.place.start] * each.size
        possible = (rates > 0) & (large > LARGE * region.radii[:, None]) & (room >= large * (1 - ALMOST))
        best = self._and_little_steps(np.zeros_like(slopes), slopes)
        last = np.full((len(slopes), MOST_LARGE), -1)
        for worth in (gains / np.where(large > 0, large, 1.0) ** 2, gains):
            offered = np.where(possible, worth, 0.0)[:, self.offered]
            order = self.offered[np.argsort(-offered, axis=1, kind="stable")[:, :MOST_LARGE]]
            possible &= (order != last[:, : order.shape[1]]).any(axis=1)[:, None]  # who has not tried these
            last, whole = order, np.zeros_like(slopes)
            for places in order.T:
                rows = np.flatnonzero(possible[people, places])  # only they can do any better than before
                further, place = whole[rows], places[rows]
                further[np.arange(rows.size), place] += np.sign(slopes[rows, place]) * large[rows, place]
                for each, goal in zip(region.levels, goals, strict=True):
                    here = np.flatnonzero(place == each.place.start)
                    further[here, each.place] = 0.0
                    further[here, each.place.start + goal[rows[here]]] += each.size
                    further[here, each.place.start + each.current[rows[here]]] -= each.size
                fits = np.flatnonzero(self.of(rows)._fits_together(further))
                rows, further = rows[fits], further[fits]
                whole[rows] = further
                moves = self.of(rows)._and_little_steps(further, slopes[rows])
                better = np.einsum("nd,nd->n", slopes[rows], moves - best[rows]) > 0
                best[rows[better]] = moves[better]
        return best

    def _and_little_steps(self, whole: Array, slopes: Array) -> Array:
        """Return whole moves, and with what they leave, everything else along its slopes, in whole steps."""
        region = self.region
        left = np.maximum(region.radii**2 - np.einsum("nd,nd->n", whole, whole), 0.0)
        along = np.where((whole == 0) & self.plain, slopes, 0.0)
        aim = np.zeros_like(whole)
        for _ in range(MOST_FILLED):  # what ends at a bound leaves the rest of the ball to the others
            lengths = np.sqrt(np.einsum("nd,nd->n", along, along))
            further = np.sqrt(left)[:, None] * (along / np.where(lengths > 0, lengths, 1.0)[:, None])
            inside = np.clip(further, region.lower, region.upper)
            aim = np.where(along != 0, inside, aim)
            bound = (inside != further) & (along != 0)
            if not bound.any():
                break
            along = np.where(bound, 0.0, along)
            left = np.maximum(left - np.einsum("nd,nd->n", np.where(bound, aim, 0.0), aim), 0.0)
        both = self.repaired(whole + self._in_steps(aim))
        return self._and_rest(np.where(self._fits_together(both)[:, None], both, whole), aim)

    def _in_steps(self, aim: Array) -> Array:
        """Return an aim (n, d) in whole steps, the largest first: what they cannot use is left to smaller ones.

        Writes what is left for coordinates without steps into their part of the aim.
        """
        region, stepped = self.region, np.zeros_like(aim)
        order = np.argsort(-self.steps, kind="stable")
        order = order[np.abs(aim).max(axis=0, initial=0.0)[order] > 0]
        # What each column and those still to come would take of ε²
        takes = np.cumsum(aim[:, order[::-1]] ** 2, axis=1)[:, ::-1]
        left = takes[:, 0].copy() if order.size else np.zeros(len(aim))
        for column, ahead in zip(order, takes.T, strict=True):
            step = self.steps[column]
            more = np.divide(left, ahead, out=np.ones_like(left), where=(left > ahead) & (ahead > 0))
            grown = np.clip(aim[:, column] * np.sqrt(more), region.lower[:, column], region.upper[:, column])
            if step > 0:
                grown = stepped[:, column] = np.trunc(grown / step + ALMOST * np.sign(grown)) * step
            else:
                aim[:, column] = grown
            left = np.maximum(left - grown**2, 0.0)
        return stepped

    def _and_rest(self, whole: Array, aim: Array) -> Array:
        """Return whole moves that are allowed, with as much of the rest of the aim as they leave."""
        if self.discrete.all():
            return whole
        return whole + self.shrunk(whole, np.where(self.discrete, 0.0, aim))

    def rounded(self, moves: Array) -> Array:
        """Return whole moves near these: of the coordinates with steps alone, 0 elsewhere."""
        region, steps = self.region, self.steps
        unit = np.where(steps > 0, steps, 1.0)
        whole = np.where(steps > 0, np.trunc(moves / unit + ALMOST * np.sign(moves)) * unit, 0.0)
        people = np.arange(len(moves))
        shares = []
        for each in region.levels:
            mixture = moves[:, each.place].copy()
            mixture[people, each.current] += each.size
            chosen = mixture.argmax(axis=1)
            whole[:, each.place] = 0.0
            whole[people, each.place.start + each.current] -= each.size
            whole[people, each.place.start + chosen] += each.size
            shares.append(np.where(chosen != each.current, mixture[people, chosen], np.inf))
        whole = self.repaired(whole)
        # Whoever cannot afford everything gives up the switch that was mixed in least; then everything.
        for _ in region.levels:
            beyond = np.flatnonzero(~self.fits(whole))
            if not beyond.size:
                break
            least = np.argmin([share[beyond] for share in shares], axis=0)
            for number, each in enumerate(region.levels):
                given_up = beyond[least == number]
                whole[given_up, each.place] = 0.0
                shares[number][given_up] = np.inf
        whole[~self.fits(whole)] = 0.0
        return whole

    def fits(self, whole: Array) -> Mask:
        """Report whose whole moves (n, d) are allowed, if nothing else moves."""
        region = self.region
        inside = (whole >= region.lower - ALMOST * self.steps) & (whole <= region.upper + ALMOST * self.steps)
        fine = (inside | ~self.plain).all(axis=1)  # levels have no box, only some that may be taken
        for each in region.levels:
            taken = whole[:, each.place] > 0.5 * each.size
            fine &= ~(taken & (region.upper[:, each.place] <= 0)).any(axis=1)
        return fine & self._fits_together(whole)

    def _fits_together(self, whole: Array) -> Mask:
        """Report whose whole moves are allowed, if each of them is by itself: by budget, links and rules."""
        region = self.region
        fine = region.norm.length(whole) <= region.radii * (1 + 1e-12)
        if len(region.links):
            slack = ALMOST * (np.abs(whole) @ np.abs(region.links).T)
            fine &= (whole @ region.links.T <= region.room + slack).all(axis=1)
        if self.rules:
            some = np.flatnonzero(fine & whole.any(axis=1))
            before = self.measured.features[some]
            fine[some] = self._ruled.kept(before, self.measured.after(whole[some], before))
        return fine

    def repaired(self, whole: Array) -> Array:
        """Return whole moves in which columns of a rule that would be broken stay: cheaper than giving up everything.

        That may break another rule that shares a column with it, so it is done as often as there are rules.
        """
        found, before, columns = whole.copy(), self.measured.features, self.measured.columns
        for _ in self.rules:
            clean = True
            for rule in self.rules:
                broken = np.flatnonzero(~rule.kept(self._ruled.encoding, before, self.measured.after(found, before)))
                clean &= not broken.size
                for name in rule.names if broken.size else ():
                    place = self._ruled.encoding.places[name]
                    inside = (columns >= place.start) & (columns < place.stop)
                    found[np.ix_(broken, np.flatnonzero(inside))] = 0.0
            if clean:
                break
        return found

    def rest(self, whole: Array) -> Region:
        """Return where people may move the other coordinates, once their whole moves are made."""
        region = self.region
        used = region.norm.length(whole)
        if region.norm.p == 1:
            left = region.radii - used
        elif region.norm.p == 2:
            left = np.sqrt(np.maximum(region.radii**2 - used**2, 0.0))
        else:
            left = region.radii
        room = region.room
        if len(region.links):
            room = np.maximum(room - whole @ region.links.T, 0.0)
        lower, upper = np.where(self.discrete, 0.0, region.lower), np.where(self.discrete, 0.0, region.upper)
        rest = replace(region, radii=np.maximum(left, 0.0), lower=lower, upper=upper, levels=(), room=room)
        return self._keeping_rules(rest, whole) if self.rules else rest

    def _keeping_rules(self, rest: Region, whole: Array) -> Region:
        """Return where the other coordinates may move so that every rule is kept in a way that holds before they do."""
        measured = self.measured
        before, columns = measured.features, measured.columns
        lower, upper = measured.wide(rest.lower), measured.wide(rest.upper)
        links = measured.wide(rest.links) if len(rest.links) else np.zeros((0, before.shape[1]))
        still = np.ones(before.shape[1], dtype=bool)
        still[columns[~self.discrete]] = False
        everywhere = replace(rest, lower=lower, upper=upper, links=links)
        found = self._ruled.narrowed(everywhere, before, measured.after(whole, before), still)
        lower, upper = found.lower[:, columns], found.upper[:, columns]
        return replace(found, lower=lower, upper=upper, links=found.links[:, columns])

    def shrunk(self, whole: Array, rest: Array) -> Array:
        """Return the other coordinates' moves (n, d), shortened to what whole moves leave."""
        region = self.rest(whole)
        rest = np.clip(rest, region.lower, region.upper) if self.rules else rest
        if len(region.links):
            return FeasibleRegions(region, np.ones(len(whole))).project(rest)
        lengths = region.norm.length(rest)
        share = np.divide(region.radii, lengths, out=np.ones_like(lengths), where=lengths > region.radii)
        return rest * share[:, None]

    def without_trifles(self, moves: Array) -> Array:
        """Return moves (n, d) without changes too small to ask for: what whole steps leave of a budget buys them.

        Columns of links and rules stay as they are, because other changes may rest on them; so does everyone who would
        not end where people are.
        """
        free = ~self.discrete
        if len(self.region.links):
            free &= ~self.region.links.any(axis=0)
        for name in {name for rule in self.rules for name in rule.names}:
            place = self._ruled.encoding.places[name]
            free &= (self.measured.columns < place.start) | (self.measured.columns >= place.stop)
        trifles = free & (np.abs(moves) < TRIFLE * self.region.radii[:, None])
        return self.settled(np.where(trifles, 0.0, moves), moves)

    def others(self, whole: Array) -> Iterator[Array]:
        """Yield other whole moves of everyone that differ in one column: taken back, a step on, as far as can be.

        Each with everybody's other columns as they are, and with those alone, for whom they leave too little. Moves
        that are not allowed are as before.
        """
        region, steps = self.region, self.steps
        people = np.arange(len(whole))
        for each in region.levels:
            for level in range(each.place.stop - each.place.start):
                switch = np.zeros((len(whole), each.place.stop - each.place.start))
                switch[people, each.current] -= each.size
                switch[:, level] += each.size
                yield from self._either(whole, each.place, switch)
        for column in np.flatnonzero(self.discrete & self.plain):
            place, step = slice(column, column + 1), steps[column]
            here, reach = whole[:, place], region.radii[:, None]
            up = step * np.floor(np.minimum(region.upper[:, place], reach) / step + ALMOST)
            down = step * np.floor(np.minimum(-region.lower[:, place], reach) / step + ALMOST)
            for aim in (np.zeros_like(here), here + step, here - step, up, -down):
                yield from self._either(whole, place, aim)

    def changed(self, moves: Array, pairs: bool = False) -> Iterator[Array]:
        """Yield plausible moves (n, d) that differ in one whole column; other coordinates move as far as that leaves.

        With `pairs`, they differ in two as well, if these are not many.
        """
        rest = np.where(self.discrete, 0.0, moves)
        others = self.others(moves - rest)
        if pairs:
            single = list(others)
            others = chain(single, *map(self.others, single if len(single) ** 2 <= MOST_PAIRS else ()))
        for other in others:
            yield self.settled(other + self.shrunk(other, rest), moves)

    def settled(self, moves: Array, last: Array) -> Array:
        """Return moves (n, d) that end where people are; `last` are plausible.

        Who would end elsewhere goes a part of the way with what need not be whole: from its last moves if its whole
        moves are the same, otherwise from whole moves alone. If that does not do, the last moves stand.
        """
        if not self.plausible_only:
            return moves
        open_rows = np.flatnonzero((moves != last).any(axis=1))
        open_rows = open_rows[~self.measured.plausible(moves[open_rows], open_rows)]
        found = moves.copy()
        found[open_rows] = last[open_rows]
        whole = np.where(self.discrete, moves, 0.0)
        alike = ((moves == last) | ~self.discrete).all(axis=1)
        base = np.where(alike[:, None], last, whole)
        for share in CONTRACTED:
            part = base[open_rows] + share * (moves - base)[open_rows]
            fine = self.measured.plausible(part, open_rows)
            found[open_rows[fine]] = part[fine]
            open_rows = open_rows[~fine]
        return found

    def _either(self, whole: Array, place: slice, aim: Array) -> Iterator[Array]:
        beside, alone = whole.copy(), np.zeros_like(whole)
        beside[:, place], alone[:, place] = aim, aim
        for other in (beside, alone):
            other[:] = np.where(self.fits(other)[:, None], other, whole)
            if (other != whole).any():
                yield other
