"""A cheapest change that brings linear leads above their margins, by mixed-integer programmes (HiGHS).

It is found here, and not proved: HiGHS has tolerances, and margins are not the audit's. Why nothing is cheaper is left
to `branch_and_bound`. Numbers are put into units in which each reaches the goal alone at about 1.

"l1" with one lead and no links is a knapsack, which needs none (`knapsack`).

Every entry of v is what it adds less what it takes, v = p − n with p, n ≥ 0, of which cheap changes have one.

    "l1"    min Σ price (p + n)
    "l2"    min Σ t with t ≥ every tangent of (price (p + n))², and for whole entries every chord between neighbours
    "l0"    min Σ flat y with p ≤ high y, n ≤ −low y

**l2 is outer approximation** (Duran and Grossmann 1986). Each programme is a lower bound. With its whole entries kept,
the best numbers are a least-distance problem, an upper bound, where new tangents are drawn. At those numbers tangents
support the optimum (they are its KKT conditions), and at whole numbers chords are exact, so no choice of whole entries
comes twice: bound and cost meet after finitely many rounds.

**l0 without bounds.** An entry that no bound limits has no `high` for p ≤ high y. Where it is in no link and a way ±
raises every lead that is short, it reaches the goal alone: then no cheapest change needs it to go further than that. A
way that lowers every lead, or moves none, is not needed at all. What is left (entries in links, or good for one lead
and bad for another) is not bounded but listed: sets T of columns that may change without bound, in order of their flat
cost, each with a programme for all the others, until T alone costs as much as the best that was found.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.models.training import Array
from oar.progress import is_late
from oar.solvers.cheapest.highs import NOWHERE, PROVED, CheapestChange, MixedIntegerProgramme, column_units
from oar.solvers.cheapest.knapsack import TooManyNodes, filled
from oar.solvers.cheapest.space import Leads, Space
from oar.solvers.query.shortest_move import shortest_within

SQUARED = 10.0
STIFF = 1e2  # rows are put into units in which HiGHS's feasibility, 1e-7, is well below a margin
LARGE = 1e4  # a bound above this is no bound for p ≤ high y: HiGHS takes a y of 1e-6 for 0
# Times what a change costs: beside numbers with such prices, which are put into units in which they cost as much as it,
# HiGHS takes the others for nothing.
DEAR = 1e3
LARGEST_ENTRY = 1e9  # of a row, beside what it lacks
SLACK = 1e-10  # by which a row may be missed: far less than a margin
MOST_BRANCHES = 20
MOST_ROUNDS = 60
MOST_UNITS = 3  # in which a least distance is asked for: each is the length that the last one found
DUST = 1e-9  # of the largest that is paid: as a square, a number of which this is the cost is nothing
MOST_SETS = 400  # sets of columns without bounds that are tried


def solve(space: Space, goal: Leads) -> CheapestChange:
    """Return the cheapest change of a space that brings every lead to its margin, as far as HiGHS can tell."""
    if not space.size:
        short = (goal.leads < goal.margins).any()
        return CheapestChange() if short else CheapestChange(np.zeros(0), 0.0, 0.0)
    units = _reaches(space, goal)
    programme = Programme(_in_units(space, units), goal)
    first = programme.cheapest(programme.space.prices)  # is there a way at all, and of which size?
    if space.kind != "l0" and first.found:
        cost = programme.space.cost(first.change)
        if 0 < DEAR * cost < programme.space.prices.max():
            finer = np.where(space.whole, 1.0, np.minimum(cost / programme.space.prices, 1.0))
            units, known = units * finer, replace(first, change=first.change / finer)
            programme, first = _affordable(_in_units(space, units), goal, known, cost)
    found = first
    if first.found and space.kind != "l1":
        found = (_least_squares if space.kind == "l2" else _fewest)(programme, first)
    if not found.found:
        return found
    rows, room = programme.normals[programme.goals :], programme.room[programme.goals :]
    slack = 10 * SLACK * (np.abs(room) + np.abs(rows) @ np.abs(found.change))
    # Leads are asked about again. Where another row is broken HiGHS could not tell: there may be a change, or none.
    if not (rows @ found.change <= room + slack).all():
        return CheapestChange(bound=0.0, finished=False)
    change = found.change * units
    return replace(found, change=change, cost=space.cost(change))


def settled(space: Space, goal: Leads, place: Array) -> Array | None:
    """Return the change with a place's whole entries, and for "l0" of its columns, whose numbers cost least."""
    if not space.size:
        return None
    units = _reaches(space, goal)
    programme = Programme(_in_units(space, units), goal)
    start = programme.space.tidy(place / units)
    if space.kind == "l2":
        found = programme.nearest(start)
    else:
        free = ~space.whole & ((start != 0) | (space.kind != "l0"))
        found = start if programme.keeps(start) else programme.refined(start, free)
    return None if found is None or not programme.keeps(found) else found * units


