"""The search among whole moves on a table.

In place of a common share of the way to everyone's best response, a share of the people goes all of it: those with the
highest estimated gains, as many as lower the loss most; a refit decides. What need not be whole is re-optimised in
between, with what is left of everyone's budget. With few people the same is done column by column at the end, and then
person by person, each by a refit of its own.

Where the loop has moved people as if categories could be mixed and steps be cut, its moves are rounded first (the level
with the largest share, whole steps towards staying, and what no longer fits is given up), and exchanges go on from
there; the better of that and of exchanges from where everybody stands counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import CostRegion
from oar.errors import NumericsError
from oar.models.wrap.cost_units import CostUnits
from oar.problem import Problem
from oar.signals.base import Memory, Outcome, refit
from oar.solvers.descent.loop import LoopEnd
from oar.solvers.descent.multistart import SLOWLY, Search
from oar.solvers.descent.starts import other_ways
from oar.solvers.discrete.integer_moves import ALMOST, TRIFLE, Lattice
from oar.solvers.feasible.regions import FeasibleRegions

Array = NDArray[np.float64]
REST_STEPS = 10
LEAST_SHARE = 2.0**-8  # of the people who would gain from an exchange
FEW, MANY = 20_000, 1_000_000  # numbers: with fewer columns are tried one by one; with more, fewer responses
PRECISION = 1e-8
TRIED, MOST_EACH, LEAST_EACH = 200, 20, 3  # refits in a round of people who move alone; moves of each
MOST_ROUNDS = 10
MOST_PAIRS = 400  # pairs of columns' changes that are looked at


def made_whole(
    problem: Problem, search: Search, measured: CostRegion, unmoved: Outcome, known: Sequence[Array] = ()
) -> None:
    """Replace what a search has reached by the best whole moves found from there, from staying, and the other way.

    `known` are more moves (n + 1, d) to start from, in cost.
    """
    whole = Lattice(measured)
    if not whole.discrete.any() and measured.where is None:
        return
    if measured.ruled is not None:  # from here on rules are looked after by `whole`, in any way that keeps them
        assert isinstance(search.limits, FeasibleRegions)
        search.limits = replace(search.limits, region=measured.unruled)
        search.asked = (*search.asked[:-1], search.limits)
    relaxed = search.best
    ends = [_exchanged(search, whole, np.zeros_like(relaxed.moves), unmoved)]
    if relaxed.moves.any():
        ends.append(_exchanged(search, whole, relaxed.moves))
    ends += [_exchanged(search, whole, start) for start in known if start.any()]
    best = min(ends, key=lambda reached: reached.step.loss)
    for start in _other_ways(problem, search, whole, best, unmoved):
        with suppress(NumericsError):
            best = min(best, _exchanged(search, whole, start), key=lambda reached: reached.step.loss)
    search.reached = [_without_trifles(search, whole, _one_by_one(search, whole, best), unmoved)]


def _refitted(search: Search, moves: Array, memory: Memory | None = None) -> Outcome:
    """Retrain on members' moves, with the query at its own, which is the last of them (n + 1, d)."""
    training, _, query, target, _ = search.asked
    return refit(training, moves[:-1], query + moves[-1], target, memory, PRECISION)


def _without_trifles(search: Search, whole: Lattice, here: LoopEnd, unmoved: Outcome) -> LoopEnd:
    """Leave out changes too small to ask for, unless all of them together are worth as much as one that is not."""
    moves = whole.without_trifles(here.moves) if whole.discrete.any() else here.moves
    if (moves == here.moves).all():
        return here
    with suppress(NumericsError):
        outcome = _refitted(search, moves, here.step.memory)
        if outcome.loss - here.step.loss <= TRIFLE * (unmoved.loss - here.step.loss):
            training, signal, *_ = search.asked
            swept = replace(here, moves=moves, step=signal.differentiate(training, outcome, None))
            return replace(swept, gap=_gap_bound(search, swept))
    return here


def _other_ways(problem: Problem, search: Search, whole: Lattice, best: LoopEnd, unmoved: Outcome) -> Iterator[Array]:
    """Yield whole moves the other way that are better than the best; with many people only where nothing else was."""
    training, signal, *_ = search.asked
    stuck = best.step.loss >= unmoved.loss
    if search.loop.max_steps <= 1 or (best.moves.size > MANY and not stuck):
        return
    slopes = best.step.slopes if stuck else signal.differentiate(training, unmoved, None).slopes
    for moves in other_ways(problem, slopes, lambda gradient: whole.response(-gradient)):
        start = whole.settled(moves, np.zeros_like(moves))
        with suppress(NumericsError):
            if _refitted(search, start).loss < best.step.loss:
                yield start


