"""Collective and joint recourse for models that are refitted in the loop.

The loop starts from where everybody stands, with a full response to the first signal. If it is not done after some
steps, the budget is large (the loss is far from linear in the moves); if it stalls, the loss has kinks. Then there is a
second start from moves that were grown slowly, for p = 2 and ∞ by quasi-Newton steps (`ball`), otherwise by letting
budgets grow.

Where everyone may move and training is translation-equivariant, "all members move by minus the query's best move" gives
the query exactly what that move of its own would; if the loop ends above that, it starts from there too, so that the
collective is never worse than an individual who may move as far as every member may. Random starts may be asked for.
All starts get a few steps, the better half of them goes on for twice as many, and so on.

The loss is not convex in the moves, so nothing is proved to be optimal and nothing to be impossible. A gap that closes
on an approximate gradient certifies nothing, and is not called finished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Fit, Training
from oar.people import Population
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.signals import Signal, as_signal
from oar.signals.base import Outcome, refit
from oar.solvers.ball import open_ball_search, opened
from oar.solvers.loop import BEGIN, FAR, LoopSettings, Reached, improve, reach_of
from oar.solvers.member_limits import Limits
from oar.solvers.own_move import best_own_move
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient

Array = NDArray[np.float64]
PATIENCE = 60  # steps for each start; a first start that is not done by then has a large budget
OPENED = (2, np.inf)  # norms whose balls can be opened
OPEN_STEPS = 100
TIGHT = 1e-10
CLEAR = 1e-8  # of the loss: what a refit may leave uncertain
CONVERGED = 1e-6  # a larger gradient after the first refit is not that of a minimum
GROWTH = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # shares of everyone's budget
GROWTH_STEPS = 20
NEAR = 0.3  # of everyone's budget
SLOWLY = 1.0  # budgets: the longest first step of all starts but the first
WIDTHS = (0.3, 1.0, 3.0)  # of random starts in the opened ball: near where everybody stands, and near the edge
MOST_REOPENED = 5
MOST_AXES, MOST_ACROSS = 20, 10
WORTH_IT = 1e-6  # of the loss: what another search from the best point must gain to be followed by one more
ENDED = {
    "steps": "It took all the steps it may take; allow more with max_steps.",
    "time": "Its time limit was over.",
    "stalled": (
        "No step along the signal lowers the loss any more, as at a kink, with a signal that is far from exact, or at "
        "the precision of refits: more steps would not help, but restarts or another signal may."
    ),
    "closed": "Its certificate closed on a signal that is not exact, so it proves little; signal='implicit' is exact.",
}


def solve(
    problem: Problem,
    settings: ProjectedGradient | FrankWolfe | OneShot,
    signal: Any,
    query: bool,
    on_step: OnStep | None = None,
) -> Proposal:
    """Move the members, and the query too if `query`, to the least goal loss found."""
    people = problem.people
    training = problem.model.training(people)  # type: ignore[union-attr]
    maker, chosen = as_signal(signal, training)
    own = problem.query_budget if query else 0.0
    limits = Limits(
        problem.allowance.norm,
        np.append(problem.allowance.everyones(people.size), own),
        np.append(training.weights, 1.0),
    )
    loop = replace(_loop_settings(settings), from_scratch=not problem.model.convex)  # type: ignore[union-attr]
    search = _Search((training, maker, problem.query_features, problem.goal_target, limits), loop, on_step)
    stay = np.zeros((people.size + 1, people.dimensions))
    unmoved = refit(training, None, problem.query_features, problem.goal_target, None, BEGIN)
    if unmoved.fit.residual > CONVERGED:
        return _given_up(problem, training, unmoved.fit, _name(settings))
    search.run(Start(stay, FAR), unmoved)
    for start in _other_starts(problem, settings, search, unmoved.fit):
        with suppress(NumericsError):  # where it cannot be refitted, other starts stand
            search.run(start)
    best = search.carried_on()
    final = _judged_tightly(search, best)
    finished = isinstance(settings, OneShot) or (best.ended == "closed" and _trustworthy(maker, training))
    # θ and v as they apply to features in the caller's units
    given = getattr(training, "in_given_units", lambda vector: vector)
    signal = None if best.step.signal is None else given(best.step.signal)
    return Proposal(
        plan=MemberPlan(problem, best.moves[-1] + 0.0, best.moves[:-1] + 0.0, given(best.step.fit.parameters), signal),
        solver=_name(settings),
        claimed_loss=final.loss,
        gap=best.gap,
        bound=problem.model.least_loss,  # type: ignore[union-attr]
        exact=False,
        impossible=False,
        finished=finished,
        ended="" if finished else ENDED[best.ended],
        steps=search.steps,
        passes=training.passes,
        note=f"{chosen} {best.step.note}",
        residual=final.fit.residual,
    )


def _judged_tightly(search: _Search, best: Reached) -> Outcome:
    """Return what a tight refit says of the best moves: the loop's own are only as tight as its steps needed."""
    training, _, query, target, _ = search.asked
    if reach_of(best.step) * best.step.fit.residual <= CLEAR * abs(best.step.loss):
        return best.step.outcome
    memory = None if search.loop.from_scratch else best.step.memory
    with suppress(NumericsError):
        return refit(training, best.moves[:-1], query + best.moves[-1], target, memory, TIGHT)
    return best.step.outcome


