"""The one descent over what people contribute: retrain, differentiate, step within everyone's feasible set.

    refit           retrain on the moved data, and read off the query's loss      (a true refit, never a prediction)
    differentiate   the gradient of that loss in everyone's move
    step            projected (spectral) or towards the best response (Frank–Wolfe), and of the way there the share
                    that a line search over true refits accepts

The objective is a `RetrainingLoss`: one refit in memory (`SingleRefit`), a rule rolled out over rounds
(`rounds.gradient`), or sums over parts of people who are not in memory (`parts`). Where people may go is a feasible
set (`oar.solvers.feasible`). Moves are whatever the two agree on: an array, or a path of signals.

The metric is the feasible set's own, Σ w̄_i ‖δ_i‖² for people in memory, in which the gradient of member i is −∇_x s_i,
whatever its weight; balls are projected onto member by member, so that it leaves projections as they are. The loss
never rises from one accepted step to the next, so the point reached is the best point seen.

The certificate is the Frank–Wolfe gap Σ w̄_i max_{‖δ‖≤ε_i} ⟨∇_x s_i, δ − δ_i⟩ = Σ w̄_i (ε_i‖g_i‖_q + ⟨g_i, δ_i⟩) ≥ 0.

**Precision.** A refit that leaves a gradient of norm r leaves the loss uncertain by vᵀr. Too loose a refit makes the
line search stall, too tight a one wastes passes; so its tolerance is tied to what the step can gain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from oar.errors import NumericsError
from oar.models.fit.quasi_newton import spectral_length
from oar.models.training import Array, Training
from oar.progress import OnStep, check_interrupted, deadline, silent
from oar.signals.base import Memory, Outcome, Signal, Step, refit
from oar.solvers.feasible.sets import FeasibleMoves, FeasibleSet
from oar.tolerances import SUFFICIENT

BEGIN = 1e-7  # how tight the first refit is
FINEST = 1e-11  # the tightest refit that is asked for
LOOSEST = 1e-6  # and the loosest
ROUNDING = 1e-13  # a loss that falls by less than this share of itself does not fall
OPENING = 1.3  # by how much the longest step grows from one step to the next
FAR = 1e6  # budgets: a step so long that its projection is the full response
SLOWLY = 1.0  # budgets: the longest first step of all starts but the first
MUCH = 0.1  # of a loss, which is enough to fall by: slopes promise more than there is to gain where budgets are large
MOST_TRIALS = 30
NOTHING = 1e-12  # of what there is to gain before any move: where no more is left, a search has ended
SHARPNESS = 1e-4  # of the share of the way, in an exact search


@dataclass(frozen=True, eq=False)
class LossPoint:
    """Moves, and what retraining on the moved data says of them.

    Attributes:
        moves: what people contribute, in the form that the objective and the feasible set agree on.
        loss: the query's loss at the refit.
        kept: what the objective keeps of the refit, to go on from there.
        converged: whether the refit came to an end.
        residual: the norm of the training gradient that the refit left; 0 where refits are as exact as they get.
        gradient: the loss's gradient in everyone's move, once it was asked for.
        signal_norm: max(1, ‖v‖), by which a residual leaves the loss uncertain.
    """

    moves: Any
    loss: float
    kept: Any
    converged: bool = True
    residual: float = 0.0
    gradient: Any = None
    signal_norm: float = 1.0

    @property
    def trial_loss(self) -> float:
        """The loss; infinite where the refit did not converge, so that it is never the best."""
        return self.loss if self.converged and np.isfinite(self.loss) else np.inf


class RetrainingLoss(Protocol):
    """The query's loss as a function of what people contribute, by retraining."""

    def refit(self, moves: Any, near: LossPoint | None, precision: float) -> LossPoint:
        """Return the point of these moves; start from the refit at `near`, or from scratch."""
        ...

    def tighten(self, point: LossPoint, precision: float) -> LossPoint:
        """Return the same point, refitted more tightly; its gradient is kept."""
        ...

    def differentiate(self, point: LossPoint, near: LossPoint | None) -> LossPoint:
        """Return the same point with the gradient; start from what was found at `near`."""
        ...