def _reaches(space: Space, goal: Leads) -> Array:
    """Return units (v,) in which numbers that matter are about 1; 1 for what is whole."""
    rows, room = np.vstack([goal.slopes @ space.basis, space.rows]), np.append(goal.leads - goal.margins, space.room)
    return column_units(rows, room, space.whole)


def _affordable(space: Space, goal: Leads, known: CheapestChange, cost: float) -> tuple[Programme, CheapestChange]:
    """Return a programme without what alone costs more than a known change, and its cheapest by "l1"."""
    most = (1 + PROVED) * cost / space.prices
    most = np.where(space.whole, np.floor(most), most)
    programme = Programme(replace(space, high=np.minimum(space.high, most), low=np.maximum(space.low, -most)), goal)
    found = programme.cheapest(space.prices)
    return programme, found if found.cost < known.cost else known


def _in_units(space: Space, units: Array) -> Space:
    return replace(
        space,
        basis=space.basis * units,
        low=space.low / units,
        high=space.high / units,
        prices=space.prices * units,
        rows=space.rows * units,
    )


class Programme:
    """Rows G v ≤ h for leads and limits, and the parts p, n of v."""

    def __init__(self, space: Space, goal: Leads) -> None:
        """Put the rows into units in which they are about 1."""
        self.space = space
        slopes = goal.slopes @ space.basis
        sizes = np.maximum(goal.scales, 1e-300)[:, None]
        normals = np.vstack([-slopes / sizes, space.rows])
        room = np.concatenate([(goal.leads - goal.margins) / sizes[:, 0], space.room])
        self.goals = len(slopes)
        units = np.abs(normals).max(axis=1, initial=0.0)
        # What a lead lacks is 1, so that tolerances are shares of it.
        needs, own = np.abs(room[: self.goals]), units[: self.goals]
        units[: self.goals] = np.where(needs > 0, np.maximum(needs, own / LARGEST_ENTRY), own)
        units = np.where(units > 0, units, 1.0)
        self.normals, self.room = normals / units[:, None], room / units
        self.up, self.down = np.flatnonzero(space.high > 0), np.flatnonzero(space.low < 0)
        self.owner = np.concatenate([self.up, self.down])  # the entry of v that each part belongs to
        self.parts = self.owner.size

    def joined(self, parts: Array) -> Array:
        """Return v, tidied, from its parts."""
        change = np.zeros(self.space.size)
        change[self.up] += parts[: self.up.size]
        change[self.down] -= parts[self.up.size : self.parts]
        return self.space.tidy(change)

    def keeps(self, change: Array) -> bool:
        """Report whether v keeps every row, to far less than a margin."""
        slack = SLACK * (1 + np.abs(self.normals) @ np.abs(change))
        return bool((self.normals @ change <= self.room + slack).all())

    def cheapest(self, prices: Array) -> CheapestChange:
        """Return the change of the lowest Σ prices |v|."""
        quick = self._filled(prices) if self.goals == 1 and self.space.apart else None
        if quick is not None:
            return quick
        found = self.run(prices[self.owner], np.zeros((0, self.parts)), np.zeros(0))
        if not found.found or self.keeps(found.change):
            return found
        change = self.refined(found.change, ~self.space.whole)
        return replace(found, change=change, cost=float(prices @ np.abs(change)))

    def _filled(self, prices: Array) -> CheapestChange | None:
        """Return the same where every column is on its own, as a knapsack; None where HiGHS is better at it."""
        gains, need = -self.normals[0], -float(self.room[0])
        tops, sizes = np.where(gains > 0, self.space.high, -self.space.low), np.abs(gains)
        useful = [entry for entry in np.argsort(sizes).tolist() if sizes[entry] > 0 and tops[entry] > 0]
        # All levels of a category cost the same, so that the one that raises the lead most is enough.
        items = list({int(self.space.column[entry]): entry for entry in useful}.values())
        try:
            amounts = filled(
                sizes[items].tolist(),
                prices[items].tolist(),
                tops[items].tolist(),
                self.space.whole[items].tolist(),
                need - SLACK * (1 + abs(need)),
            )
        except TooManyNodes:
            return None
        if amounts is None:
            return CheapestChange()
        change = np.zeros(self.space.size)
        change[items] = np.sign(gains[items]) * amounts
        change = self.space.tidy(change)
        cost = float(prices @ np.abs(change))
        return CheapestChange(change, cost, cost) if self.keeps(change) else None

    def refined(self, change: Array, free: NDArray[np.bool_]) -> Array:
        """Return v with `free` numbers settled anew for the lowest Σ prices |v|, everything else kept.

        HiGHS takes 1e-6 for 0 in whole entries; once they are rounded, numbers must make up for it.
        """
        from scipy.optimize import linprog

        some = np.flatnonzero(free)
        if not some.size:
            return change
        kept = np.where(free, 0.0, change)
        normals = STIFF * self.normals[:, some]
        bounds = np.column_stack([self.space.low[some], self.space.high[some]])
        # v = p − n again, so that |v| is p + n
        found = linprog(
            np.tile(self.space.prices[some] / self.space.prices[some].max(), 2),
            A_ub=np.hstack([normals, -normals]),
            b_ub=STIFF * (self.room - self.normals @ kept),
            bounds=np.vstack([np.maximum(bounds, 0.0), np.maximum(-bounds[:, ::-1], 0.0)]),
        )
        if found.x is None:
            return change
        kept[some] = found.x[: some.size] - found.x[some.size :]
        return self.space.tidy(kept)

    def run(
        self,
        costs: Array,
        more_rows: Array,
        more_room: Array,
        switches: bool = False,
        bounds: tuple[Array, Array] | None = None,
    ) -> CheapestChange:
        """Minimise costs · z with z = (p, n, others ≥ 0); `more_rows` z ≤ `more_room` are added.

        With `switches` the others are 0 or 1; `bounds`, the highest and the lowest, replace those of v. The first
        answer says what size costs have, and a second one is asked for where HiGHS may have left too much open in it.
        """
        if not costs.size:  # a rule leaves nothing to change
            still = np.zeros(self.space.size)
            return CheapestChange(still, 0.0, 0.0) if self.keeps(still) else CheapestChange()
        high, low = bounds or (self.space.high, self.space.low)
        others = costs.size - self.parts
        empty = np.zeros((len(self.normals), others))
        split = np.hstack([self.normals[:, self.up], -self.normals[:, self.down], empty])
        question = MixedIntegerProgramme(
            costs=costs,
            rows=np.vstack([STIFF * split, more_rows]),
            room=np.concatenate([STIFF * self.room, more_room]),
            whole=np.append(self.space.whole[self.owner], np.full(others, switches)),
            bottom=np.zeros(costs.size),
            top=np.concatenate([high[self.up], -low[self.down], np.full(others, 1.0 if switches else np.inf)]),
        )
        return self._branched(question)

    def _branched(self, question: MixedIntegerProgramme) -> CheapestChange:
        """Answer a question, and where whole entries are only nearly whole and that matters, once for each side.

        HiGHS takes 1e-6 for 0, which can make up for a lead that is short. Then the entry is 0, or at least 1.
        """
        best, bound, finished = CheapestChange(), np.inf, True
        waiting, asked = [question], 0
        while waiting:
            now = waiting.pop()
            answer, asked = now.answered(), asked + 1
            finished &= answer.finished
            if not answer.found or (best.found and answer.bound >= best.cost):
                bound = min(bound, answer.bound)
                continue
            change = self.joined(answer.change)
            halves = () if self.keeps(change) or asked > MOST_BRANCHES else now.halves(answer.change)
            waiting += halves
            if not halves:
                bound = min(bound, answer.bound)
                if answer.cost < best.cost:
                    best = CheapestChange(change, answer.cost, answer.bound)
        return replace(best, bound=min(bound, best.cost), finished=finished)

    def nearest(self, change: Array) -> Array | None:
        """Return v with the whole entries of `change` and numbers of least Σ (price v)²; None where no numbers do."""
        free = np.flatnonzero(~self.space.whole)
        if not free.size:
            return change if self.keeps(change) else None
        fixed, prices = np.where(self.space.whole, change, 0.0), self.space.prices[free]
        unit, high, low = np.eye(free.size), self.space.high[free] * prices, self.space.low[free] * prices
        normals = np.vstack([self.normals[:, free] / prices, unit[np.isfinite(high)], -unit[np.isfinite(low)]])
        room = np.concatenate([self.room - self.normals @ fixed, high[np.isfinite(high)], -low[np.isfinite(low)]])
        # Rows of length 1, so that room is a distance, and the unit is how far the farthest of them is.
        lengths = np.abs(normals).max(axis=1, initial=0.0)
        lengths *= np.linalg.norm(normals / np.where(lengths > 0, lengths, 1.0)[:, None], axis=1)
        lengths = np.where(lengths > 0, lengths, 1.0)
        normals, room = normals / lengths[:, None], room / lengths
        size = -float(room.min(initial=0.0))
        if size == 0:
            return fixed
        for _ in range(MOST_UNITS):
            away = shortest_within(normals, room / size, Norm(2.0))
            if away is None:
                return None
            fixed[free] = size * away / prices
            moved = self.space.tidy(fixed)
            paid = self.space.prices * np.abs(moved)
            for kept in (np.where(self.space.whole | (paid > DUST * paid.max()), moved, 0.0), moved):
                if self.keeps(kept):
                    return kept
            size *= max(float(np.linalg.norm(away)), 1.0)
        return None