class Start(NamedTuple):
    """Moves (n + 1, d) to start from, and the longest first step from there, in budgets."""

    moves: Array
    longest: float = SLOWLY


class _Search:
    """The loop from several starts, which share one deadline.

    Attributes:
        reached: where the starts that are still of interest have led to, best first.
        steps: accepted steps of all of them.
    """

    def __init__(
        self, asked: tuple[Training, Signal, Array, Array, Limits], loop: LoopSettings, on_step: OnStep | None
    ) -> None:
        self.asked, self.loop, self.on_step, self.steps = asked, loop, on_step, 0
        self.training, _, _, _, self.limits = asked
        self.reached: list[Reached] = []

    @property
    def best(self) -> Reached:
        """The best place so far."""
        return self.reached[0]

    def run(self, start: Start, began: Outcome | None = None) -> None:
        """Give one more start its first steps."""
        moves, longest = start
        most = min(PATIENCE, self.loop.max_steps)
        self.reached.append(self.improved(moves, most, began=began, longest=longest))
        self.reached.sort(key=lambda reached: reached.step.loss)

    def improved(
        self,
        start: Array,
        most: int,
        limits: Limits | None = None,
        began: Outcome | None = None,
        longest: float = FAR,
    ) -> Reached:
        """Run the loop from one place, within everyone's limits or others."""
        asked, loop = self.asked[:-1], replace(self.loop, max_steps=most, longest=longest)
        found = improve(*asked, limits or self.limits, start, loop, self.on_step, began)
        self.steps += found.steps
        return found

    def open_ball(self, start: Array | None = None) -> Array:
        """Return moves found by quasi-Newton steps in the opened ball."""
        return open_ball_search(*self.asked, min(OPEN_STEPS, self.loop.max_steps), self.loop.deadline, start)

    def carried_on(self) -> Reached:
        """Go on from the better half, for twice as many steps each time, until they are done or steps run out."""
        taken = more = PATIENCE
        while taken < self.loop.max_steps and any(reached.ended == "steps" for reached in self.reached):
            more = min(2 * more, self.loop.max_steps - taken)
            half = self.reached[: -(-len(self.reached) // 2)]
            self.reached = [self.improved(one.moves, more) if one.ended == "steps" else one for one in half]
            self.reached.sort(key=lambda reached: reached.step.loss)
            taken += more
        return self.best


def _given_up(problem: Problem, training: Training, fit: Fit, solver: str) -> Proposal:
    """Return a proposal that nobody moves, because already the refit to unmoved data does not converge."""
    people = problem.people
    return Proposal(
        plan=MemberPlan(problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions))),
        solver=solver,
        claimed_loss=np.nan,
        gap=np.inf,
        bound=problem.model.least_loss,  # type: ignore[union-attr]
        exact=False,
        impossible=False,
        finished=False,
        steps=0,
        passes=training.passes,
        note=f"The refit did not converge: its gradient's norm is still {fit.residual:.1e}.",
        residual=fit.residual,
    )