@dataclass(eq=False)
class SingleRefit:
    """A model bound to its people as they stand, the signal that differentiates it, and who asks for what.

    Points that are accepted are refitted from scratch where training has many minima; refits are counted.
    """

    training: Training
    signal: Signal
    query: Array
    target: Array
    from_scratch: bool = False
    refits: int = 0

    def outcome(self, moves: Array, memory: Memory | None, precision: float) -> Outcome:
        """Return what retraining on moved data means for the query."""
        self.refits += 1
        return refit(self.training, moves[:-1], self.query + moves[-1], self.target, memory, precision)

    def at(self, moves: Array, memory: Memory | None, precision: float) -> Step:
        """Return the gradient at these moves, by one refit."""
        self.refits += 1
        return self.signal.at(self.training, moves[:-1], self.query + moves[-1], self.target, memory, precision)

    def refit(self, moves: Array, near: LossPoint | None, precision: float) -> LossPoint:
        """Return the point of these moves."""
        if near is None:
            return point_of(moves, self.outcome(moves, None, precision))
        found = point_of(moves, self.outcome(moves, Memory(near.kept.fit.parameters), precision))
        if self.from_scratch and found.trial_loss < near.loss:
            found = point_of(moves, self.outcome(moves, None, precision))
        return found

    def tighten(self, point: LossPoint, precision: float) -> LossPoint:
        """Return the same point, refitted more tightly."""
        memory = None if self.from_scratch else point.kept.memory
        outcome = self.outcome(point.moves, memory, precision)
        return replace(
            point,
            loss=outcome.loss,
            kept=replace(point.kept, outcome=outcome),
            converged=outcome.fit.converged,
            residual=outcome.fit.residual,
        )

    def differentiate(self, point: LossPoint, near: LossPoint | None) -> LossPoint:
        """Return the same point with its gradient (n + 1, d)."""
        return self.signalled(point.moves, point.kept.outcome, None if near is None else near.kept.memory)

    def from_there(self, made: Array) -> SingleRefit:
        """Return the same where moves (n + 1, d) are counted from these, as of a table."""
        training: Any = self.training
        return replace(self, training=training.from_there(made[:-1]), query=self.query + made[-1])

    def falls_at(self, step: Any, moves: Array) -> Array:
        """Return minus everyone's slopes (n + 1, d) by a step's signal, had they moved like this instead."""
        there = -step.slopes
        if step.signal is not None:
            with suppress(NumericsError):
                there[:-1] = self.training.score_gradients(
                    step.fit.parameters, self.training.moved(moves[:-1]), step.signal
                )
        return there

    def signalled(self, moves: Array, outcome: Outcome, memory: Memory | None = None) -> LossPoint:
        """Return the point that an outcome is about, with its gradient."""
        step = self.signal.differentiate(self.training, outcome, memory)
        norm = 1.0 if step.signal is None else max(1.0, float(np.linalg.norm(step.signal)))
        return replace(point_of(moves, step.outcome), kept=step, gradient=step.slopes, signal_norm=norm)


def point_of(moves: Array, outcome: Outcome) -> LossPoint:
    """Return the point that an outcome is about."""
    return LossPoint(moves, outcome.loss, outcome, outcome.fit.converged, outcome.fit.residual)


