"""Starts of the descent, beside where everybody stands.

Grown slowly; everyone by minus the query's own best move; past kinks by quasi-Newton steps and by steps that may climb;
at random, in several ways; and on the corners across the ball. Which ones depends on how the search went so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Fit
from oar.people import Population
from oar.problem import Problem
from oar.solvers.descent.corners import across, one_by_one
from oar.solvers.descent.multistart import PATIENCE, SLOWLY, WORTH_IT, Search, Start
from oar.solvers.descent.open_ball import opened
from oar.solvers.feasible.sets import FeasibleSet
from oar.solvers.query.own_move import best_own_move
from oar.solvers.settings import ProjectedGradient

Array = NDArray[np.float64]
GROWTH = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # shares of everyone's budget
GROWTH_STEPS = 20
NEAR, NEARER = 0.3, 0.5  # of everyone's budget
SHAKEN = (0.1, 0.2, 0.4)  # shares of the people, or of everyone's budget
SOME = 0.4  # standard deviations: a third of the people
WIDTHS = (0.3, 1.0, 3.0)  # of random starts in the opened ball: near where everybody stands, and near the edge
KINDS, ANYWHERE, ABOUT_THE_BEST = 6, (0, 1, 3), (2, 4, 5)  # of random starts, by the order of their turns
MOST_REOPENED = 5
SCREENED, SCREENING = 4, 15  # times as many starts as are asked for, and for how many steps
MOST_AXES = 20
PRECISION = 1e-8
MOST_ONE_BY_ONE = 500  # numbers: of members' moves


def _grown(search: Search, stay: Array) -> Array:
    """Return moves that were grown slowly, which at large budgets end in better minima than a full response does."""
    limits = search.feasible
    if search.opens:
        return search.open_ball()
    moves = stay
    for share in GROWTH:
        moves = search.improved(moves, min(GROWTH_STEPS, search.settings.max_steps), limits.smaller(share)).moves
    return moves


def other_starts(problem: Problem, settings: Any, search: Search, unmoved: Fit) -> Iterator[Start]:
    """Yield more places to start from; which ones depends on how the search went so far."""
    if not search.settings.max_steps:  # what is promised without any step
        yield from _opposite(problem, settings, search, unmoved)
        return
    people, loop = problem.people, search.settings
    from_scratch = search.objective.from_scratch
    stay = np.zeros_like(search.best.moves)
    ended, smooth = search.best.ended, problem.model.smooth
    kinked = loop.response == "spectral" and (ended == "stalled" or (ended == "steps" and not smooth))
    restarts, seed = getattr(settings, "restarts", 0), getattr(settings, "seed", 0)
    large = ended == "steps" and loop.max_steps > PATIENCE
    if loop.response == "spectral" and (kinked or large or restarts):
        yield Start(_grown(search, stay))
    # The loss of a network is far from linear in the moves: a full response can lead it anywhere.
    if restarts or (from_scratch and ended != "closed" and loop.response == "spectral"):
        yield Start(stay)
    yield from _opposite(problem, settings, search, unmoved)
    wanders = restarts and not smooth and loop.response == "spectral"
    if wanders:
        yield from _wandered(people, search, stay, _drawn(search, restarts // 2, [seed, 1]))
    drawn = _drawn(search, restarts, seed)
    if kinked and search.opens:
        yield from _past_kinks(people, search, drawn)
    elif restarts:
        yield from _at_random(problem, search, drawn)
    if restarts and search.feasible.norm.p != 2 and not search.agreed and not from_scratch:
        yield from _screened(people, search, _drawn(search, SCREENED * restarts, [seed, 3]), max(1, restarts // 3))
    if restarts:
        yield from _other_corners(search)
    if wanders:
        yield from _shaken(people, search, _drawn(search, 2 * restarts, [seed, 2]))
        yield from _other_corners(search)


def _screened(people: Population, search: Search, drawn: Iterator[Array], kept: int) -> Iterator[Start]:
    """Yield what a few steps made of many random starts, the best of them only: balls with corners have many minima."""
    ends: list[tuple[float, int, Array]] = []
    for number, draw in enumerate(drawn):
        if search.late:
            break
        with suppress(NumericsError):
            corners = search.feasible.respond(draw[_own_places(people)])
            reached = search.improved(corners, min(SCREENING, search.settings.max_steps), longest=SLOWLY)
            ends = sorted([*ends, (reached.loss, number, reached.moves)], key=lambda end: end[:2])[:kept]
    yield from (Start(moves) for _, _, moves in ends)


def _other_corners(search: Search) -> Iterator[Start]:
    """Yield the best moves with members on other corners: all who like them better; where few are, one by one."""
    if search.training.dimensions <= MOST_AXES and search.feasible.is_ball:
        yield from map(Start, across(search))
        numbers = search.training.size * search.training.dimensions
        if numbers <= MOST_ONE_BY_ONE and not search.objective.from_scratch:
            yield from map(Start, one_by_one(search))


def _opposite(problem: Problem, settings: Any, search: Search, unmoved: Fit) -> Iterator[Start]:
    """Yield everyone by minus the query's own best move: members who all move by −m are a query that moves by m."""
    people, limits = problem.people, search.feasible
    if not limits.is_ball:  # where each has limits of its own, few may all move alike
        if search.settings.max_steps > 1:
            yield from _found_better(search, other_ways(problem, search.best.step.slopes, limits.respond))
        return
    # People without weight do not matter.
    shared = float(limits.radii[:-1][limits.weights[:-1] > 0].min()) if problem.model.equivariant else 0.0
    reach = shared + float(limits.radii[-1])
    if reach == 0 or problem.several:
        return
    starts, seed = getattr(settings, "random_starts", 8), getattr(settings, "seed", 0)
    own = best_own_move(problem, search.training, reach, unmoved, ProjectedGradient(random_starts=starts, seed=seed))
    if own.loss < search.best.loss or getattr(settings, "restarts", False):
        shares = np.append(np.full(people.size, -shared), limits.radii[-1]) / reach
        yield Start(limits.project(shares[:, None] * own.move))


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