def _trustworthy(maker: Signal, training: Training) -> bool:
    """Report whether gradients were those of the true refit's loss."""
    return maker.exact and not getattr(training, "damping", 0.0)


def _loop_settings(settings: ProjectedGradient | FrankWolfe | OneShot) -> LoopSettings:
    if isinstance(settings, OneShot):
        return LoopSettings("frank-wolfe", 1, 0.0, np.inf)
    kind = "spectral" if isinstance(settings, ProjectedGradient) else "frank-wolfe"
    deadline = time.monotonic() + settings.time_limit
    search = getattr(settings, "line_search", "armijo")
    return LoopSettings(kind, settings.max_steps, settings.tolerance, deadline, search)


def _name(settings: ProjectedGradient | FrankWolfe | OneShot) -> str:
    return {ProjectedGradient: "projected-gradient", FrankWolfe: "frank-wolfe", OneShot: "one-shot"}[type(settings)]


def _grown(search: _Search, stay: Array) -> Array:
    """Return moves that were grown slowly, which at large budgets end in better minima than a full response does."""
    limits = search.limits
    if limits.norm.p in OPENED:
        return search.open_ball()
    moves = stay
    for share in GROWTH:
        smaller = replace(limits, radii=share * limits.radii)
        moves = search.improved(moves, GROWTH_STEPS, smaller).moves
    return moves


def _other_starts(problem: Problem, settings: Any, search: _Search, unmoved: Fit) -> Iterator[Start]:
    """Yield more places to start from; which ones depends on how the search went so far."""
    people, loop, limits = problem.people, search.loop, search.limits
    stay = np.zeros((people.size + 1, people.dimensions))
    ended, smooth = search.best.ended, problem.model.smooth  # type: ignore[union-attr]
    kinked = loop.response == "spectral" and (ended == "stalled" or (ended == "steps" and not smooth))
    restarts = getattr(settings, "restarts", 0)
    large = ended == "steps" and loop.max_steps > PATIENCE
    if loop.response == "spectral" and (kinked or large or restarts):
        yield Start(_grown(search, stay))
    if restarts:
        yield Start(stay)
    # Members who all move by −m are a query that moves by m. People without weight do not matter.
    shared = float(limits.radii[:-1][limits.weights[:-1] > 0].min()) if problem.model.equivariant else 0.0  # type: ignore[union-attr]
    reach = shared + float(limits.radii[-1])
    if reach > 0:
        starts, seed = getattr(settings, "random_starts", 8), getattr(settings, "seed", 0)
        alone = ProjectedGradient(random_starts=starts, seed=seed)
        own = best_own_move(problem, search.training, reach, unmoved, alone)
        if own.loss < search.best.step.loss or restarts:
            shares = np.append(np.full(people.size, -shared), limits.radii[-1]) / reach
            yield Start(limits.project(shares[:, None] * own.move))
    drawn = _drawn(problem, restarts, getattr(settings, "seed", 0))
    if kinked and limits.norm.p in OPENED:
        yield from _past_kinks(people, search, drawn)
    elif restarts:
        yield from _at_random(problem, search, drawn)
    if restarts and people.dimensions <= MOST_AXES:
        yield from _across(search)


def _drawn(problem: Problem, count: int, seed: int) -> Iterator[Array]:
    """Draw normal numbers (n + 1, d) again and again."""
    people, generator = problem.people, np.random.default_rng(seed)
    for _ in range(count):
        yield generator.normal(size=(people.size + 1, people.dimensions))