@dataclass(frozen=True)
class DescentSettings:
    """The settings of a descent: its steps, and when it stops.

    Attributes:
        response: "spectral" (projected gradient, Barzilai–Borwein) or "frank-wolfe" (damped best response).
        max_steps: accepted steps at the most.
        tolerance: stop when the gap is at most this times the loss (its size, where it is negative).
        deadline: the reading of `time.monotonic` after which no further step is begun.
        line_search: how the share of the way is found: a key of `SEARCHES`.
        tight: whether every refit is as tight as can be, because losses have kinks: across one the signal does not say
            how uncertain a loose refit leaves the loss.
        longest: the longest first step, in budgets; later ones may be longer and longer. From FAR on a first step is a
            full response, which is quick; with 1 moves grow slowly, which ends in better minima where balls have
            corners.
        least: a loss below which next to nothing is left to gain.
    """

    response: str
    max_steps: int
    tolerance: float
    deadline: float
    line_search: str = "armijo"
    tight: bool = False
    longest: float = FAR
    least: float = -np.inf

    @classmethod
    def of(cls, settings: Any) -> DescentSettings:
        """Read a solver's settings, of which nothing is left open any more; time begins to run."""
        ends = deadline(settings.time_limit)
        return cls(settings.response, settings.max_steps, settings.tolerance, ends, settings.line_search)

    def stop(self, loss: float, gap: float, steps: int) -> str:
        """Return why no further step is begun; "" to go on."""
        if gap <= self.tolerance * abs(loss) or loss <= self.least:
            return "closed"
        if steps >= self.max_steps:
            return "steps"
        return "time" if time.monotonic() > self.deadline else ""


@dataclass(frozen=True, eq=False)
class DescentEnd:
    """The end of a descent: the point, its gap, the losses on the way there, and why it ended."""

    point: LossPoint
    gap: float
    losses: list[float]
    ended: str

    @property
    def steps(self) -> int:
        """How many steps were accepted."""
        return len(self.losses) - 1

    @property
    def moves(self) -> Any:
        """The moves there."""
        return self.point.moves

    @property
    def loss(self) -> float:
        """The loss there."""
        return self.point.loss

    def counted_from(self, origin: Any) -> DescentEnd:
        """Return the same with moves counted from elsewhere, where these stand for `origin` + moves."""
        return replace(self, point=replace(self.point, moves=self.point.moves + origin))

    @property
    def step(self) -> Any:
        """What the objective keeps of the point: of one refit in memory, an `oar.signals.base.Step`."""
        return self.point.kept


def descend(
    objective: RetrainingLoss,
    feasible: FeasibleMoves[Any, Any],
    start: Any,
    settings: DescentSettings,
    on_step: OnStep = silent,
    began: LossPoint | None = None,
) -> DescentEnd:
    """Lower the query's loss from `start` until the certificate closes or the settings say stop.

    `on_step(number, loss, gap)` is called after every accepted step. `began` is the point of the start, where it is
    known, with its gradient or without.
    """
    if began is None:
        began = objective.refit(feasible.project(start), None, BEGIN)
    point = began if began.gradient is not None else objective.differentiate(began, None)
    gap, losses, careful = feasible.gap(point.moves, point.gradient), [point.loss], False
    alpha = far = settings.longest * feasible.span(point.gradient)
    while True:
        check_interrupted()
        ended = settings.stop(point.loss, gap, len(losses) - 1)
        if ended:
            break
        aim, slope = feasible.aim(point.moves, point.gradient, alpha, settings.response)
        tight = careful or settings.tight
        precision = FINEST if tight else float(np.clip(1e-2 * -slope / point.signal_norm, FINEST, LOOSEST))
        uncertain = point.signal_norm * point.residual > 0.1 * -slope
        if (tight or uncertain) and point.residual > FINEST:
            point = objective.tighten(point, precision)
            losses[-1] = point.loss
        found = SEARCHES[settings.line_search](Way(objective, feasible, point, aim, slope, precision))
        if found is None or not found.trial_loss < point.loss - ROUNDING * abs(point.loss):
            # What a short step gains may be less than what loose refits leave uncertain, and a long one may aim badly.
            if careful or not (settings.response == "spectral" or point.residual > 0):
                ended = "stalled"
                break
            careful, alpha = True, min(alpha, feasible.span(point.gradient))
            continue
        before, careful = point, False
        try:
            point = objective.differentiate(found, before)
        except NumericsError:  # so far out that nothing is curved any more: the last point with a gradient stands
            ended = "stalled"
            break
        squared, curvature, gap = feasible.compare((before.moves, before.gradient), (point.moves, point.gradient))
        if settings.longest < FAR:
            far = min(OPENING * far, FAR * feasible.span(point.gradient))
        alpha = spectral_length(squared, curvature, far)
        losses.append(point.loss)
        on_step(len(losses) - 1, point.loss, gap)
    return DescentEnd(point, gap, losses, ended)


