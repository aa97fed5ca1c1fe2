"""Descent over rounds by gradients of the rollout: everyone's limits, several starts, and a certificate.

The fast plan publishes every round's signal once, and each batch answers it on its own. From (θ_t, v_t) of the rounds
that read a member, its slope is Σ −w̄_i ∇_x s_i(θ_t; v_t); its answer is a full move against it, and all go the first
common share of the way that lowers the loss.

When a plan acts, and why then, is told by leverage: how much a unit of move does in each round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError
from oar.models.training import Array, Fit
from oar.online import Back, OnlineProblem, Path, Rollout
from oar.online.rules.refits import moved_by
from oar.plans.rounds.plan import OnlinePlan
from oar.solvers.descent.descent import DescentEnd, DescentSettings, LossPoint, Way, armijo, descend
from oar.solvers.feasible.sets import FeasibleBalls, FeasibleSet
from oar.solvers.feasible.shared_budgets import SharedBudgets
from oar.solvers.query.move_search import best_own_move
from oar.solvers.registry import Task
from oar.solvers.rounds.everyone import WholeMoves
from oar.solvers.settings import FrankWolfe, ProjectedGradient

SLOWLY = 1.0  # budgets: the longest first step of a start that grows
MOST_ROUNDS = 6  # from which shared budgets are all spent in one, to start with
SPARED = 1e-6  # share of all effort below which a round is not acted in
MANY = 4  # rounds that are named one by one


def limits_of(problem: OnlineProblem) -> FeasibleSet | WholeMoves:
    """Return what moves can be projected onto: everyone's limits, on a table in whole steps."""
    return _balls(problem) if problem.limits is None else WholeMoves(problem)


def _balls(problem: OnlineProblem) -> FeasibleSet:
    """Return everyone's limits: a ball for each row, and where rounds share it one budget for all rows of a person."""
    norm = problem.allowance.norm
    if not problem.has_totals:
        return FeasibleBalls(norm, problem.radii, np.ones(problem.radii.size))
    return SharedBudgets(norm, problem.radii, problem.persons, problem.totals)


@dataclass(eq=False)
class RolloutObjective:
    """The loss after all rounds as what a descent lowers; it counts how often all rounds are rolled out."""

    rollout: Rollout
    rollouts: int = 0

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
    """The result of a search: the best end of all starts, the gradient (n, d) before any move, and its cost."""

    best: DescentEnd
    slopes_before: Array
    steps: int
    rollouts: int
    passes: int


def search(task: Task, settings: ProjectedGradient | FrankWolfe) -> RoundSearchResult:
    """Return the best of several descents."""
    problem, on_step = task.problem, task.on_step
    objective, limits = RolloutObjective(Rollout(problem, task.together, task.by, task.anchors)), _balls(problem)
    descent = DescentSettings.of(settings)
    stay = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    unmoved = objective.differentiate(objective.refit(stay))
    best = descend(objective, limits, stay, descent, on_step, unmoved)
    steps = best.steps
    slowly = replace(descent, longest=SLOWLY)
    known = [start[:-1] for start in task.starts]
    for start in chain(known, _starts(problem, settings, limits, objective, unmoved, best)):
        if time.monotonic() > descent.deadline or best.loss <= problem.model.least_loss:
            break
        with suppress(NumericsError):  # where it cannot be trained, other starts stand
            found = descend(objective, limits, start, slowly, on_step)
            steps += found.steps
            best = min(best, found, key=lambda end: end.loss)
    return RoundSearchResult(best, unmoved.gradient, steps, objective.rollouts, objective.rollout.passes)


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
    if settings.response == "spectral" and (settings.restarts or first.ended != "closed") and convex:
        yield stay
    yield from _everyone_alike(problem, objective, unmoved)
    if problem.has_totals and settings.restarts:
        # Everybody's choosing when to act makes many minima: full responses in one round alone, of most leverage first.
        for number in np.argsort(-leverage(problem, unmoved.gradient), kind="stable")[:MOST_ROUNDS]:
            yield limits.respond(np.where((problem.stream.when == number)[:, None], unmoved.gradient, 0.0))
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.restarts or 0):
        yield limits.respond(rng.standard_normal(stay.shape))


