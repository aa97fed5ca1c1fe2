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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Fit, Training
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.signals import Signal, as_signal
from oar.signals.base import Outcome, refit
from oar.solvers.ball import open_ball_search, opened
from oar.solvers.loop import BEGIN, LoopSettings, Reached, improve
from oar.solvers.member_limits import Limits
from oar.solvers.own_move import best_own_move
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient

Array = NDArray[np.float64]
PATIENCE = 60  # steps for each start; a first start that is not done by then has a large budget
OPENED = (2, np.inf)  # norms whose balls can be opened
OPEN_STEPS = 100
CONVERGED = 1e-6  # a larger gradient after the first refit is not that of a minimum
GROWTH = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # shares of everyone's budget
GROWTH_STEPS = 20
WIDTHS = (0.3, 1.0, 3.0)  # of random starts in the opened ball: near where everybody stands, and near the edge
MOST_REOPENED = 5
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
    search.run(stay, unmoved)
    for start in _other_starts(problem, settings, search, unmoved.fit):
        with suppress(NumericsError):  # where it cannot be refitted, other starts stand
            search.run(start)
    best = search.carried_on()
    # θ and v as they apply to features in the caller's units
    given = getattr(training, "in_given_units", lambda vector: vector)
    signal = None if best.step.signal is None else given(best.step.signal)
    return Proposal(
        plan=MemberPlan(problem, best.moves[-1] + 0.0, best.moves[:-1] + 0.0, given(best.step.fit.parameters), signal),
        solver=_name(settings),
        claimed_loss=best.step.loss,
        gap=best.gap,
        bound=problem.model.least_loss,  # type: ignore[union-attr]
        exact=False,
        impossible=False,
        finished=isinstance(settings, OneShot) or (best.ended == "closed" and _trustworthy(maker, training)),
        ended=ENDED[best.ended],
        steps=search.steps,
        passes=training.passes,
        note=f"{chosen} {best.step.note}",
        residual=best.step.fit.residual,
    )


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

    def run(self, start: Array, began: Outcome | None = None) -> None:
        """Give one more start its first steps."""
        self.reached.append(self.improved(start, min(PATIENCE, self.loop.max_steps), began=began))
        self.reached.sort(key=lambda reached: reached.step.loss)

    def improved(self, start: Array, most: int, limits: Limits | None = None, began: Outcome | None = None) -> Reached:
        """Run the loop from one place, within everyone's limits or others."""
        asked, loop = self.asked[:-1], replace(self.loop, max_steps=most)
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


def _other_starts(problem: Problem, settings: Any, search: _Search, unmoved: Fit) -> Iterator[Array]:
    """Yield more places to start from; which ones depends on how the search went so far."""
    people, loop, limits = problem.people, search.loop, search.limits
    stay = np.zeros((people.size + 1, people.dimensions))
    ended, smooth = search.best.ended, problem.model.smooth  # type: ignore[union-attr]
    kinked = loop.response == "spectral" and (ended == "stalled" or (ended == "steps" and not smooth))
    if kinked or (loop.response == "spectral" and ended == "steps" and loop.max_steps > PATIENCE):
        yield _grown(search, stay)
    # Members who all move by −m are a query that moves by m. People without weight do not matter.
    shared = float(limits.radii[:-1][limits.weights[:-1] > 0].min()) if problem.model.equivariant else 0.0  # type: ignore[union-attr]
    reach = shared + float(limits.radii[-1])
    if reach > 0:
        alone = ProjectedGradient(
            random_starts=getattr(settings, "random_starts", 8), seed=getattr(settings, "seed", 0)
        )
        own = best_own_move(problem, search.training, reach, unmoved, alone)
        if own.loss < search.best.step.loss:
            shares = np.append(np.full(people.size, -shared), limits.radii[-1]) / reach
            yield limits.project(shares[:, None] * own.move)
    generator = np.random.default_rng(getattr(settings, "seed", 0))
    drawn = (generator.normal(size=stay.shape) for _ in range(getattr(settings, "restarts", 0)))
    if kinked and limits.norm.p in OPENED:
        yield from _past_kinks(search, drawn)
    else:
        yield from (limits.respond(heading) for heading in drawn if time.monotonic() < loop.deadline)


def _past_kinks(search: _Search, drawn: Iterator[Array]) -> Iterator[Array]:
    """Yield quasi-Newton steps from the best point; random starts, before and after such steps; the first again.

    Random starts of neither kind are always the better ones.
    """
    yield from _reopened(search)
    without = search.best
    for number, heading in enumerate(drawn):
        if time.monotonic() > search.loop.deadline:
            return
        yield search.limits.respond(heading)
        yield search.open_ball(WIDTHS[number % len(WIDTHS)] * heading)
    if search.best is not without:
        yield from _reopened(search)


def _reopened(search: _Search) -> Iterator[Array]:
    """Yield what quasi-Newton steps find from the best point, as long as that helps."""
    for _ in range(MOST_REOPENED):
        before = search.best.step.loss
        yield search.open_ball(opened(search.best.moves, search.limits))
        if search.best.step.loss > before - WORTH_IT * abs(before) or time.monotonic() > search.loop.deadline:
            return