@dataclass(frozen=True, eq=False)
class DescentProblem:
    """The problem that every start descends on: what is lowered, where everyone may go, and one deadline for all."""

    objective: Any  # a `SingleRefit`, or the same over rounds
    feasible: FeasibleSet
    settings: DescentSettings
    on_step: OnStep = silent

    @property
    def training(self) -> Training:
        """The model, bound to people as they stand."""
        training: Training = self.objective.training
        return training

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() > self.settings.deadline

    def improved(self, start: Array, most: int, began: LossPoint | None = None, longest: float = FAR) -> DescentEnd:
        """Descend from one place by at most so many steps; `began` is the point there, where it is known."""
        settings = replace(self.settings, max_steps=min(most, self.settings.max_steps), longest=longest)
        return descend(self.objective, self.feasible, start, settings, self.on_step, began)


@dataclass(frozen=True, eq=False)
class Way:
    """The way from a point to an aim, both feasible; each point on it is judged by a true refit."""

    objective: RetrainingLoss
    feasible: FeasibleMoves[Any, Any]
    point: LossPoint
    aim: Any
    slope: float
    precision: float

    def at(self, share: float) -> LossPoint:
        """Return the point at this share of the way; its loss is infinite where it cannot be refitted."""
        moves = self.feasible.between(self.point.moves, self.aim, share)
        try:
            return self.objective.refit(moves, self.point, self.precision)
        except NumericsError:  # such as: people who have moved so far that no regulariser means no minimum
            return LossPoint(moves, np.inf, None, converged=False)


def armijo(way: Way) -> LossPoint | None:
    """Shorten the way until the loss falls by SUFFICIENT of what its slope promises; None if it never does."""
    if not way.slope < 0:
        return None
    before, slope, share = way.point.loss, way.slope, 1.0
    for _ in range(MOST_TRIALS):
        trial = way.at(share)
        if trial.trial_loss <= before - min(-SUFFICIENT * share * slope, MUCH * abs(before)):
            return trial
        # The parabola through value, slope and the trial's value, kept between a tenth and a half of the way.
        rise = trial.trial_loss - before - share * slope
        guess = -slope * share**2 / (2 * rise) if 0 < rise < np.inf else 0.5 * share
        share = float(np.clip(guess, 0.1 * share, 0.5 * share))
    return None


def exact(way: Way) -> LossPoint | None:
    """Return the best point on the way (Brent's method), at about ten times the refits; None if none is better.

    Where the way falls only within the first steps of a search as fine as Armijo's, it is Armijo's point.
    """
    from scipy.optimize import minimize_scalar

    if not way.slope < 0:
        return None
    tried: list[LossPoint] = []

    def loss(share: float) -> float:
        tried.append(way.at(float(share)))
        return min(tried[-1].trial_loss, np.finfo(float).max)  # Brent's parabolas cannot use infinity

    loss(1.0)
    minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": SHARPNESS, "maxiter": MOST_TRIALS})
    best = min(tried, key=lambda trial: trial.trial_loss)
    return best if best.trial_loss < way.point.loss else armijo(way)


SEARCHES: dict[str, Callable[[Way], LossPoint | None]] = {"armijo": armijo, "exact": exact}
