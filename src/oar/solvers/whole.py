"""Moves that a table allows: whole categories, whole steps.

The loop moves people as if categories could be mixed and steps be cut. Afterwards

    round        everyone's moves: the level with the largest share, whole steps towards staying; what no longer fits
                 the budget or a link is given up
    re-optimise  what need not be whole, with the rest of everyone's budget
    exchange     people's whole moves, one column at a time, chosen by the score: those with the highest estimated gains
                 first, as many as lower the loss; a refit decides

and again, until no exchange helps. The same exchanges start from where everybody stands, too; the better end counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.measured import Measured
from oar.actions.region import Region
from oar.errors import NumericsError
from oar.models.in_cost import InCost
from oar.signals.base import Step
from oar.solvers.loop import Reached
from oar.solvers.region_limits import RegionLimits
from oar.solvers.search import SLOWLY, Search

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
ALMOST = 1e-9  # of a step: what counts as a whole one; of a budget: what is rounding
MOST_EXCHANGES = 12
REST_STEPS = 20
SHARES = tuple(0.5**power for power in range(7))  # of the people who would gain from an exchange
FEW = 200_000  # numbers: where there are fewer, gains are estimated from both ends of a move
PRECISION = 1e-9


@dataclass(frozen=True, eq=False)
class Whole:
    """Which moves (n, d), in cost, keep to whole levels and steps, and what is left for the other coordinates."""

    measured: Measured

    @property
    def region(self) -> Region:
        """Where people may move to, mixed levels and cut steps included."""
        return self.measured.region

    @property
    def steps(self) -> Array:
        """Steps (d,) in cost; 0 where anything goes."""
        return self.measured.steps * self.measured.costs

    @property
    def discrete(self) -> Mask:
        """Which coordinates have steps (d,)."""
        return self.measured.steps > 0

    @property
    def nothing_to_do(self) -> bool:
        """Whether no coordinate that somebody may move has steps."""
        columns, _ = self.region.reduced()
        return not self.discrete[columns].any()

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
        slack = ALMOST * np.maximum(region.radii, 1.0)
        fine = region.norm.length(whole) <= region.radii * (1 + 1e-12)
        boxed = np.ones(whole.shape[1], dtype=bool)
        for each in region.levels:
            boxed[each.place] = False  # levels have no box, only some that may be taken
            taken = whole[:, each.place] > 0.5 * each.size
            fine &= ~(taken & (region.upper[:, each.place] <= 0)).any(axis=1)
        inside = (whole >= region.lower - slack[:, None]) & (whole <= region.upper + slack[:, None])
        fine &= (inside | ~boxed).all(axis=1)
        if len(region.links):
            fine &= (whole @ region.links.T <= region.room + slack[:, None]).all(axis=1)
        return fine

    def rest(self, whole: Array) -> Region:
        """Return where people may move the other coordinates, once their whole moves are made."""
        region, free = self.region, ~self.discrete
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
        lower, upper = np.where(free, region.lower, 0.0), np.where(free, region.upper, 0.0)
        return replace(region, radii=np.maximum(left, 0.0), lower=lower, upper=upper, levels=(), room=room)

    def others(self, whole: Array) -> Iterator[Array]:
        """Yield other whole moves of everyone that differ in one column: taken back, a step on, as far as can be.

        Each with everybody's other columns as they are, and with those alone, for whom they leave too little. Moves
        that are not allowed are as before.
        """
        region, steps = self.region, self.steps
        people = np.arange(len(whole))
        taken = np.zeros(whole.shape[1], dtype=bool)
        for each in region.levels:
            taken[each.place] = True
            for level in range(each.place.stop - each.place.start):
                switch = np.zeros((len(whole), each.place.stop - each.place.start))
                switch[people, each.current] -= each.size
                switch[:, level] += each.size
                yield from self._either(whole, each.place, switch)
        for column in np.flatnonzero(self.discrete & ~taken):
            place, step = slice(column, column + 1), steps[column]
            here = whole[:, place]
            least, most = region.lower[:, place], region.upper[:, place]
            reach = region.radii[:, None]
            for aim in (
                np.zeros_like(here),
                here + step,
                here - step,
                step * np.floor(np.minimum(most, reach) / step + ALMOST),
                -step * np.floor(np.minimum(-least, reach) / step + ALMOST),
            ):
                yield from self._either(whole, place, aim)

    def _either(self, whole: Array, place: slice, aim: Array) -> Iterator[Array]:
        beside, alone = whole.copy(), np.zeros_like(whole)
        beside[:, place], alone[:, place] = aim, aim
        for other in (beside, alone):
            other[:] = np.where(self.fits(other)[:, None], other, whole)
            if (other != whole).any():
                yield other


def made_whole(search: Search, measured: Measured) -> None:
    """Replace what a search has reached by the best whole moves found from there, and from staying."""
    whole = Whole(measured)
    if whole.nothing_to_do:
        return
    relaxed = search.best
    ends = [_exchanged(search, whole, whole.rounded(relaxed.moves), relaxed.moves)]
    if time.monotonic() < search.loop.deadline:
        stay = np.zeros_like(relaxed.moves)
        with suppress(NumericsError):
            ends.append(_exchanged(search, whole, stay, stay))
    best = min(ends, key=lambda reached: reached.step.loss)
    search.reached = [replace(best, ended=relaxed.ended if best.ended == "closed" else best.ended)]


def _exchanged(search: Search, whole: Whole, fixed: Array, about: Array) -> Reached:
    """Exchange whole moves as long as a refit says that it helps; `about` says where the rest starts from."""
    here = _with_rest(search, whole, fixed, about)
    for _ in range(MOST_EXCHANGES):
        if time.monotonic() > search.loop.deadline:
            return replace(here, ended="time")
        other = _exchange(search, whole, fixed, here)
        if other is None:
            break
        fixed = other
        here = _with_rest(search, whole, fixed, here.moves)
    limits = RegionLimits(whole.region, search.limits.weights)
    return replace(here, gap=limits.gap(here.moves, _slopes(here.step)), ended="closed")


def _with_rest(search: Search, whole: Whole, fixed: Array, about: Array) -> Reached:
    """Fix whole moves, and re-optimise what need not be whole."""
    region = whole.rest(fixed)
    limits = RegionLimits(region, search.limits.weights)
    training, signal, query, target, _ = search.asked
    assert isinstance(training, InCost)
    asked = (training.from_there(fixed[:-1]), signal, query + fixed[-1], target, limits)
    movable = bool(((region.upper > region.lower).any(axis=1) & (region.radii > 0)).any())
    inner = Search(asked, search.loop, search.on_step)
    start = np.where(whole.discrete, 0.0, about)
    found = inner.improved(start, min(REST_STEPS, search.loop.max_steps) if movable else 0, longest=SLOWLY)
    search.steps += inner.steps
    return replace(found, moves=found.moves + fixed)


def _exchange(search: Search, whole: Whole, fixed: Array, here: Reached) -> Array | None:
    """Return better whole moves, or None: everyone's best by the score, for as many people as lowers the loss."""
    training, signal, query, target, _ = search.asked
    gains, aims = np.zeros(len(fixed)), fixed.copy()
    scale = np.append(search.training.weights, 1.0)
    free = ~whole.discrete
    for other in whole.others(fixed):
        moves = other + _shrunk(whole, other, np.where(free, here.moves, 0.0))
        gain = _estimated(search, here, moves)
        better = gain > gains * (1 + ALMOST)
        gains, aims[better] = np.where(better, gain, gains), other[better]
    worth = gains * scale
    order = np.argsort(-worth, kind="stable")
    gainers = int((worth > 0).sum())
    best_loss, best = here.step.loss, None
    for share in SHARES:
        count = int(np.ceil(share * gainers))
        if not count or time.monotonic() > search.loop.deadline:
            break
        trial = fixed.copy()
        trial[order[:count]] = aims[order[:count]]
        rest = _shrunk(whole, trial, np.where(free, here.moves, 0.0))
        with suppress(NumericsError):
            moves = trial + rest
            step = signal.at(training, moves[:-1], query + moves[-1], target, here.step.memory, PRECISION)
            if step.loss < best_loss - PRECISION * abs(best_loss):
                best_loss, best = step.loss, trial
            elif best is not None:
                break
        if count == 1:
            break
    return best


def _shrunk(whole: Whole, fixed: Array, rest: Array) -> Array:
    """Return the other coordinates' moves, shortened to what whole moves leave."""
    region = whole.rest(fixed)
    if len(region.links):
        return RegionLimits(region, np.ones(len(fixed))).project(rest)
    lengths = region.norm.length(rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(lengths > region.radii, region.radii / lengths, 1.0)
    return rest * share[:, None]


def _estimated(search: Search, here: Reached, moves: Array) -> Array:
    """Return by how much everyone's score would rise (n + 1,): from the slope, and where few are, from both ends'."""
    slopes, way = -_slopes(here.step), moves - here.moves
    training, signal = search.training, here.step.signal
    if signal is None or way.size > FEW:
        return np.einsum("nd,nd->n", slopes, way)
    there = slopes.copy()
    with suppress(NumericsError):
        there[:-1] = training.score_gradients(here.step.fit.parameters, training.moved(moves[:-1]), signal)
    return 0.5 * np.einsum("nd,nd->n", slopes + there, way)


def _slopes(step: Step) -> Array:
    return np.concatenate([step.gradient, step.outcome.query_slope[None]])