def _own_places(people: Population) -> NDArray[np.intp]:
    """Return which row of a draw is whose (n + 1,), the query's last: it does not depend on how people are listed."""
    return np.append(np.lexsort(np.asarray(people.features).T).argsort(), people.size)


def _at_random(problem: Problem, search: _Search, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield random starts of several kinds by turns, of which none are always the better ones.

    Every class its own way; near where everybody stands; about the best moves so far; at the edge of everyone's limits.
    """
    from scipy.special import ndtr

    limits, people = search.limits, problem.people
    labels = people.value_rows() if problem.regresses else people.class_rows()
    groups = np.append(np.unique(labels, axis=0, return_inverse=True)[1].ravel(), 0)
    places = _own_places(people)
    for number, draw in enumerate(drawn):
        if time.monotonic() > search.loop.deadline:
            return
        heading = draw[places]
        inside = limits.radii[:, None] * (2 * ndtr(heading) - 1)  # uniform in a box
        kinds = (
            limits.respond(draw[groups]),
            limits.project(NEAR * inside),
            limits.project(search.best.moves + inside),
            limits.respond(heading),
        )
        yield Start(kinds[number % len(kinds)])


def _across(search: _Search) -> Iterator[Start]:
    """Yield the best moves with everyone on that corner of its ball that its own score likes best, as long as it helps.

    A gradient sees only the corner next to it. Over the way from δ to δ' a score rises by about ½(∇s + ∇s')·(δ' − δ).
    """
    training, limits = search.training, search.limits
    for _ in range(MOST_ACROSS):
        best = search.best
        moves, signal = best.moves, best.step.signal
        if signal is None or time.monotonic() > search.loop.deadline:
            return
        here = -best.step.gradient
        gains, aims = np.zeros(training.size), moves.copy()
        for heading in _axes(training.dimensions):
            corner = limits.respond(np.broadcast_to(heading, moves.shape))
            if limits.norm.p == np.inf:  # the corner on the other side along this axis
                corner = np.where(heading != 0, limits.radii[:, None] * np.sign(-heading), moves)
            try:
                there = training.score_gradients(best.step.fit.parameters, training.moved(corner[:-1]), signal)
            except NumericsError:  # a corner at which somebody's loss is no number
                continue
            gain = 0.5 * np.einsum("nd,nd->n", here + there, corner[:-1] - moves[:-1])
            better = gain > gains
            gains, aims[:-1][better] = np.where(better, gain, gains), corner[:-1][better]
        if not gains.any():
            return
        yield Start(aims)
        if search.best is best:
            return


def _axes(dimensions: int) -> Iterator[Array]:
    for place in range(dimensions):
        for sign in (1.0, -1.0):
            axis = np.zeros(dimensions)
            axis[place] = sign
            yield axis


def _past_kinks(people: Population, search: _Search, drawn: Iterator[Array]) -> Iterator[Start]:
    """Yield quasi-Newton steps from the best point; random starts, before and after such steps; the first again.

    Random starts of neither kind are always the better ones.
    """
    yield from _reopened(search)
    without = search.best
    for number, draw in enumerate(islice(drawn, 0, None, 2)):  # each of them makes two starts
        if time.monotonic() > search.loop.deadline:
            return
        heading = draw[_own_places(people)]
        yield Start(search.limits.respond(heading))
        yield Start(search.open_ball(WIDTHS[number % len(WIDTHS)] * heading))
    if search.best is not without:
        yield from _reopened(search)


def _reopened(search: _Search) -> Iterator[Start]:
    """Yield what quasi-Newton steps find from the best point, as long as that helps."""
    for _ in range(MOST_REOPENED):
        before = search.best.step.loss
        yield Start(search.open_ball(opened(search.best.moves, search.limits)))
        if search.best.step.loss > before - WORTH_IT * abs(before) or time.monotonic() > search.loop.deadline:
            return