def _least_squares(programme: Programme, first: CheapestChange) -> CheapestChange:
    """Minimise Σ (price v)² by outer approximation, and take the root; the cheapest by "l1" is no bad start."""
    space = programme.space
    if not first.change.any():
        return first
    candidate, best, cost, bound = first.change, NOWHERE, np.inf, 0.0
    squares = _Squares(programme, space.cost(candidate))
    for _ in range(MOST_ROUNDS):
        nearest = programme.nearest(candidate)
        moved = candidate if nearest is None else nearest
        for kept in (moved, candidate):
            if space.cost(kept) < cost and programme.keeps(kept):
                best, cost = kept, space.cost(kept)
        squares.support(moved)
        found = squares.cheapest(cost)
        if not found.found:
            break
        bound = max(bound, min(found.bound, cost))
        if cost - bound <= 0.1 * PROVED * cost:
            return CheapestChange(best, cost, bound)
        if is_late():
            break
        candidate = found.change
    proved = cost - bound <= PROVED * cost
    return CheapestChange(best, cost, bound, finished=proved)


class _Squares:
    """Σ (price v)² from below: one number t for each entry whose square is bent, and lines that it is above.

    HiGHS is asked in units in which the best cost so far is SQUARED, so that its tolerances are small beside it.
    """

    def __init__(self, programme: Programme, first: float) -> None:
        space = programme.space
        self.programme, self.first, self.squares = programme, first, space.prices**2
        self.bent = np.flatnonzero(~space.switches)
        straight = np.where(space.switches, self.squares, 0.0)[programme.owner]
        self.costs = np.concatenate([straight, np.ones(self.bent.size)])
        self.lines: dict[tuple[int, float], tuple[Array, float]] = {}
        for share in (0.1, 0.25, 0.5, 1.0):
            self.support(share * first / space.prices)

    def support(self, change: Array) -> None:
        """Add the lines slope · w − below ≤ square · w² that touch the squares at these sizes.

        A tangent is 2 a w − a², and between whole numbers m and m + 1 the chord is (2m + 1) w − m (m + 1).
        """
        space, parts, owner = self.programme.space, self.programme.parts, self.programme.owner
        for place, entry in enumerate(self.bent.tolist()):
            size, square = abs(change[entry]), self.squares[entry]
            lines = [(size, 2 * square * size, square * size**2)]
            if space.whole[entry]:
                near = float(np.rint(size))
                places = sorted({max(near - 1, 0.0), near})
                lines = [(m, square * (2 * m + 1), square * m * (m + 1)) for m in places]
            for at, slope, below in lines:
                row = np.zeros(self.costs.size)
                row[:parts][owner == entry] = slope
                row[parts + place] = -1.0
                self.lines[entry, at] = row, below

    def cheapest(self, cost: float) -> CheapestChange:
        """Return the change of the lowest sum, with its root as bound; `cost` is the best so far, or infinite."""
        unit, parts = min(cost, self.first) ** 2 / SQUARED, self.programme.parts
        rows = np.array([row for row, _ in self.lines.values()]).reshape(-1, self.costs.size)
        room = np.array([below for _, below in self.lines.values()]) / unit
        rows[:, :parts] /= unit
        costs = np.concatenate([self.costs[:parts] / unit, self.costs[parts:]])
        # Nothing that is cheaper has an entry that alone costs more.
        space, most = self.programme.space, (1 + PROVED) * cost / self.programme.space.prices
        most = np.where(space.whole, np.floor(most), most)
        high, low = np.minimum(space.high, most), np.maximum(space.low, -most)
        found = self.programme.run(costs, rows, room, bounds=(high, low))
        return replace(found, bound=float(np.sqrt(unit * max(found.bound, 0.0))))