def _found_better(search: Search, found: Iterator[Array]) -> Iterator[Start]:
    """Yield moves as starts that are better than the best by a refit of their own."""
    for moves in found:
        with suppress(NumericsError):
            outcome = search.judged(moves, None, PRECISION)
            if outcome.loss < search.best.loss:
                yield Start(moves)


def _wandered(people: Population, search: Search, stay: Array, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield where wandering leads to, of which none are always the better ones.

    From everyone's full response, from moves grown slowly, and from where everybody stands; then by turns from the edge
    of everyone's limits, from near where they stand, and from the edge with everyone on the same side.
    """
    limits = search.feasible
    yield from _found(lambda: search.wandered(stay, respond=True))
    if search.opens:
        yield from _found(lambda: search.wandered(search.open_ball()))
    yield from _found(lambda: search.wandered(stay))
    for number, draw in enumerate(drawn):
        if search.late:
            return
        heading = draw[_own_places(people)]
        kinds = (
            limits.respond(heading),
            limits.project(NEAR * limits.radii[:, None] * heading),
            limits.respond(np.broadcast_to(heading[-1], stay.shape)),
        )
        yield from _found(partial(search.wandered, kinds[number % len(kinds)]))


def _shaken(people: Population, search: Search, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield where wandering leads to from the best moves so far, after they were shaken, so that gains add up.

    By turns some people are put at random on their edge, and everyone is moved a little.
    """
    from scipy.special import ndtr

    limits, places = search.feasible, _own_places(people)
    for number, (who, where) in enumerate(zip(drawn, drawn, strict=False)):  # two draws for each
        if search.late:
            return
        best, share = search.best.moves, SHAKEN[number % len(SHAKEN)]
        chances, heading = 2 * ndtr(who[places]) - 1, where[places]
        some = np.where(np.abs(chances[:, :1]) < share, limits.respond(heading), best)
        a_little = limits.project(best + share * limits.radii[:, None] * chances)
        yield from _found(partial(search.wandered, a_little if number % 4 == 3 else some))


def _found(moves: Callable[[], Array]) -> Iterator[Start]:
    """Yield the moves as a start, if training can be followed all the way to them."""
    with suppress(NumericsError):
        yield Start(moves())


def _drawn(search: Search, count: int, seed: int | list[int]) -> Iterator[Array]:
    """Draw normal numbers (n + 1, d) again and again."""
    shape, generator = search.best.moves.shape, np.random.default_rng(seed)
    for _ in range(count):
        yield generator.normal(size=shape)


def _own_places(people: Population) -> NDArray[np.intp]:
    """Return which row of a draw is whose (n + 1,), the query's last: it does not depend on how people are listed."""
    labels = np.asarray(people.labels)
    if labels.dtype.kind in "fiub":
        labels = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    else:  # words, or anything else that only has to be told apart
        labels = people.codes(0, people.size)
    weights = people.row_weights
    keys = (weights, labels, *np.asarray(people.features, dtype=np.float64).T)
    return np.append(np.lexsort(keys).argsort(), people.size)


def _at_random(problem: Problem, search: Search, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield random starts of several kinds by turns."""
    for kind in random_kinds(problem, search.feasible, drawn):
        if search.late or search.agreed:
            return
        yield Start(kind(search.best.moves))


def random_kinds(problem: Problem, limits: FeasibleSet, drawn: Iterator[Array]) -> Iterator[Callable[[Array], Array]]:
    """Yield functions that make a random start, given the best moves so far: kinds by turns, none always the better.

    Every class its own way; near where everybody stands; about the best moves so far; at the edge of everyone's limits;
    there for some people, and the best moves so far for the others; nearer to the best moves so far.
    """
    from scipy.special import ndtr

    people = problem.people
    labels = people.target_rows(problem.regresses)
    groups = np.append(np.unique(labels, axis=0, return_inverse=True)[1].ravel(), 0)
    places = _own_places(people)
    for number, draw in enumerate(drawn):

        def start(best: Array, kind: int = number % KINDS, draw: Array = draw) -> Array:
            heading = draw[places]
            inside = limits.radii[:, None] * (2 * ndtr(heading) - 1)  # uniform in a box
            match kind:
                case 0:
                    return limits.respond(draw[groups])
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

        yield start


def _past_kinks(people: Population, search: Search, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield quasi-Newton steps from the best point; random starts, before and after such steps; the first again.

    Random starts of neither kind are always the better ones.
    """
    yield from _reopened(search)
    without = search.best
    for number, draw in enumerate(islice(drawn, 0, None, 2)):  # each of them makes two starts
        if search.late:
            return
        heading = draw[_own_places(people)]
        yield Start(search.feasible.respond(heading))
        yield Start(search.open_ball(WIDTHS[number % len(WIDTHS)] * heading))
    if search.best is not without:
        yield from _reopened(search)


def _reopened(search: Search) -> Iterator[Start]:
    """Yield what quasi-Newton steps find from the best point, as long as that helps."""
    for _ in range(MOST_REOPENED):
        before = search.best.loss
        yield from _found(lambda: search.open_ball(opened(search.best.moves, search.feasible)))
        if search.best.loss > before - WORTH_IT * abs(before) or search.late:
            return