def _everyone_alike(problem: OnlineProblem, objective: RolloutObjective, unmoved: LossPoint) -> Iterator[Array]:
    """Yield everyone by minus the query's own best move; nothing where that promises nothing.

    Where training is translation-equivariant, all who are read move, and nothing else is remembered, everybody's
    moving by −m changes the last model as the query's moving by m would. Then a plan is no worse than the query alone.
    """
    dominated = problem.model.equivariant and problem.plain
    if not dominated or problem.has_totals or problem.remembers or problem.has_history or not problem.radii.min() > 0:
        return
    last = problem.rounds - 1
    training = objective.rollout.update(last, None, None).training
    fit = Fit(unmoved.kept.parameters[last], training.moved(None), 0.0, True)
    move = best_own_move(problem, training, float(problem.radii.min()), fit).move
    yield np.broadcast_to(-move, (problem.radii.size, move.size)).copy()


Signals = tuple[tuple[tuple[Array, Array], ...], ...]


def answer(objective: RolloutObjective, path: Path, signals: Signals) -> Array:
    """Return everyone's slope dL/dδ (n, d), as follows from what is published and each one's own row."""
    problem, walk = objective.rollout.problem, objective.rollout
    slopes = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    for number, pairs in enumerate(signals):
        if not pairs and not problem.weights[number]:
            continue
        before = path.parameters[number - 1] if number else path.first
        update = walk.update(number, before, None)
        for parameters, signal in pairs:
            slopes[walk.rows(number)] += moved_by(update, parameters, signal)
        if walk.aim.members is not None and problem.weights[number]:  # who asks also sees what its own move does
            _, _, own = walk.aim.at(update.training, path.parameters[number], None)
            np.add.at(slopes, walk.aim.members, problem.weights[number] * own)
    return slopes


def one_shot(problem: OnlineProblem) -> tuple[RoundSearchResult, Signals]:
    """Return one full response to one set of signals, and the signals."""
    objective, limits = RolloutObjective(Rollout(problem)), _balls(problem)
    stay = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    unmoved = objective.refit(stay)
    back = objective.back(unmoved)
    if any(size > 0 and not pairs for size, pairs in zip(back.adjoints, back.signals, strict=True)):
        raise OptionError(
            f"solver: 'one-shot' publishes signals, and {problem.rule.name} has none for this model; use "
            "'projected-gradient'."
        )
    unmoved = replace(unmoved, gradient=answer(objective, unmoved.kept, back.signals))
    aim = limits.respond(unmoved.gradient)
    slope = limits.slope(unmoved.gradient, stay, aim)
    there = armijo(Way(objective, limits, unmoved, aim, slope, 0.0))
    here = unmoved if there is None else objective.differentiate(there)
    arrived = DescentEnd(here, limits.gap(here.moves, here.gradient), [unmoved.loss, here.loss], "steps")
    found = RoundSearchResult(arrived, unmoved.gradient, 1, objective.rollouts, objective.rollout.passes)
    return found, back.signals


def leverage(problem: OnlineProblem, slopes: Array) -> Array:
    """Return the steepest fall of the loss per unit of move among each round's members (T,): max ‖dL/dδ_i‖_q."""
    steep = np.where(problem.radii > 0, problem.steepness(slopes), 0.0)
    found, acts = np.zeros(problem.rounds), problem.stream.when >= 0
    np.maximum.at(found, problem.stream.when[acts], steep[acts])
    return found


def why(plan: OnlinePlan, told: Array, weighed: bool = False) -> str:
    """Return a sentence on when the plan acts and why then, by what is told of each round (T,).

    That is its leverage before any move or, if `weighed`, what its data weigh in the last model.
    """
    efforts = plan.efforts()
    if not efforts.any():
        return ""
    acting = np.flatnonzero(efforts > SPARED * efforts.sum())
    when = f"The plan acts in {_rounds(acting, efforts.size)}"
    if len(efforts) == 1:
        return f"{when}."
    largest = acting[efforts[acting] >= efforts.max() * (1 - SPARED)]
    most = f", most in {_rounds(largest, 0)}" if 0 < largest.size < acting.size else ""
    high, low = acting[told[acting].argmax()], int(told.argmin())
    even = told[high] <= told[low] * (1 + SPARED)
    if weighed:
        rest = "" if even else f", round {low}'s {told[low]:.3g}"
        whose = "every round's" if even else f"round {high}'s"
        return f"{when}{most}: {whose} data weigh {told[high]:.3g} in the last model{rest}."
    rest = "" if even else f" in round {high}, and by up to {told[low]:.3g} in round {low}"
    return f"{when}{most}: before any move, a unit of move lowers the loss by up to {told[high]:.3g}{rest}."


def _rounds(numbers: NDArray[np.intp], of: int) -> str:
    if numbers.size == of > 1:
        return "every round"
    if numbers.size == 1:
        return f"round {numbers[0]}{' alone' if of else ''}"
    if numbers.size <= MANY:
        return f"rounds {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    return f"{numbers.size} of {of} rounds, from {numbers[0]} to {numbers[-1]}"