def _fewest(programme: Programme, anyhow: CheapestChange) -> CheapestChange:
    """Minimise the flat costs of the columns that change, where some change is known."""
    space = programme.space
    high, low = _enough(programme)
    open_entries = np.flatnonzero((high > LARGE) | (low < -LARGE))
    if not open_entries.size:
        return _with_bounds(programme, high, low, ())
    # A bound that is likely large enough gives something to beat; sets of open columns then prove it, or do better.
    likely = 10 * (1 + float(np.abs(anyhow.change).max()))
    best = _with_bounds(programme, np.minimum(high, likely), np.maximum(low, -likely), ())
    if space.cost(anyhow.change) < best.cost:
        best = replace(anyhow, cost=space.cost(anyhow.change), bound=0.0)
    columns = sorted({int(space.column[entry]) for entry in open_entries})
    prices = [float(space.flat[space.column == column][0]) for column in columns]
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    tried, unfinished = 0, np.inf
    while queue:
        alone, chosen = heapq.heappop(queue)
        if alone >= best.cost * (1 - 0.1 * PROVED):
            break
        if tried == MOST_SETS or is_late():
            return replace(best, bound=min(alone, unfinished), finished=False)
        tried += 1
        free = tuple(columns[place] for place in chosen)
        closed = np.isin(space.column, columns) & ~np.isin(space.column, free)
        found = _with_bounds(programme, np.where(closed, 0.0, high), np.where(closed, 0.0, low), free)
        if not found.finished:
            unfinished = min(unfinished, found.bound)
        if found.cost < best.cost:
            best = found
        for place in range(chosen[-1] + 1 if chosen else 0, len(columns)):
            heapq.heappush(queue, (alone + prices[place], (*chosen, place)))
    bound = min(best.cost, unfinished)
    return replace(best, bound=bound, finished=bound == best.cost)


