"""The one loop over people: signal, response, refit.

    signal     differentiate the query's loss through training              (oar.signals)
    response   every member's step within its own ball                      (spectral or Frank–Wolfe)
    refit      retrain on the moved data; accept only if the loss falls     (a true refit, never a prediction)

Moves are measured by Σ w̄_i ‖δ_i‖², in which the gradient of member i is −∇_x s_i, whatever its weight; balls are
projected onto member by member, so this metric leaves projections as they are. The loss never rises from one accepted
step to the next, so the point reached is the best point seen.

The certificate is the Frank–Wolfe gap Σ w̄_i max_{‖δ‖≤ε_i} ⟨∇_x s_i, δ − δ_i⟩ = Σ w̄_i (ε_i‖g_i‖_q + ⟨g_i, δ_i⟩) ≥ 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm
from oar.models.training import Training
from oar.signals.base import Memory, Outcome, Signal, Step, refit

Array = NDArray[np.float64]

SUFFICIENT = 1e-4
MOST_TRIALS = 30
FAR = 1e8  # a first step so long that its projection is the full response


@dataclass(frozen=True, eq=False)
class Limits:
    """Everyone's ball: radii (n + 1,) around where they stand, zero for those who stay; weights (n + 1,).

    The first n are the members, with weights w̄; the last is the query, with weight 1.
    """

    norm: Norm
    radii: Array
    weights: Array

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limit."""
        return self.norm.project(moves, self.radii)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: the full move against it."""
        return self.norm.maximise(-gradient, self.radii)

    def inner(self, left: Array, right: Array) -> float:
        """Return Σ w̄_i ⟨a_i, b_i⟩."""
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        each = self.radii * self.norm.dual.length(gradient) + np.einsum("nd,nd->n", gradient, moves)
        return float((self.weights * np.maximum(each, 0.0)).sum())


@dataclass(frozen=True)
class LoopSettings:
    """How the loop steps and when it stops.

    Attributes:
        response: "spectral" (projected gradient, Barzilai–Borwein) or "frank-wolfe" (damped best response).
        max_steps: accepted steps at the most.
        tolerance: stop when the gap is at most this times the loss.
        time_limit: seconds after which no further step is begun.
    """

    response: str
    max_steps: int
    tolerance: float
    time_limit: float


@dataclass(frozen=True, eq=False)
class Reached:
    """Where the loop ended: moves, the last step (refit and signal there), its gap, and why it ended."""

    moves: Array
    step: Step
    gap: float
    steps: int
    refits: int
    losses: list[float]
    ended: str


def improve(
    training: Training,
    signal: Signal,
    query: Array,
    target: Array,
    limits: Limits,
    start: Array,
    settings: LoopSettings,
    on_step: Callable[[int, float, float], None] | None = None,
) -> Reached:
    """Lower the query's loss from `start` until the certificate closes or the settings say stop.

    `start` is (n + 1, d): the members' moves, then the query's own. `on_step(number, loss, gap)` is called after
    every accepted step.
    """
    began = time.monotonic()
    moves = limits.project(start)
    precision = 1e-7
    step = signal.at(training, moves[:-1], query + moves[-1], target, None, precision)
    slopes = _slopes(step)
    gap, alpha, losses, refits = limits.gap(moves, slopes), FAR, [step.loss], 1
    ended = "steps"
    while True:
        if gap <= settings.tolerance * step.loss:
            ended = "closed"
            break
        if len(losses) > settings.max_steps:
            break
        if time.monotonic() - began > settings.time_limit:
            ended = "time"
            break
        # Too loose a refit makes the line search stall, too tight a one wastes passes: tie it to what is left to gain.
        precision = float(np.clip(1e-3 * gap, 1e-11, 1e-7))
        if settings.response == "spectral":
            towards = limits.project(moves - alpha * slopes) - moves
        else:
            towards = limits.respond(slopes) - moves
        trials = _Trials(training, query, target, step, limits, precision)
        outcome, length, tries = trials.search(moves, towards, limits.inner(slopes, towards))
        refits += tries
        if outcome is None:
            ended = "stalled"
            break
        change = length * towards
        moves = limits.project(moves + change)
        last = slopes
        step = signal.differentiate(training, outcome, step.memory)
        slopes = _slopes(step)
        bend = limits.inner(change, slopes - last)
        squared = limits.inner(change, change)
        # Where curvature is not positive the model says "as far as possible".
        alpha = min(squared / bend, FAR) if bend > 0 else FAR
        gap = limits.gap(moves, slopes)
        losses.append(step.loss)
        if on_step is not None:
            on_step(len(losses) - 1, step.loss, gap)
    return Reached(moves, step, gap, len(losses) - 1, refits, losses, ended)


def _slopes(step: Step) -> Array:
    """Return the gradient in everyone's move: the members' rows, then the query's."""
    return np.concatenate([step.gradient, step.outcome.query_slope[None]])


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trial points of a line search, each judged by a true refit that starts from the last accepted one."""

    training: Training
    query: Array
    target: Array
    step: Step
    limits: Limits
    precision: float

    def search(self, moves: Array, towards: Array, slope: float) -> tuple[Outcome | None, float, int]:
        """Shorten the way until the loss falls enough; return the outcome, the length, and how many refits it took."""
        if not slope < 0:
            return None, 0.0, 0
        length, memory = 1.0, Memory(self.step.fit.parameters)
        for tries in range(1, MOST_TRIALS + 1):
            trial = self.limits.project(moves + length * towards)
            outcome = refit(self.training, trial[:-1], self.query + trial[-1], self.target, memory, self.precision)
            if outcome.fit.converged and outcome.loss <= self.step.loss + SUFFICIENT * length * slope:
                return outcome, length, tries
            # The parabola through value, slope and the trial's value, kept between a tenth and a half of the way.
            rise = outcome.loss - self.step.loss - length * slope
            guess = -slope * length**2 / (2 * rise) if rise > 0 else 0.5 * length
            length = float(np.clip(guess, 0.1 * length, 0.5 * length)) if np.isfinite(guess) else 0.5 * length
        return None, 0.0, MOST_TRIALS
