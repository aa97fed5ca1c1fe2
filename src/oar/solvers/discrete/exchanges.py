"""The search among whole moves on a table.

In place of a common share of the way to everyone's best response, a share of the people goes all of it: those with the
highest estimated gains, as many as lower the loss most; a refit decides. What need not be whole is re-optimised in
between, with what is left of everyone's budget. With few people the same is done column by column at the end, and then
person by person, each by a refit of its own.

Where the descent has moved people as if categories could be mixed and steps be cut, its moves are rounded first (the
level with the largest share, whole steps towards staying, and what no longer fits is given up), and exchanges go on
from there; the better of that and of exchanges from where everybody stands counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array
from oar.problem import Problem
from oar.signals.base import Outcome
from oar.solvers.descent.corners import MostLiked
from oar.solvers.descent.descent import SLOWLY, DescentEnd, DescentProblem, point_of
from oar.solvers.discrete.integer_moves import ALMOST, TRIFLE, Lattice
from oar.solvers.feasible.sets import FeasibleRegions

REST_STEPS = 10
LEAST_SHARE = 2.0**-8  # of the people who would gain from an exchange
FEW, MANY = 20_000, 1_000_000  # numbers: with fewer columns are tried one by one; with more, fewer responses
PRECISION = 1e-8
TRIED, MOST_EACH, LEAST_EACH = 200, 20, 3  # refits in a round of people who move alone; moves of each
MOST_ROUNDS = 10


@dataclass(eq=False)
class ExchangeSearch:
    """The search among whole moves of one problem, from the outcome before anybody moves; accepted steps are counted.

    What is descended on between exchanges knows no rules: `whole` looks after these, in any way that keeps them.
    """

    problem: Problem
    descent: DescentProblem
    whole: Lattice
    unmoved: Outcome
    steps: int

    def best(self, relaxed: DescentEnd, known: Sequence[Array] = ()) -> DescentEnd:
        """Return the best whole moves from a descent's end, `known` moves in cost, staying, and the other way."""
        if not self.whole.discrete.any() and not self.whole.plausible_only:
            return relaxed
        ends = [self._exchanged(np.zeros_like(relaxed.moves), self.unmoved)]
        ends += [self._exchanged(start) for start in (relaxed.moves, *known) if start.any()]
        best = min(ends, key=lambda end: end.loss)
        for start in self._other_ways(best):
            with suppress(NumericsError):
                best = min(best, self._exchanged(start), key=lambda end: end.loss)
        return self._without_trifles(self._one_by_one(best))

    def _without_trifles(self, here: DescentEnd) -> DescentEnd:
        """Leave out changes too small to ask for, unless all of them together are worth as much as one that is not."""
        moves = self.whole.without_trifles(here.moves) if self.whole.discrete.any() else here.moves
        if (moves == here.moves).all():
            return here
        with suppress(NumericsError):
            outcome = self.descent.objective.outcome(moves, here.step.memory, PRECISION)
            if outcome.loss - here.loss <= TRIFLE * (self.unmoved.loss - here.loss):
                swept = replace(here, point=self.descent.objective.signalled(moves, outcome))
                return replace(swept, gap=self._gap_bound(swept))
        return here

    def _other_ways(self, best: DescentEnd) -> Iterator[Array]:
        """Yield whole moves the other way that are better than the best; of many people only where nothing else was."""
        stuck, whole = best.loss >= self.unmoved.loss, self.whole
        if self.descent.settings.max_steps <= 1 or (best.moves.size > MANY and not stuck):
            return
        objective = self.descent.objective
        point = best.point if stuck else objective.signalled(np.zeros_like(best.moves), self.unmoved)
        for moves in other_ways(self.problem, point.gradient, lambda gradient: whole.response(-gradient)):
            start = whole.settled(moves, np.zeros_like(moves))
            with suppress(NumericsError):
                if self.descent.objective.outcome(start, None, PRECISION).loss < best.loss:
                    yield start

    def _exchanged(self, start: Array, began: Outcome | None = None) -> DescentEnd:
        """Exchange whole moves while refits say that it helps; `began` is of a start that is whole and plausible."""
        whole = self.whole
        fixed = whole.rounded(start)
        if whole.plausible_only:
            fixed = whole.settled(fixed, np.zeros_like(fixed))
            start = whole.settled(fixed + whole.shrunk(fixed, np.where(whole.discrete, 0.0, start)), fixed)
        here = self._with_rest(start, fixed, began)
        share, ended = 1.0, "steps"
        for _ in range(self.descent.settings.max_steps):
            if self.descent.late:
                ended = "time"
                break
            found = self._shared(here, *self._responses(here), share)
            if found is None and here.moves.size <= FEW:
                found = self._shared(here, *self._best_columns(here), 1.0)
            if found is None:
                ended = "closed"
                break
            outcome, moves, share = found
            here = self._with_rest(moves, began=outcome)
            self.steps += 1
            self.descent.on_step(self.steps, here.loss, here.gap)
        return replace(here, gap=self._gap_bound(here), ended=ended)

    def _one_by_one(self, here: DescentEnd) -> DescentEnd:
        """Let each of few people change its move where a refit says so: estimates miss what is not linear."""
        descent, movers = self.descent, int((self.descent.feasible.radii > 0).sum())
        if not 0 < LEAST_EACH * movers <= TRIED or descent.objective.from_scratch or not descent.settings.max_steps:
            return here
        for _ in range(MOST_ROUNDS):
            moves, last, loss = here.moves.copy(), here.step.outcome, here.loss
            liked = self._liked(here, min(MOST_EACH, TRIED // movers))
            for person, aim in liked.in_order(descent.feasible.weights):
                if descent.late:
                    break
                trial = moves.copy()
                trial[person] = aim
                with suppress(NumericsError):
                    outcome = descent.objective.outcome(trial, here.step.memory, PRECISION)
                    if outcome.loss < loss - descent.settings.tolerance * abs(loss):
                        moves, last, loss = trial, outcome, outcome.loss
            if not loss < here.loss:
                break
            here = replace(self._with_rest(moves, began=last), gap=here.gap, ended=here.ended)
            self.steps += 1
        return replace(here, gap=self._gap_bound(here))

    def _liked(self, here: DescentEnd, kept: int) -> MostLiked:
        """Return everyone's other moves with the highest estimated gains."""
        slopes, liked = -here.step.slopes, MostLiked(here.moves, kept)
        for moves in self.whole.changed(here.moves, pairs=True):
            gain, _ = self._estimated(here, slopes, moves)
            known = (moves == here.moves).all(axis=1) | (moves == liked.moves).all(axis=2).any(axis=0)
            gain[known] = -np.inf
            liked.offer(gain, moves)
        return liked

    def _gap_bound(self, here: DescentEnd) -> float:
        """Return a bound of the gap. Of many people links are left out: that only makes it larger, and saves time."""
        limits: Any = self.descent.feasible
        if here.moves.size > MANY:
            limits = replace(limits, region=limits.region.without_links())
        return limits.gap(here.moves, here.step.slopes)

    def _with_rest(self, about: Array, fixed: Array | None = None, began: Outcome | None = None) -> DescentEnd:
        """Fix whole moves, by default those of `about`, and re-optimise the rest from there; `began` is the outcome."""
        whole, objective = self.whole, self.descent.objective
        fixed = np.where(whole.discrete, about, 0.0) if fixed is None else fixed
        if whole.discrete.all():
            began = self.descent.objective.outcome(fixed, None, PRECISION) if began is None else began
            return DescentEnd(objective.signalled(fixed, began), np.inf, [began.loss], "steps")
        rest = FeasibleRegions(whole.rest(fixed), self.descent.feasible.weights)
        inner = DescentProblem(objective.from_there(fixed), rest, replace(self.descent.settings, response="spectral"))
        point = None if began is None else point_of(rest.project(about - fixed), began)
        found = inner.improved(about - fixed, REST_STEPS, point, SLOWLY).counted_from(fixed)
        if not whole.plausible_only:
            return found
        settled = whole.settled(found.moves, about)  # where it began is plausible
        if (settled == found.moves).all():
            return found
        ends = [inner.improved(moves - fixed, 0) for moves in (settled, about)]
        return min(ends, key=lambda end: end.loss).counted_from(fixed)

    def _responses(self, here: DescentEnd) -> tuple[Array, Array]:
        """Return everyone's whole response to the slopes, and what it gains by estimate (n + 1,).

        A score is not linear in a whole step. So unless there are many people, there is a second response, to the
        slopes half-way between here and where the first leads, and a third, to those there; the best by an estimate
        from both ends counts.
        """
        slopes = -here.step.slopes
        best = self.whole.response(slopes)
        gains, there = self._estimated(here, slopes, best)
        for other_slopes in () if slopes.size > MANY else (0.5 * (slopes + there), there):
            other = self.whole.response(other_slopes)
            gain, _ = self._estimated(here, slopes, other)
            better = gain > gains + ALMOST * np.abs(gains)  # equal ones by their order, not by rounding
            gains, best = np.where(better, gain, gains), np.where(better[:, None], other, best)
        settled = self.whole.settled(best, here.moves)
        if settled is not best:
            gains, _ = self._estimated(here, slopes, settled)
        return settled, gains

    def _shared(self, here: DescentEnd, aims: Array, gains: Array, share: float) -> tuple[Outcome, Array, float] | None:
        """Return the outcome of an exchange that lowers the loss, its moves, and the share that made it; or None.

        Those with the highest estimated gains go first. Shares are halved from twice the one that did well last, as
        long as that does better.
        """
        descent, worth = self.descent, gains * self.descent.feasible.weights
        order = np.argsort(-worth, kind="stable")
        gainers = int((worth > ALMOST * max(worth.max(), 0.0)).sum())  # less is rounding
        memory = None if descent.objective.from_scratch else here.step.memory
        best: tuple[Outcome, Array, float] | None = None
        least = np.inf
        part, enough = min(1.0, 2 * share), here.loss - descent.settings.tolerance * abs(here.loss)
        while gainers and part * gainers > 0.5 and part >= LEAST_SHARE and not descent.late:
            some = order[: int(np.ceil(part * gainers))]
            moves = here.moves.copy()
            moves[some] = aims[some]
            with suppress(NumericsError):
                outcome = descent.objective.outcome(moves, memory, PRECISION)
                if outcome.loss >= least:
                    break
                if outcome.loss < enough:
                    best, least = (outcome, moves, part), outcome.loss
            part /= 2
        return best

    def _best_columns(self, here: DescentEnd) -> tuple[Array, Array]:
        """Return everyone's moves with that one column changed that gains most, and what it gains by estimate."""
        slopes = -here.step.slopes
        gains, aims = np.zeros(len(slopes)), here.moves.copy()
        for moves in self.whole.changed(here.moves):
            gain, _ = self._estimated(here, slopes, moves)
            better = gain > gains * (1 + ALMOST)
            gains, aims[better] = np.where(better, gain, gains), moves[better]
        return aims, gains

    def _estimated(self, here: DescentEnd, slopes: Array, moves: Array) -> tuple[Array, Array]:
        """Return by how much everyone's score would rise (n + 1,), from slopes at both ends, and those there."""
        there = self.descent.objective.falls_at(here.step, moves)
        return 0.5 * np.einsum("nd,nd->n", slopes + there, moves - here.moves), there


def other_ways(problem: Problem, slopes: Array, respond: Callable[[Array], Array]) -> Iterator[Array]:
    """Yield everyone's full response, but those of one class all go the other way; then everyone does.

    A class that may not move away from the query may go past it: the loss rises at first, and no slope tells.
    """
    there, back = respond(slopes), respond(-slopes)
    if not problem.regresses:
        codes = np.append(problem.people.codes(0, problem.people.size), -1)
        for code in range(len(problem.people.classes)):
            yield np.where((codes == code)[:, None], back, there)
    yield back
