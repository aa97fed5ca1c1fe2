"""The feasible set of each person's move: a box, whole categories, links and a budget, all at once.

Coordinates are moves measured in cost: u = C δ. A box and levels form a set K that contains 0 (staying) and splits into
coordinates and groups of levels, so projecting onto K is exact and quick. With the ball of the budget there is one
multiplier λ more, found person by person:

    p = 2    P(y) = P_K(y / (1 + λ))                 ‖·‖₂² adds λ‖u‖²/2 to the distance
    p = 1    P(y) = P_K(y − λ s)                     with s the signs that u can have: ‖u‖₁ is linear between them
    p = ∞    the ball is a box: clip

Levels lie on a simplex: the one that a person has can only be given up and the others only be taken, so their part of
‖u‖₁ is linear and that of ‖u‖_∞ is what is given up. Links A u ≤ b, with b ≥ 0 so that staying is allowed, have a
multiplier each (`_linked`). Dykstra's method would need none, but took tens of thousands of rounds where links
have no room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.nonnegative_least_squares import nonnegative_least_squares
from oar.actions.sets.norms import Array, Norm, lifted

Rows = NDArray[np.intp]
CLOSE = 1e-13  # share of the budget by which a length may miss it
NEARLY = 1e-8  # the same, where not a projection but the farthest move is asked for
MOST_TRIALS = 200
LINKED = 1e-10  # share of a person's scale to which links and the rest are brought together
MOST_ROUNDS = 30
FAR = 1e7  # diameters
LINK_ROUNDS = 3
MOST_TANGENTS, MEETING = 45, 1e-6  # share of the bounds
SHORT = 1e-5  # how much weight the sum of what a move adds and takes has beside their difference


@dataclass(frozen=True)
class Levels:
    """The coordinates of one category."""

    place: slice  # which coordinates they are
    current: NDArray[np.intp]  # (n,) each person's level
    size: float  # what a whole level is worth, in cost


@dataclass(frozen=True, eq=False)
class Region:
    """The feasible sets of n people's moves."""

    norm: Norm  # of the budgets
    radii: Array  # (n,) budgets
    lower: Array  # (n, d), at most 0
    upper: Array  # (n, d), at least 0; of levels 0 where one may not be taken (the others bound the one that is held)
    levels: tuple[Levels, ...] = ()  # categories; their coordinates' bounds say only who may take which
    links: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (m, d) rows a of a·u ≤ room
    room: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (n, m), at least 0

    def of(self, rows: Rows | slice) -> Region:
        """Return the region of some of the people."""
        return replace(
            self,
            radii=self.radii[rows],
            lower=self.lower[rows],
            upper=self.upper[rows],
            levels=tuple(replace(each, current=each.current[rows]) for each in self.levels),
            room=self.room[rows] if len(self.links) else self.room,
        )

    @property
    def movable(self) -> Rows:
        """The mask of coordinates that somebody may move."""
        free = (self.lower.min(axis=0, initial=0.0) < 0) | (self.upper.max(axis=0, initial=0.0) > 0)
        for each in self.levels:
            free[each.place] = free[each.place].any()
        return np.flatnonzero(free)

    def along(self, columns: Rows) -> Region:
        """Return the region in some coordinates alone, of each category all or none."""
        if columns.size == self.lower.shape[1]:
            return self
        levels = tuple(
            replace(each, place=slice(start, start + each.place.stop - each.place.start))
            for each in self.levels
            for start in [int(np.searchsorted(columns, each.place.start))]
            if start < columns.size and columns[start] == each.place.start
        )
        lower, upper, links, room = self.lower[:, columns], self.upper[:, columns], self.links, self.room
        if len(links):
            binding = links[:, columns].any(axis=1)
            links, room = links[np.ix_(binding, columns)], room[:, binding]
        return replace(self, lower=lower, upper=upper, levels=levels, links=links, room=room)

    def without_links(self) -> Region:
        """Return the region that links do not narrow."""
        return replace(self, links=self.links[:0], room=self.room[:, :0])

    def project(self, points: Array) -> Array:
        """Return the nearest allowed moves (n, d)."""
        found = self._within_budget(points)
        if len(self.links):
            broken = np.flatnonzero((found @ self.links.T > self.room).any(axis=1) & (self.radii > 0))
            if broken.size:
                found[broken] = self.of(broken)._linked(points[broken])
        return found

    def farthest(self, slopes: Array) -> tuple[Array, Array]:
        """Return allowed moves (n, d) with all but the largest ⟨slopes, u⟩, and what no allowed move exceeds (n,).

        Links' multipliers μ ≥ 0 bound it by max_u ⟨slopes − Aᵀμ, u⟩ + μᵀb, u in the region without links. That is
        convex in each; the least is looked for link by link, others fixed, a few times over. Moves on both sides of it
        mix to one that just keeps to its link; where others are still broken, it is drawn towards staying.
        """
        aim, most = self._farthest_unlinked(slopes)
        if not len(self.links):
            return aim, most
        broken = np.flatnonzero((aim @ self.links.T > self.room).any(axis=1))
        if broken.size:
            aim[broken], most[broken] = self.of(broken)._farthest_linked(slopes[broken])
        return aim, most

    def _farthest_linked(self, slopes: Array) -> tuple[Array, Array]:
        count, kinds = self.room.shape
        forces, least, aim = np.zeros((count, kinds)), np.full(count, np.inf), np.zeros_like(slopes)
        for _ in range(1 if kinds == 1 else LINK_ROUNDS):
            for number in range(kinds):
                mixed = self._just_kept(slopes, number, forces, least)
                mixed *= self._kept(mixed)[:, None]
                better = np.einsum("nd,nd->n", slopes, mixed - aim) > 0
                aim[better] = mixed[better]
        return aim, least

    def _just_kept(self, slopes: Array, number: int, forces: Array, least: Array) -> Array:
        """Return best moves that just keep to one link, mixed from both sides of the multiplier with the least bound.

        A best move for a multiplier gives a tangent of the bound: its slope is what the move leaves of the link's room.
        Where tangents from both sides meet is tried next. Without a ball of p = 2 bounds have corners, so that they
        soon meet at the least value itself. Writes the link's multipliers into `forces` (n, m), and the least bounds
        that were seen into `least` (n,).
        """
        normal = self.links[number]

        def bounded(rows: Rows, prices: Array) -> tuple[Array, Array, Array]:
            forces[rows, number] = prices
            some = self.of(rows)
            found, bound = some._farthest_unlinked(slopes[rows] - forces[rows] @ self.links)
            bound += np.einsum("nm,nm->n", forces[rows], some.room)
            least[rows] = np.minimum(least[rows], bound)
            return found, bound, some.room[:, number] - found @ normal

        everyone = np.arange(len(slopes))
        # With μ a the largest of the slopes along a, nothing along a is gained any more.
        high = 4 * np.abs(slopes).max(axis=1) / np.abs(normal[normal != 0]).min() + forces[:, number]
        under, bound_high, slope_high = bounded(everyone, high)
        low = np.zeros(len(slopes))
        over, bound_low, slope_low = bounded(everyone, low)
        rows = np.flatnonzero((slope_low < 0) & (slope_high >= 0))
        for _ in range(MOST_TANGENTS):
            if not rows.size:
                break
            # T(μ) = bound + slope · (μ − end), of both ends
            at_zero = bound_low[rows] - slope_low[rows] * low[rows], bound_high[rows] - slope_high[rows] * high[rows]
            meet = (at_zero[0] - at_zero[1]) / (slope_high[rows] - slope_low[rows])
            meet = np.clip(meet, low[rows], high[rows])
            promised = at_zero[0] + slope_low[rows] * meet
            found, bound, slope = bounded(rows, meet)
            met = bound - promised <= MEETING * (np.abs(bound_low[rows]) + np.abs(bound_high[rows]))
            for side, (end, ends, slopes_there, moves) in (
                (slope < 0, (low, bound_low, slope_low, over)),
                (slope >= 0, (high, bound_high, slope_high, under)),
            ):
                there = side & ~met
                end[rows[there]], ends[rows[there]] = meet[there], bound[there]
                slopes_there[rows[there]], moves[rows[there]] = slope[there], found[there]
            rows = rows[~met]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(slope_high > slope_low, slope_high / (slope_high - slope_low), 1.0)
        return under + np.clip(share, 0.0, 1.0)[:, None] * (over - under)

    def _kept(self, moves: Array) -> Array:
        """Return the share (n,) of moves that keeps to all links."""
        pulled = moves @ self.links.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(pulled > self.room, self.room / pulled, 1.0).min(axis=1)

    def _farthest_unlinked(self, slopes: Array) -> tuple[Array, Array]:
        """Return the best moves without links: for p = 2 by a projection from far away, otherwise exactly."""
        if self.norm.p == 2:
            sizes = np.linalg.norm(slopes, axis=1)
            wide = self.widest()
            far = np.where(sizes > 0, FAR * wide / np.where(sizes > 0, sizes, 1.0), 0.0)
            aim = self._within_budget(far[:, None] * slopes, NEARLY)
            lengths = np.linalg.norm(aim, axis=1)
            # ⟨far·s − a, z − a⟩ ≤ 0 for every z as long as a, so that ⟨s, z − a⟩ ≤ ⟨a, z − a⟩ / far,
            spare = lengths * wide / np.where(far > 0, far, 1.0)
            # and z as long as the budget, shortened to ‖a‖, is one of those.
            short = np.divide(self.radii, lengths, out=np.ones_like(far), where=lengths > (1 - 2 * NEARLY) * self.radii)
            return aim, (np.einsum("nd,nd->n", slopes, aim) + spare) * np.maximum(short, 1.0)
        amounts, goals = self._filled(slopes)
        aim = np.where(slopes > 0, amounts, -amounts) + 0.0
        people = np.arange(len(slopes))
        for each, goal in zip(self.levels, goals, strict=True):
            share = amounts[:, each.place.start] * (0.5 if self.norm.p == 1 else 1.0)
            aim[:, each.place] = 0.0
            aim[people, each.place.start + goal] += share
            aim[people, each.place.start + each.current] -= share
        return aim, np.einsum("nd,nd->n", slopes, aim)

    def _filled(self, slopes: Array) -> tuple[Array, list[NDArray[np.intp]]]:
        """Return how far each coordinate is best moved (n, d), p = 1 or ∞, and each category's best level.

        For p = ∞ all go as far as they can. For p = 1 that is a knapsack: what gains most for its cost first.
        """
        rates, sizes, goals = self.offers(slopes)
        room = np.where(rates > 0, np.minimum(sizes, self.radii[:, None]), 0.0)
        if self.norm.p != 1:
            return room, goals
        order = np.argsort(-rates, axis=1, kind="stable")
        room = np.take_along_axis(room, order, 1)
        filled = np.clip(self.radii[:, None] - (np.cumsum(room, axis=1) - room), 0.0, room)
        amounts = np.empty_like(filled)
        np.put_along_axis(amounts, order, filled, 1)
        return amounts, goals

    def offers(self, slopes: Array) -> tuple[Array, Array, list[NDArray[np.intp]]]:
        """Return what a unit of cost gains in each coordinate (n, d), how much of it there is, and the best levels.

        A category is one offer, in its first coordinate's place: its best level gains its slope less that of the level
        held, which for p = 1 costs twice as much, because what is taken is given up there.
        """
        people, doubled = np.arange(len(slopes)), 2.0 if self.norm.p == 1 else 1.0
        rates, sizes = np.abs(slopes), np.where(slopes > 0, self.upper, -self.lower)
        goals = []
        for each in self.levels:
            inside = np.where(self.upper[:, each.place] > 0, slopes[:, each.place], -np.inf)
            inside[people, each.current] = -np.inf
            goals.append(inside.argmax(axis=1))
            best = np.maximum(inside.max(axis=1), -1e300)
            rates[:, each.place] = sizes[:, each.place] = 0.0
            gained = np.maximum(best - slopes[people, each.place.start + each.current], 0.0)
            rates[:, each.place.start], sizes[:, each.place.start] = gained / doubled, doubled * each.size
        return rates, sizes, goals

    def widest(self) -> Array:
        """Return what no two allowed moves of a person are farther apart than (n,), in the Euclidean norm."""
        dimensions = self.lower.shape[1]
        longest = np.sqrt(dimensions) if self.norm.p == np.inf else 1.0
        box = self.upper - self.lower
        for each in self.levels:
            box[:, each.place] = each.size
        return np.minimum(2 * longest * self.radii, np.sqrt((box**2).sum(axis=1)))

    def _in_box(self, points: Array) -> Array:
        """Project onto box and levels."""
        radii = self.radii[:, None]
        boxed = self.norm.p == np.inf
        lower = np.maximum(self.lower, -radii) if boxed else self.lower
        found = np.clip(points, lower, np.minimum(self.upper, radii) if boxed else self.upper)
        for each in self.levels:
            most = np.minimum(self.radii, each.size) if boxed else np.full(len(points), each.size)
            allowed = self.upper[:, each.place] > 0
            found[:, each.place] = onto_levels(points[:, each.place], each.current, allowed, each.size, most)
        return found

    def _within_budget(self, points: Array, close: float = CLOSE) -> Array:
        """Project onto box, levels and ball, to this share of the ball's radius."""
        found = self._in_box(points)
        if self.norm.p == np.inf:
            return found
        far = np.flatnonzero(self.norm.length(found) > self.radii)
        if not far.size:
            return found
        some, sources = self.of(far), points[far]
        found[far] = some._shortened(some._inwards(sources), sources, close)
        return found

    def _inwards(self, points: Array) -> Callable[[Rows, Array], Array]:
        """Return what takes rows of points by λ towards staying: y / (1 + λ) for p = 2, and y − λ s for p = 1.

        ‖u‖₁ falls at 1 a unit along −s. Coordinates of no category end at 0: they are soft-thresholded.
        """
        if self.norm.p == 2:
            return lambda rows, share: points[rows] / (1 + share[:, None])
        people, inward = np.arange(len(points)), np.zeros_like(points)
        for each in self.levels:
            inward[:, each.place] = -1.0
            inward[people, each.place.start + each.current] = 1.0

        def moved(rows: Rows, share: Array) -> Array:
            some, lengths, way = points[rows], share[:, None], inward[rows]
            shrunk = np.sign(some) * np.maximum(np.abs(some) - lengths, 0.0)
            return np.where(way == 0, shrunk, some + lengths * way)

        return moved

    def _shortened(self, moved: Callable[[Rows, Array], Array], points: Array, close: float) -> Array:
        """Return P_K(moved(λ)) with the λ at which everybody's length is its budget.

        1/length is all but linear in λ for p = 2 (exactly so in a ball) and length for p = 1, so secants find λ soon;
        halving helps where they do not.
        """
        count, radii = len(points), self.radii
        low, high, found = np.zeros(count), np.full(count, np.nan), np.zeros_like(points)
        value_low, value_high = self._measure(self.norm.length(self._in_box(points))), np.full(count, np.nan)
        target = self._measure(radii)
        share = np.where(radii > 0, self._first_guess(points), 0.0)
        open_rows = np.flatnonzero(radii > 0)
        for trial in range(MOST_TRIALS):
            if not open_rows.size:
                break
            some = self.of(open_rows)
            places = some._in_box(moved(open_rows, share[open_rows]))
            lengths = self.norm.length(places)
            done = np.abs(lengths - radii[open_rows]) <= close * radii[open_rows]
            long = lengths > radii[open_rows]
            # Within the budget is good enough once the bracket has no numbers left.
            shut = ~long & (np.nextafter(low[open_rows], np.inf) >= share[open_rows])
            found[open_rows] = np.where((done | ~long)[:, None], places, found[open_rows])
            values = self._measure(lengths)
            low[open_rows] = np.where(long, share[open_rows], low[open_rows])
            value_low[open_rows] = np.where(long, values, value_low[open_rows])
            high[open_rows] = np.where(long, high[open_rows], share[open_rows])
            value_high[open_rows] = np.where(long, value_high[open_rows], values)
            open_rows = open_rows[~(done | shut)]
            share[open_rows] = self._next(trial, open_rows, low, high, value_low, value_high, target)
        lengths = self.norm.length(found)
        over = lengths > radii  # by rounding: K contains 0, so that shortening stays inside
        found[over] *= (radii[over] / lengths[over])[:, None]
        return found

    def _measure(self, lengths: Array) -> Array:
        if self.norm.p == 1:
            return lengths
        with np.errstate(divide="ignore"):
            return 1 / lengths

    def _first_guess(self, points: Array) -> Array:
        """Return a λ that is right where only the ball binds (p = 2), or of the right size (p = 1)."""
        if self.norm.p == 2:
            return np.maximum(self.norm.length(points) / np.where(self.radii > 0, self.radii, 1.0) - 1, 0.0)
        return 0.5 * np.abs(points).max(axis=1)

    def _next(
        self, trial: int, rows: Rows, low: Array, high: Array, value_low: Array, value_high: Array, target: Array
    ) -> Array:
        lowest, highest = low[rows], high[rows]
        first, last = value_low[rows], value_high[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = lowest + (highest - lowest) * (target[rows] - first) / (last - first)
            grown = 2 * lowest + 1e-3 * self.radii[rows] + (0.0 if self.norm.p == 1 else 1e-3)
        middle = 0.5 * (lowest + highest)
        inside = (secant > lowest) & (secant < highest) & (trial % 3 != 2)
        return np.where(np.isnan(highest), grown, np.where(inside, secant, middle))

    def _linked(self, points: Array) -> Array:
        """Project onto all of it: maximise the dual in the links' multipliers μ ≥ 0, one link at a time.

        With B all but the links, u(μ) = P_B(y − Aᵀμ) minimises ½‖u − y‖² + μᵀ(A u − b) over B, so the dual's gradient
        is A u(μ) − b. It ends where everyone keeps to its links to LINKED of its budget, and where no multiplier
        pushes against a link that does not bind.
        """
        sizes = np.sqrt((self.links**2).sum(axis=1))
        normals, room = self.links / sizes[:, None], self.room / sizes
        result, rows = np.empty_like(points), np.arange(len(points))
        forces = np.zeros(room.shape)
        for _ in range(MOST_ROUNDS):
            some, sources, spare = self.of(rows), points[rows], room[rows]
            for number, normal in enumerate(normals):
                others = sources - forces @ normals + forces[:, number, None] * normal
                forces[:, number] = some._force(others, normal, spare[:, number], forces[:, number])
            places, slopes = some._pushed(sources, forces, normals, spare)
            if len(normals) > 1:
                ahead = some._newton(sources, forces, slopes, normals, spare)
                there, slopes_there = some._pushed(sources, ahead, normals, spare)
                better = _unsettled(ahead, slopes_there) < _unsettled(forces, slopes)
                forces[better], places[better], slopes[better] = ahead[better], there[better], slopes_there[better]
            result[rows] = places
            open_rows = _unsettled(forces, slopes) > LINKED * some.radii
            rows, forces = rows[open_rows], forces[open_rows]
            if not rows.size:
                return result
        for row in rows:  # links that hold each other in place leave the dual all but flat
            result[row] = self.of(np.array([row]))._by_active_sets(points[row])
        return result

    def _by_active_sets(self, point: Array) -> Array:
        """Project one person exactly, as a least-distance problem (Lawson & Hanson 1974, chapter 23).

        All but the ball of p = 2 are inequalities; that ball's multiplier is found by bisection. For p = 1 a move is
        the difference of what it adds and what it takes, both at least 0, and both are kept a little short.
        """
        dimensions, radius = point.size, float(self.radii[0])
        lower, upper = self.lower[0].copy(), self.upper[0].copy()
        equal = []
        for each in self.levels:
            held = each.place.start + int(each.current[0])
            lower[each.place], upper[each.place] = 0.0, np.where(upper[each.place] > 0, each.size, 0.0)
            lower[held], upper[held] = -each.size, 0.0
            row = np.zeros(dimensions)
            row[each.place] = 1.0
            equal += [row, -row]
        if self.norm.p == np.inf:
            lower, upper = np.maximum(lower, -radius), np.minimum(upper, radius)
        unit = np.eye(dimensions)
        normals = np.vstack([unit, -unit, *equal, self.links])
        room = np.concatenate([upper, -lower, np.zeros(len(equal)), self.room[0]])
        normals, room = normals[np.isfinite(room)], room[np.isfinite(room)]
        if self.norm.p == 1:
            split = np.hstack([normals, -normals])
            inner = np.vstack([split, np.ones(2 * dimensions), -np.eye(2 * dimensions)])
            enough = np.concatenate([room, [radius], np.zeros(2 * dimensions)])
            # ½‖a − b − y‖² + γ²/2 ‖a + b‖² is ½‖z‖² in z = (a − b − y, γ (a + b)).
            back = 0.5 * np.block([[unit, unit / SHORT], [-unit, unit / SHORT]])
            offset = 0.5 * np.concatenate([point, -point])
            found = back @ _least_distance(inner @ back, enough - inner @ offset) + offset
            return found[:dimensions] - found[dimensions:]
        if self.norm.p == np.inf:
            return _nearest(normals, room, point)
        low, high = 0.0, 1.0
        while np.linalg.norm(_nearest(normals, room, point * (1 - high))) > radius and high < 1:
            high = 0.5 * (1 + high)
        for _ in range(MOST_TRIALS):
            middle = 0.5 * (low + high)
            outside = np.linalg.norm(_nearest(normals, room, point * (1 - middle))) > radius
            low, high = (middle, high) if outside else (low, middle)
            if high - low <= 1e-15:
                break
        return _nearest(normals, room, point * (1 - high))

    def _pushed(self, points: Array, forces: Array, normals: Array, room: Array) -> tuple[Array, Array]:
        """Return u(μ) and A u(μ) − b."""
        places = self._within_budget(points - forces @ normals)
        return places, places @ normals.T - room

    def _newton(self, points: Array, forces: Array, slopes: Array, normals: Array, room: Array) -> Array:
        """Return where Newton's step in the multipliers that push leads: near the end it gets there at once.

        The dual's curvature −A P_B' Aᵀ is seen by differences.
        """
        count, kinds = forces.shape
        step = 1e-7 * self.radii
        bend = np.empty((count, kinds, kinds))
        for number in range(kinds):
            more = forces.copy()
            more[:, number] += step
            bend[:, :, number] = (slopes - self._pushed(points, more, normals, room)[1]) / step[:, None]
        push = forces > 0
        bend = np.where(push[:, :, None] & push[:, None, :], bend, 0.0)
        change = np.linalg.pinv(bend, rcond=1e-6) @ np.where(push, slopes, 0.0)[..., None]
        return np.maximum(forces + change[..., 0], 0.0)

    def _force(self, points: Array, normal: Array, room: Array, guess: Array) -> Array:
        """Return the least μ ≥ 0 with a·P_B(y − μ a) ≤ b, for one link whose normal a has length 1.

        The left side falls with μ, and no faster than μ grows: where it is h too large, μ is h too small at the least.
        """
        count = len(points)
        low, high = np.zeros(count), np.full(count, np.inf)
        value_low, value_high = np.zeros(count), np.zeros(count)
        force, rows = guess.copy(), np.arange(count)
        close = 0.1 * LINKED * self.radii
        for trial in range(MOST_TRIALS):
            some = self.of(rows)
            excess = some._within_budget(points[rows] - force[rows, None] * normal) @ normal - room[rows]
            above = excess > 0
            low[rows] = np.where(above, force[rows], low[rows])
            value_low[rows] = np.where(above, excess, value_low[rows])
            high[rows] = np.where(above, high[rows], force[rows])
            value_high[rows] = np.where(above, value_high[rows], excess)
            done = (np.abs(excess) <= close[rows]) | (~above & (force[rows] <= 0))
            done |= np.isfinite(high[rows]) & (high[rows] - low[rows] <= 1e-15 * high[rows])
            rows = rows[~done]
            if not rows.size:
                break
            least, most, first, last = low[rows], high[rows], value_low[rows], value_high[rows]
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = least - first * (most - least) / (last - first)
                middle = 0.5 * (least + most)
            inside = (first > 0) & (secant > least) & (secant < most) & (trial % 3 != 2)
            # Nothing known from below: either 0 itself is allowed, or it says how far to go at the least.
            between = np.where(inside, secant, np.where(first > 0, middle, 0.0))
            force[rows] = np.where(np.isinf(most), least + 2.0 ** min(trial, 60) * first, between)
        return force


def _nearest(normals: Array, room: Array, point: Array) -> Array:
    return point + _least_distance(normals, room - normals @ point)


def _least_distance(normals: Array, room: Array) -> Array:
    """Return argmin ‖v‖₂ with normals·v ≤ room: with E = [−Nᵀ; −room], v from the residual of NNLS on E."""
    size = float(np.abs(room).max()) or 1.0  # so that v is of size 1
    stacked = np.vstack([-normals.T, -room / size])
    unit = np.zeros(len(stacked))
    unit[-1] = 1.0
    residual = stacked @ nonnegative_least_squares(stacked, unit) - unit
    return size * (-residual[:-1] / residual[-1])


def _unsettled(forces: Array, slopes: Array) -> Array:
    """Return by how much links are broken, or multipliers push against links that do not bind (n,)."""
    return np.abs(np.maximum(forces + slopes, 0.0) - forces).max(axis=1)


def onto_levels(
    points: Array, current: NDArray[np.intp], allowed: NDArray[np.bool_], size: float, most: Array
) -> Array:
    """Project moves (n, l) of one category onto those that lead to a mixture of levels.

    A level of `size` is held before; of it, at most `most` (n,) is given to other levels that are `allowed` (n, l).
    """
    people = np.arange(len(points))
    held = np.zeros_like(points)
    held[people, current] = size
    allowed = allowed.copy()
    allowed[people, current] = True
    mixture = _onto_simplex(held + points, allowed, np.full(len(points), size))
    # Where too much is given up, what is given up is `most`, and the others share it.
    much = np.flatnonzero(size - mixture[people, current] > most)
    if much.size:
        others = allowed[much]
        others[np.arange(much.size), current[much]] = False
        mixture[much] = _onto_simplex(points[much], others, most[much])
        mixture[much, current[much]] = size - most[much]
    return mixture - held


def _onto_simplex(points: Array, allowed: NDArray[np.bool_], size: Array) -> Array:
    """Project onto {w ≥ 0, Σ w = size, w = 0 where not allowed}: by sorting (Held, Wolfe & Crowder 1974)."""
    highest = np.where(allowed, points, -np.inf).max(axis=1, keepdims=True)
    # Lower than `size` below the highest is 0 in any case.
    below = np.where(allowed, np.maximum(points - highest, -2 * size[:, None] - 1), -2 * size[:, None] - 1)
    return np.where(allowed, lifted(below, size[:, None]), 0.0)
