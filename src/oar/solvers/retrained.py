"""Collective and joint recourse for models that are refitted in the loop.

The loop starts from where everybody stands, with a full response to the first signal. If it is not done after some
steps, the budget is large (the loss is far from linear in the moves): for p = 2 it then starts again from a
quasi-Newton search (`ball`), which finds better minima, and otherwise goes on from where it is.

Where everyone may move equally far and training is translation-equivariant, "all members move by minus the
individual's best move" gives the query exactly what its own move would; if the loop ends above that, it is run from
there too, so that the collective is never worse.

The loss is not convex in the moves, so nothing is proved to be optimal and nothing to be impossible. A gap that closes
on an approximate gradient certifies nothing, and is not called finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Training
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.signals import Signal, as_signal
from oar.solvers.ball import open_ball_search
from oar.solvers.loop import Limits, LoopSettings, Reached, improve
from oar.solvers.own_move import best_own_move
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient

Array = NDArray[np.float64]
PATIENCE = 60  # steps after which a budget counts as large
OPEN_STEPS = 100


def solve(problem: Problem, settings: ProjectedGradient | FrankWolfe | OneShot, signal: Any, query: bool) -> Proposal:
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
    loop = _loop_settings(settings)
    asked = (training, maker, problem.query_features, problem.goal_target, limits)
    stay = np.zeros((people.size + 1, people.dimensions))

    best = improve(*asked, stay, replace(loop, max_steps=min(PATIENCE, loop.max_steps)))
    steps = best.steps
    if best.ended == "steps" and steps < loop.max_steps:
        start = best.moves
        if loop.response == "spectral" and limits.norm.p == 2:
            start = open_ball_search(*asked, min(OPEN_STEPS, loop.max_steps), loop.time_limit)
        found = improve(*asked, start, replace(loop, max_steps=loop.max_steps - steps))
        steps += found.steps
        if found.step.loss < best.step.loss:
            best = found
    for start in _other_starts(problem, training, settings, limits, best):
        found = improve(*asked, start, loop)
        steps += found.steps
        if found.step.loss < best.step.loss:
            best = found
    return Proposal(
        plan=MemberPlan(
            problem, best.moves[-1] + 0.0, best.moves[:-1] + 0.0, best.step.fit.parameters, best.step.signal
        ),
        solver=_name(settings),
        claimed_loss=best.step.loss,
        gap=best.gap,
        bound=0.0,
        exact=False,
        impossible=False,
        finished=isinstance(settings, OneShot) or (best.ended == "closed" and _trustworthy(maker, training)),
        steps=steps,
        passes=training.passes,
        note=f"{chosen} {best.step.note}",
        residual=best.step.fit.residual,
    )


def _trustworthy(maker: Signal, training: Training) -> bool:
    """Report whether gradients were those of the true refit's loss."""
    return maker.exact and not getattr(training, "damping", 0.0)


def _loop_settings(settings: ProjectedGradient | FrankWolfe | OneShot) -> LoopSettings:
    if isinstance(settings, OneShot):
        return LoopSettings("frank-wolfe", 1, 0.0, np.inf)
    kind = "spectral" if isinstance(settings, ProjectedGradient) else "frank-wolfe"
    return LoopSettings(kind, settings.max_steps, settings.tolerance, settings.time_limit)


def _name(settings: ProjectedGradient | FrankWolfe | OneShot) -> str:
    return {ProjectedGradient: "projected-gradient", FrankWolfe: "frank-wolfe", OneShot: "one-shot"}[type(settings)]


def _other_starts(
    problem: Problem, training: Training, settings: Any, limits: Limits, best: Reached
) -> Iterator[Array]:
    """Yield the individual's answer where it beats the first run, then random starts."""
    people = problem.people
    if problem.allowance.same_for_everyone and problem.model.equivariant:  # type: ignore[union-attr]
        own = best_own_move(problem, training, float(problem.allowance.budget))
        if own.loss < best.step.loss:
            start = np.zeros((people.size + 1, people.dimensions))
            start[:-1] = -own.move
            yield start
    generator = np.random.default_rng(getattr(settings, "seed", 0))
    for _ in range(getattr(settings, "restarts", 0)):
        yield limits.respond(generator.normal(size=(people.size + 1, people.dimensions)))