def _exchanged(search: Search, whole: Lattice, start: Array, began: Outcome | None = None) -> LoopEnd:
    """Exchange whole moves as long as a refit says that it helps; `began` is the outcome at the start, if it is known.

    A start that is known is whole already, and plausible.
    """
    fixed = whole.rounded(start)
    if whole.measured.where is not None:
        fixed = whole.settled(fixed, np.zeros_like(fixed))
        start = whole.settled(fixed + whole.shrunk(fixed, np.where(whole.discrete, 0.0, start)), fixed)
    here = _with_rest(search, whole, fixed, start, began)
    share, ended = 1.0, "steps"
    for _ in range(search.loop.max_steps):
        if time.monotonic() > search.loop.deadline:
            ended = "time"
            break
        found = _shared(search, here, *_responses(search, whole, here), share)
        if found is None and here.moves.size <= FEW:
            found = _shared(search, here, *_best_columns(search, whole, here), 1.0)
        if found is None:
            ended = "closed"
            break
        outcome, moves, share = found
        here = _with_rest(search, whole, np.where(whole.discrete, moves, 0.0), moves, outcome)
        search.steps += 1
        if search.on_step is not None:
            search.on_step(search.steps, here.step.loss, here.gap)
    return replace(here, gap=_gap_bound(search, here), ended=ended)


