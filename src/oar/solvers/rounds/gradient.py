"""Planning over time by gradients: the walk's slopes, everyone's limits, several starts, and a certificate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.goals.wishes import Aggregate
from oar.models import Differentiable
from oar.models.training import Fit
from oar.online import Back, OnlineProblem, Rollout
from oar.progress import OnStep
from oar.solvers.descent.descent import DescentEnd, DescentSettings, LossPoint, descend
from oar.solvers.feasible.sets import FeasibleBalls, FeasibleSet
from oar.solvers.feasible.shared_budgets import SharedBudgets
from oar.solvers.query.own_move import best_own_move
from oar.solvers.rounds.timing import leverage
from oar.solvers.settings import FrankWolfe, ProjectedGradient

Array = NDArray[np.float64]
SLOWLY = 1.0  # budgets: the longest first step of a start that grows
MOST_ROUNDS = 6  # from which shared budgets are all spent in one, to start with


def limits_of(problem: OnlineProblem) -> FeasibleSet:
    """Return everyone's limits: a ball for each row, and where rounds share it one budget for all rows of a person."""
    norm = problem.everyone.allowance.norm
    if not problem.has_totals:
        return FeasibleBalls(norm, problem.radii, np.ones(problem.radii.size))
    return SharedBudgets(norm, problem.radii, persons_of(problem), problem.totals)


def persons_of(problem: OnlineProblem) -> NDArray[np.intp]:
    """Return whose row each is, as 0, 1, …."""
    who = problem.stream.who
    return np.arange(problem.radii.size) if who is None else np.unique(who, return_inverse=True)[1].ravel()


@dataclass(eq=False)
class RolloutObjective:
    """The loss after all rounds as what a descent lowers; it counts how often all rounds are rolled out."""

    rollout: Rollout
    rollouts: int = 0

    @classmethod
    def of(cls, problem: OnlineProblem, together: Aggregate | None = None, by: int | None = None) -> RolloutObjective:
        """Return it for a problem; several queries' losses become one by `together`."""
        return cls(Rollout(problem, together, by))

    def refit(self, moves: Array, near: LossPoint | None = None, precision: float = 0.0) -> LossPoint:
        """Roll out all rounds that matter: the loss is that of the last, or the mean over all."""
        self.rollouts += 1
        path = self.rollout.forward(moves, counted=True)
        return LossPoint(moves, float(self.rollout.problem.weights @ path.losses), path)

    def tighten(self, point: LossPoint, precision: float) -> LossPoint:
        """Return the point as it is: rules retrain as tightly as they do."""
        return point

    def differentiate(self, point: LossPoint, near: LossPoint | None = None) -> LossPoint:
        """Sweep back: dL/dδ (n, d)."""
        return replace(point, gradient=self.back(point).gradient)

    def back(self, point: LossPoint) -> Back:
        """Sweep back, and keep what was broadcast."""
        self.rollouts += 1
        return self.rollout.gradient(point.kept, point.moves)


@dataclass(frozen=True, eq=False)
class RoundSearchResult:
    """What a search found: the best end of all starts, the slopes (n, d) and loss before any move, and its cost."""

    best: DescentEnd
    slopes_before: Array
    loss_before: float
    steps: int
    rollouts: int
    passes: int


def search(
    problem: OnlineProblem,
    settings: ProjectedGradient | FrankWolfe,
    on_step: OnStep | None = None,
    together: Aggregate | None = None,
    by: int | None = None,
) -> RoundSearchResult:
    """Return the best of several descents."""
    objective, limits = RolloutObjective.of(problem, together, by), limits_of(problem)
    assert settings.max_steps is not None
    assert settings.tolerance is not None
    kind = "spectral" if isinstance(settings, ProjectedGradient) else "frank-wolfe"
    deadline = time.monotonic() + settings.time_limit
    line_search = getattr(settings, "line_search", "armijo")
    descent = DescentSettings(kind, settings.max_steps, settings.tolerance, deadline, line_search)
    stay = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    unmoved = objective.differentiate(objective.refit(stay))
    best = descend(objective, limits, stay, descent, on_step, unmoved)
    steps = best.steps
    slowly = replace(descent, longest=SLOWLY)
    for start in _starts(problem, settings, limits, objective, unmoved, best):
        if time.monotonic() > deadline or best.loss <= _least(problem):
            break
        with suppress(NumericsError):  # where it cannot be trained, other starts stand
            found = descend(objective, limits, start, slowly, on_step)
            steps += found.steps
            best = min(best, found, key=lambda end: end.loss)
    return RoundSearchResult(best, unmoved.gradient, unmoved.loss, steps, objective.rollouts, objective.rollout.passes)


def _least(problem: OnlineProblem) -> float:
    """Return a loss than which none can be less."""
    return problem.model.least_loss


def _starts(
    problem: OnlineProblem,
    settings: ProjectedGradient | FrankWolfe,
    limits: FeasibleSet,
    objective: RolloutObjective,
    unmoved: LossPoint,
    first: DescentEnd,
) -> Iterator[Array]:
    """Yield more places to start from, from where moves grow slowly.

    Grown slowly from where everybody stands; everyone alike, where that gives the query what its own best move would;
    where budgets are shared, all of them spent in one round; and at random.
    """
    stay = np.zeros_like(first.moves)
    convex = problem.model.convex
    if isinstance(settings, ProjectedGradient) and (settings.restarts or first.ended != "closed") and convex:
        yield stay
    alike = _everyone_alike(problem, objective, unmoved)
    if alike is not None:
        yield alike
    if isinstance(limits, SharedBudgets) and settings.restarts:
        yield from _in_one_round(problem, limits, unmoved.gradient)
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.restarts or 0):
        yield limits.respond(rng.standard_normal(stay.shape))


def _in_one_round(problem: OnlineProblem, limits: SharedBudgets, slopes: Array) -> Iterator[Array]:
    """Yield full responses in one round alone, for the rounds of most leverage.

    Everybody's choosing when to act makes many minima, in which some act early and some late.
    """
    levers, when = leverage(problem, slopes), problem.stream.when
    for number in np.argsort(-levers, kind="stable")[:MOST_ROUNDS]:
        yield limits.respond(np.where((when == number)[:, None], slopes, 0.0))


def _everyone_alike(problem: OnlineProblem, objective: RolloutObjective, unmoved: LossPoint) -> Array | None:
    """Return everyone by minus the query's own best move; None where that promises nothing.

    Where training is translation-equivariant, all who are read move, and nothing else is remembered, everybody's
    moving by −m changes the last model as the query's moving by m would. Then a plan is no worse than the query alone.
    """
    model, everyone = problem.model, problem.everyone
    dominated = isinstance(model, Differentiable) and model.equivariant and everyone.plain
    if not dominated or problem.has_totals or problem.remembers or problem.has_history or not problem.radii.min() > 0:
        return None
    last = problem.rounds - 1
    training = objective.rollout.update(last, None, None).training
    fit = Fit(unmoved.kept.parameters[last], training.moved(None), 0.0, True)
    move = best_own_move(everyone, training, float(problem.radii.min()), fit).move
    return np.broadcast_to(-move, (problem.radii.size, move.size)).copy()
