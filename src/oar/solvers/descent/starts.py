"""Starts of the descent, beside where everybody stands.

Grown slowly; everyone by minus the query's own best move; past kinks by quasi-Newton steps and by steps that may climb;
at random, in several ways; and on the corners across the ball. Which ones depends on how the first start ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Array, Fit
from oar.problem import Problem
from oar.solvers.descent.corners import across, one_by_one
from oar.solvers.descent.descent import SLOWLY, DescentEnd, DescentProblem
from oar.solvers.descent.multistart import PATIENCE, WORTH_IT, History, Start, StartMaker
from oar.solvers.descent.nonmonotone import wandering_search
from oar.solvers.descent.open_ball import open_ball_search, opened
from oar.solvers.discrete.exchanges import other_ways
from oar.solvers.feasible.sets import FeasibleSet
from oar.solvers.query.move_search import best_own_move
from oar.solvers.settings import ProjectedGradient

GROWTH = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # shares of everyone's budget
GROWTH_STEPS = 20
NEAR, NEARER = 0.3, 0.5  # of everyone's budget
SHAKEN = (0.1, 0.2, 0.4)  # shares of the people, or of everyone's budget
SOME = 0.4  # standard deviations: a third of the people
WIDTHS = (0.3, 1.0, 3.0)  # of random starts in the opened ball: near where everybody stands, and near the edge
OPENED = (2, np.inf)  # norms whose balls can be opened
KINDS, ANYWHERE, ABOUT_THE_BEST = 6, (0, 1, 3), (2, 4, 5)  # of random starts, by the order of their turns
MOST_REOPENED = 5
SCREENED, SCREENING = 4, 15  # times as many starts as are asked for, and for how many steps
MOST_AXES = 20
MOST_ONE_BY_ONE = 500  # numbers: of members' moves
OPEN_STEPS, WANDERING_STEPS = 100, 250
PAST_KINKS = "past kinks"


@dataclass(frozen=True, eq=False)
class Starts:
    """The starts that suit a problem; each maker is a function of a history, and nothing here changes.

    Of the settings, what the user has set counts: restarts, random_starts and seed.
    """

    problem: Problem
    settings: Any
    descent: DescentProblem
    unmoved: Fit

    @property
    def _feasible(self) -> FeasibleSet:
        return self.descent.feasible

    @property
    def _shape(self) -> tuple[int, int]:
        return self._feasible.radii.size, self.descent.objective.query.size

    @property
    def _opens(self) -> bool:
        """Whether everyone's limits are balls that can be opened."""
        return self._feasible.is_ball and self._feasible.norm.p in OPENED

    @cached_property
    def _random(self) -> RandomStarts:
        return RandomStarts(self.problem, self._feasible)

    def in_order(self, first: DescentEnd) -> Iterator[StartMaker]:
        """Yield the makers that are asked, one after the other; `first` is how the search went until now."""
        loop = self.descent.settings
        if not loop.max_steps:  # what is promised without any step
            yield self.opposite
            return
        spectral, restarts = loop.response == "spectral", self.settings.restarts
        large = first.ended == "steps" and loop.max_steps > PATIENCE
        if spectral and (self._kinked(first) or large or restarts):
            yield self.grown
        # The loss of a network is far from linear in the moves: a full response can lead it anywhere.
        if restarts or (self.descent.objective.from_scratch and first.ended != "closed" and spectral):
            yield self.slowly
        yield self.opposite

    def _kinked(self, first: DescentEnd) -> bool:
        """Report whether the first start ended at a kink of the loss, where projected gradients stall."""
        ended = first.ended == "stalled" or (first.ended == "steps" and not self.problem.model.smooth)
        return self.descent.settings.response == "spectral" and ended

    def at_random(self, first: DescentEnd) -> Iterator[StartMaker]:
        """Yield makers of random starts and of what follows them; past kinks, before and after quasi-Newton steps."""
        if not self.descent.settings.max_steps:
            return
        seed, restarts = self.settings.seed, self.settings.restarts
        wanders = self.descent.settings.response == "spectral" and not self.problem.model.smooth
        opens = self._kinked(first) and self._opens
        if restarts and wanders:
            yield from self._wandering(self._drawn(restarts // 2, [seed, 1]))
        drawn = self._drawn(restarts, seed)
        if opens:
            yield self.reopened
            for number, draw in enumerate(islice(drawn, 0, None, 2)):  # each of them makes two starts
                yield partial(self.past_kinks, number, draw)
            yield self.reopened_again
        else:
            for number, draw in enumerate(drawn):
                yield partial(self.anywhere, number, draw)
        if not restarts:
            return
        if self._feasible.norm.p != 2 and not self.descent.objective.from_scratch:
            yield partial(self.screened, SCREENED * restarts, [seed, 3], max(1, restarts // 3))
        yield from self._corners()
        if wanders:
            shaking = self._drawn(2 * restarts, [seed, 2])
            for number, (who, where) in enumerate(zip(shaking, shaking, strict=False)):  # two draws for each
                yield partial(self.shaken, number, who, where)
            yield from self._corners()

    def _drawn(self, count: int, seed: int | list[int]) -> Iterator[Array]:
        """Draw normal numbers (n + 1, d) again and again."""
        generator = np.random.default_rng(seed)
        for _ in range(count):
            yield generator.normal(size=self._shape)

    def grown(self, history: History) -> Iterable[Start]:
        """Return moves that were grown slowly, which at large budgets end in better minima than full responses do."""
        if self._opens:
            return self._open_ball(0.0)
        moves, steps = np.zeros(self._shape), 0
        for share in GROWTH:
            smaller = replace(self.descent, feasible=self._feasible.smaller(share))
            end = smaller.improved(moves, GROWTH_STEPS)
            moves, steps = end.moves, steps + end.steps
        return [Start(moves, steps=steps)]

    def slowly(self, history: History) -> Iterable[Start]:
        """Return where everybody stands, once more, for shorter steps than the first start's."""
        return [Start(np.zeros(self._shape))]

    def screened(self, count: int, seed: list[int], kept: int, history: History) -> Iterable[Start]:
        """Return the best of what a few steps make of many random starts: balls with corners have many minima."""
        ends: list[tuple[float, int, Array]] = []
        steps = 0
        for number, draw in enumerate(self._drawn(0 if history.agreed else count, seed)):
            if self.descent.late:
                break
            with suppress(NumericsError):
                corners = self._feasible.respond(draw[self._random.places])
                reached = self.descent.improved(corners, SCREENING, longest=SLOWLY)
                steps += reached.steps
                ends = sorted([*ends, (reached.loss, number, reached.moves)], key=lambda end: end[:2])[:kept]
        return [Start(moves, steps=0 if place else steps) for place, (_, _, moves) in enumerate(ends)]

    def _corners(self) -> Iterator[StartMaker]:
        """Yield makers of the best moves with members on other corners: all who like it; of few people, one by one."""
        size, dimensions = self.descent.training.size, self.descent.training.dimensions
        if dimensions <= MOST_AXES and self._feasible.is_ball:
            yield partial(across, self.descent)
            if size * dimensions <= MOST_ONE_BY_ONE and not self.descent.objective.from_scratch:
                yield partial(one_by_one, self.descent)

    def opposite(self, history: History) -> Iterable[Start]:
        """Return everyone by minus the query's own best move: all members' moving by −m is the query's by m."""
        problem, limits = self.problem, self._feasible
        if not limits.is_ball:  # where each has limits of its own, few may all move alike
            few = self.descent.settings.max_steps <= 1
            ways = () if few else other_ways(problem, history.best.step.slopes, limits.respond)
            return (Start(moves, only_better=True) for moves in ways)
        # People without weight do not matter.
        shared = float(limits.radii[:-1][limits.weights[:-1] > 0].min()) if problem.model.equivariant else 0.0
        reach = shared + float(limits.radii[-1])
        if reach == 0 or problem.several:
            return ()
        number = getattr(self.settings, "random_starts", 8)
        asked = ProjectedGradient(random_starts=number, seed=self.settings.seed)
        own = best_own_move(problem, self.descent.training, reach, self.unmoved, asked)
        if not (own.loss < history.best.loss or self.settings.restarts):
            return ()
        shares = np.append(np.full(problem.people.size, -shared), limits.radii[-1]) / reach
        return [Start(limits.project(shares[:, None] * own.move))]

    def _wandering(self, drawn: Iterator[Array]) -> Iterator[StartMaker]:
        """Yield makers of where wandering leads to, of which none are always the better ones.

        From everyone's full response, from moves grown slowly, and from where everybody stands; then by turns from the
        edge of everyone's limits, from near where they stand, and from the edge with everyone on the same side.
        """
        yield lambda history: self._wandered(np.zeros(self._shape), respond=True)
        if self._opens:
            yield self.grown_and_wandered
        yield lambda history: self._wandered(np.zeros(self._shape))
        for number, draw in enumerate(drawn):
            yield partial(self.wandered_from, number, draw)

    def grown_and_wandered(self, history: History) -> Iterable[Start]:
        """Return where wandering leads to from moves that were grown slowly."""
        (grown,) = self._open_ball(0.0)
        return [replace(start, steps=start.steps + grown.steps) for start in self._wandered(grown.moves)]

    def wandered_from(self, number: int, draw: Array, history: History) -> Iterable[Start]:
        """Return where wandering leads to from a random place, of three kinds by turns."""
        if self.descent.late:
            return ()
        limits, heading = self._feasible, draw[self._random.places]
        if number % 3 == 0:
            return self._wandered(limits.respond(heading))
        if number % 3 == 1:
            return self._wandered(limits.project(NEAR * limits.radii[:, None] * heading))
        return self._wandered(limits.respond(np.broadcast_to(heading[-1], self._shape)))

    def shaken(self, number: int, who: Array, where: Array, history: History) -> Iterable[Start]:
        """Return where wandering leads to from the best moves so far, after they were shaken, so that gains add up.

        By turns some people are put at random on their edge, and everyone is moved a little.
        """
        from scipy.special import ndtr

        if self.descent.late:
            return ()
        limits, places = self._feasible, self._random.places
        best, share = history.best.moves, SHAKEN[number % len(SHAKEN)]
        chances, heading = 2 * ndtr(who[places]) - 1, where[places]
        if number % 4 == 3:
            return self._wandered(limits.project(best + share * limits.radii[:, None] * chances))
        return self._wandered(np.where(np.abs(chances[:, :1]) < share, limits.respond(heading), best))

    def _wandered(self, start: Array, respond: bool = False) -> list[Start]:
        """Return moves found by projected gradients that may climb a little; with `respond`, from the full response."""
        loop = self.descent.settings
        most = min(WANDERING_STEPS, loop.max_steps)
        moves, steps = wandering_search(self.descent.objective, self._feasible, most, loop.deadline, start, respond)
        return [Start(moves, steps=steps)]

    def anywhere(self, number: int, draw: Array, history: History) -> Iterable[Start]:
        """Return a random start, of several kinds by turns."""
        if self.descent.late or history.agreed:
            return ()
        return [Start(self._random.start(number, draw, history.best.moves))]

    def past_kinks(self, number: int, draw: Array, history: History) -> Iterable[Start]:
        """Yield a random start before and after quasi-Newton steps; neither is always the better one."""
        if self.descent.late:
            return
        heading = draw[self._random.places]
        yield Start(self._feasible.respond(heading), kind=PAST_KINKS)
        yield from self._open_ball(WIDTHS[number % len(WIDTHS)] * heading, kind=PAST_KINKS)

    def reopened(self, history: History, least: float = np.inf, rounds: int = MOST_REOPENED) -> Iterable[Start]:
        """Return what quasi-Newton steps find from the best point, again and again as long as that helps."""
        loss = history.best.loss
        if not rounds or (least < np.inf and (loss > least or self.descent.late)):
            return ()
        again = partial(self.reopened, least=loss - WORTH_IT * abs(loss), rounds=rounds - 1)
        return self._open_ball(opened(history.best.moves, self._feasible), followed=again)

    def reopened_again(self, history: History) -> Iterable[Start]:
        """Return the same, where random starts have led to a better point than before."""
        goes_on = history.best_kind == PAST_KINKS and not self.descent.late
        return self.reopened(history) if goes_on else ()

    def _open_ball(self, start: Array | float, **more: Any) -> list[Start]:
        """Return moves found by quasi-Newton steps in the opened ball."""
        loop = self.descent.settings
        most = min(OPEN_STEPS, loop.max_steps)
        moves, steps = open_ball_search(self.descent.objective, self._feasible, most, loop.deadline, start)
        return [Start(moves, steps=steps, **more)]


@dataclass(frozen=True, eq=False)
class RandomStarts:
    """Random starts of six kinds by turns, none always the better.

    Every class its own way; near where everybody stands; about the best moves so far; at the edge of everyone's limits;
    there for some people, and the best moves so far for the others; nearer to the best moves so far.
    """

    problem: Problem
    limits: FeasibleSet

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Which row of a draw is whose (n + 1,), the query's last: it does not depend on how people are listed."""
        people = self.problem.people
        labels = np.asarray(people.labels)
        if labels.dtype.kind in "fiub":
            labels = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
        else:  # words, or anything else that only has to be told apart
            labels = people.codes(0, people.size)
        keys = (people.row_weights, labels, *np.asarray(people.features, dtype=np.float64).T)
        return np.append(np.lexsort(keys).argsort(), people.size)

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """Which row of a draw is whose (n + 1,) where every class goes its own way."""
        labels = self.problem.people.target_rows(self.problem.regresses)
        return np.append(np.unique(labels, axis=0, return_inverse=True)[1].ravel(), 0)

    def start(self, number: int, draw: Array, best: Array) -> Array:
        """Return moves (n + 1, d) of the kind whose turn it is, from normal numbers and the best moves so far."""
        from scipy.special import ndtr

        limits, heading = self.limits, draw[self.places]
        inside = limits.radii[:, None] * (2 * ndtr(heading) - 1)  # uniform in a box
        match number % KINDS:
            case 0:
                return limits.respond(draw[self.groups])
            case 1:
                return limits.project(NEAR * inside)
            case 2:
                return limits.project(best + inside)
            case 3:
                return limits.respond(heading)
            case 4:
                some = np.abs(heading[:, :1]) < SOME
                return np.where(some, limits.respond(np.roll(heading, 1, axis=1)), best)
        return limits.project(best + NEARER * inside)