def _with_bounds(programme: Programme, high: Array, low: Array, free: tuple[int, ...]) -> CheapestChange:
    """Minimise flat costs with every entry bounded but those of `free` columns, which are paid for whatever they do."""
    space, parts, owner = programme.space, programme.parts, programme.owner
    switches, paid = space.switches, np.isin(space.column, free)
    bent = np.array(sorted({int(column) for column in space.column[~switches & ~paid]}), dtype=np.intp)
    flat = np.array([float(space.flat[space.column == column][0]) for column in bent])
    costs = np.concatenate([np.where(switches & ~paid, space.flat, 0.0)[owner], flat])
    tops = np.concatenate([high[programme.up], -low[programme.down]])
    some = np.flatnonzero((~switches & ~paid)[owner])
    each, sizes = np.arange(some.size), np.maximum(tops[some], 1.0)
    rows = np.zeros((some.size, costs.size))
    rows[each, some] = 1 / sizes
    rows[each, parts + np.searchsorted(bent, space.column[owner[some]])] = -tops[some] / sizes
    found = programme.run(costs, rows, np.zeros(len(rows)), switches=True, bounds=(high, low))
    if not found.found:
        return found
    change = _without_dust(programme, found.change)
    already = sum({int(column): float(space.flat[space.column == column][0]) for column in free}.values())
    return replace(found, change=change, cost=space.cost(change), bound=found.bound + already)