def _one_by_one(search: Search, whole: Lattice, here: LoopEnd) -> LoopEnd:
    """Let single people change their moves wherever a refit says that it helps: estimates miss what is far from linear.

    Only few people, whose refits are quick.
    """
    movers = int((search.limits.radii > 0).sum())
    if not 0 < LEAST_EACH * movers <= TRIED or search.loop.from_scratch or not search.loop.max_steps:
        return here
    weights = np.append(search.training.weights, 1.0)
    for _ in range(MOST_ROUNDS):
        gains, aims = _liked(search, whole, here, min(MOST_EACH, TRIED // movers))
        possible = np.isfinite(gains) & (weights > 0)
        worth = np.where(possible, gains, 0.0) * weights
        moves, last = here.moves.copy(), None
        for place in np.argsort(np.where(possible, -worth, np.inf), axis=None, kind="stable"):
            number, person = np.unravel_index(place, gains.shape)
            if not possible[number, person] or time.monotonic() > search.loop.deadline:
                break
            trial = moves.copy()
            trial[person] = aims[number, person]
            with suppress(NumericsError):
                outcome = _refitted(search, trial, here.step.memory)
                loss = here.step.loss if last is None else last.loss
                if outcome.loss < loss - search.loop.tolerance * abs(loss):
                    moves, last = trial, outcome
        if last is None:
            break
        here = replace(
            _with_rest(search, whole, np.where(whole.discrete, moves, 0.0), moves, last), gap=here.gap, ended=here.ended
        )
        search.steps += 1
    return replace(here, gap=_gap_bound(search, here))


def _liked(search: Search, whole: Lattice, here: LoopEnd, kept: int) -> tuple[Array, Array]:
    """Return everyone's other moves with the highest estimated gains: (kept, n + 1), best first, and (kept, n + 1, d).

    Where there are fewer, gains are −∞.
    """
    slopes, rest = -here.step.slopes, np.where(whole.discrete, 0.0, here.moves)
    gains, aims = np.full((kept, len(rest)), -np.inf), np.repeat(here.moves[None], kept, axis=0)
    for other in _changed(whole, here.moves - rest):
        moves = whole.settled(other + whole.shrunk(other, rest), here.moves)
        gain, _ = _estimated(search, here, slopes, moves)
        known = (moves == here.moves).all(axis=1) | (moves == aims).all(axis=2).any(axis=0)
        gain[known] = -np.inf
        place = (gains >= gain).sum(axis=0)  # how many are liked better
        for number in range(kept - 1, -1, -1):
            down, new = place < number, place == number
            gains[number, down], aims[number, down] = gains[number - 1, down], aims[number - 1, down]
            gains[number, new], aims[number, new] = gain[new], moves[new]
    return gains, aims


def _changed(whole: Lattice, stands: Array) -> Iterator[Array]:
    """Yield whole moves that differ in one column and, if these are not many, in two."""
    others = list(whole.others(stands))
    yield from others
    if len(others) ** 2 <= MOST_PAIRS:
        for other in others:
            yield from whole.others(other)


def _gap_bound(search: Search, here: LoopEnd) -> float:
    """Return a bound of the gap. Of many people links are left out, which only makes it larger, and saves much time."""
    limits = search.limits
    assert isinstance(limits, FeasibleRegions)
    if here.moves.size > MANY:
        limits = replace(limits, region=limits.region.without_links())
    return limits.gap(here.moves, here.step.slopes)


def _with_rest(search: Search, whole: Lattice, fixed: Array, about: Array, began: Outcome | None = None) -> LoopEnd:
    """Fix whole moves, and re-optimise what need not be whole, from where it is; `began` is the outcome there."""
    training, signal, query, target, everyones = search.asked
    if whole.discrete.all():
        if began is None:
            began = _refitted(search, fixed)
        return LoopEnd(fixed, signal.differentiate(training, began, None), np.inf, 0, 0, [began.loss], "steps")
    assert isinstance(training, CostUnits)
    assert isinstance(everyones, FeasibleRegions)
    limits = FeasibleRegions(whole.rest(fixed), everyones.weights)
    asked = (training.from_there(fixed[:-1]), signal, query + fixed[-1], target, limits)
    inner = Search(asked, replace(search.loop, response="spectral"), None)
    found = inner.improved(about - fixed, min(REST_STEPS, search.loop.max_steps), began=began, longest=SLOWLY)
    found = replace(found, moves=found.moves + fixed)
    if whole.measured.where is None:
        return found
    settled = whole.settled(found.moves, about)  # where it began is plausible
    if (settled == found.moves).all():
        return found
    ends = [inner.improved(moves - fixed, 0) for moves in (settled, about)]
    best = min(ends, key=lambda end: end.step.loss)
    return replace(best, moves=best.moves + fixed)


def _responses(search: Search, whole: Lattice, here: LoopEnd) -> tuple[Array, Array]:
    """Return everyone's whole response to the slopes, and what it gains by estimate (n + 1,).

    A score is not linear in a whole step. So unless there are many people, there is a second response, to the slopes
    half-way between here and where the first leads, and a third, to those there; the best by an estimate from both ends
    counts.
    """
    slopes = -here.step.slopes
    best = whole.response(slopes)
    gains, there = _estimated(search, here, slopes, best)
    for other_slopes in () if slopes.size > MANY else (0.5 * (slopes + there), there):
        other = whole.response(other_slopes)
        gain, _ = _estimated(search, here, slopes, other)
        better = gain > gains + ALMOST * np.abs(gains)  # equal ones by the order in which they come, not by rounding
        gains, best = np.where(better, gain, gains), np.where(better[:, None], other, best)
    settled = whole.settled(best, here.moves)
    if settled is not best:
        gains, _ = _estimated(search, here, slopes, settled)
    return settled, gains


def _shared(
    search: Search, here: LoopEnd, aims: Array, gains: Array, share: float
) -> tuple[Outcome, Array, float] | None:
    """Return what an exchange leads to that lowers the loss: its outcome, the moves, and the share of the gainers.

    Those with the highest estimated gains go first. Shares are halved from twice the one that did well last, as long
    as that does better. None where no share lowers the loss.
    """
    worth = gains * np.append(search.training.weights, 1.0)
    order = np.argsort(-worth, kind="stable")
    gainers = int((worth > ALMOST * max(worth.max(), 0.0)).sum())  # less is rounding
    memory = None if search.loop.from_scratch else here.step.memory
    best: tuple[Outcome, Array, float] | None = None
    part, enough = min(1.0, 2 * share), here.step.loss - search.loop.tolerance * abs(here.step.loss)
    while gainers and part * gainers > 0.5 and part >= LEAST_SHARE and time.monotonic() < search.loop.deadline:
        some = order[: int(np.ceil(part * gainers))]
        moves = here.moves.copy()
        moves[some] = aims[some]
        with suppress(NumericsError):
            outcome = _refitted(search, moves, memory)
            if best is not None and outcome.loss >= best[0].loss:
                break
            if outcome.loss < enough:
                best = outcome, moves, part
        part /= 2
    return best


def _best_columns(search: Search, whole: Lattice, here: LoopEnd) -> tuple[Array, Array]:
    """Return everyone's moves with that one column changed that gains most, and what it gains by estimate (n + 1,)."""
    slopes, rest = -here.step.slopes, np.where(whole.discrete, 0.0, here.moves)
    gains, aims = np.zeros(len(rest)), here.moves.copy()
    for other in whole.others(here.moves - rest):
        moves = whole.settled(other + whole.shrunk(other, rest), here.moves)
        gain, _ = _estimated(search, here, slopes, moves)
        better = gain > gains * (1 + ALMOST)
        gains, aims[better] = np.where(better, gain, gains), moves[better]
    return aims, gains


def _estimated(search: Search, here: LoopEnd, slopes: Array, moves: Array) -> tuple[Array, Array]:
    """Return by how much everyone's score would rise (n + 1,), from slopes at both ends, and those (n + 1, d) there."""
    way = moves - here.moves
    training, signal = search.training, here.step.signal
    there = slopes.copy()
    if signal is not None:
        with suppress(NumericsError):
            there[:-1] = training.score_gradients(here.step.fit.parameters, training.moved(moves[:-1]), signal)
    return 0.5 * np.einsum("nd,nd->n", slopes + there, way), there