def _without_dust(programme: Programme, change: Array) -> Array:
    """Take away numbers that are only there by rounding, which would be changes of a column, and settle the others.

    A y that HiGHS takes for 0 is up to 1e-6, and numbers may be so small a share of their bounds with it.
    """
    size = 1 + np.abs(change).max()
    for dust in (1e-6 * size, 0.0):
        clean = np.where(np.abs(change) <= dust, 0.0, change)
        if not programme.keeps(clean):
            clean = programme.refined(clean, ~programme.space.whole & (clean != 0))
        if programme.keeps(clean):
            break
    return clean


def _enough(programme: Programme) -> tuple[Array, Array]:
    """Return bounds of v beyond which no cheapest change by "l0" needs to go; as they are where there is no saying."""
    space, goals = programme.space, programme.goals
    high, low = space.high.copy(), space.low.copy()
    linked = (space.rows != 0).any(axis=0)
    needs = -programme.room[:goals]  # what each lead is short of
    for entry in np.flatnonzero(((high > LARGE) | (low < -LARGE)) & ~linked):
        gains = -programme.normals[:goals, entry]
        for sign, bounds in ((1.0, high), (-1.0, low)):
            if abs(bounds[entry]) <= LARGE:
                continue
            helps = sign * gains
            if (helps <= 0).all():
                bounds[entry] = 0.0  # this way helps no lead
            elif (helps >= 0).all() and (helps[needs > 0] > 0).all():
                enough = float((needs[needs > 0] / helps[needs > 0]).max(initial=0.0)) * (1 + 1e-9)
                enough = np.ceil(enough) if space.whole[entry] else enough
                bounds[entry] = sign * min(enough, abs(bounds[entry]))
    return high, low
