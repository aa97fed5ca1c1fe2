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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.interrupts import check_interrupted
from oar.models.training import Training
from oar.progress import OnStep
from oar.signals.base import Outcome, Signal, Step, refit
from oar.solvers.descent.line_search import SEARCHES, LineSearch
from oar.solvers.feasible.regions import FeasibleSet

Array = NDArray[np.float64]
BEGIN = 1e-7  # how tight the first refit is
FINEST = 1e-11  # the tightest refit that is asked for
ROUNDING = 1e-13  # a loss that falls by less than this share of itself does not fall
OPENING = 1.3  # by how much the longest step grows from one step to the next
FAR = 1e6  # budgets: a step so long that its projection is the full response


@dataclass(frozen=True)
class LoopSettings:
    """How the loop steps and when it stops.

    Attributes:
        response: "spectral" (projected gradient, Barzilai–Borwein) or "frank-wolfe" (damped best response).
        max_steps: accepted steps at the most.
        tolerance: stop when the gap is at most this times the loss (its size, where it is negative).
        deadline: the reading of `time.monotonic` after which no further step is begun.
        line_search: how the share of the way is found: a key of `oar.solvers.descent.line_search.SEARCHES`.
        longest: the longest first step, in budgets; later ones may be longer and longer. From FAR on a first step is a
            full response, which is quick; with 1 moves grow slowly, which ends in better minima where balls have
            corners.
        from_scratch: whether accepted points are refitted from scratch, because training has many minima.
        tight: whether every refit is as tight as can be, because losses have kinks: across one the signal does not say
            how uncertain a loose refit leaves the loss.
    """

    response: str
    max_steps: int
    tolerance: float
    deadline: float
    line_search: str = "armijo"
    from_scratch: bool = False
    tight: bool = False
    longest: float = FAR


@dataclass(frozen=True, eq=False)
class LoopEnd:
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
    limits: FeasibleSet,
    start: Array,
    settings: LoopSettings,
    on_step: OnStep | None = None,
    began: Outcome | None = None,
) -> LoopEnd:
    """Lower the query's loss from `start` until the certificate closes or the settings say stop.

    `start` is (n + 1, d): the members' moves, then the query's own. `on_step(number, loss, gap)` is called after
    every accepted step. `began` is the outcome at the start, where it is known.
    """
    moves = limits.project(start)
    if began is None:
        began = refit(training, moves[:-1], query + moves[-1], target, None, BEGIN)
    step = signal.differentiate(training, began, None)
    slopes = step.slopes
    alpha = far = settings.longest * limits.span(slopes)
    gap, losses, refits = limits.gap(moves, slopes), [step.loss], 1
    careful = False
    while True:
        check_interrupted()
        ended = _ended(settings, step.loss, gap, len(losses) - 1)
        if ended:
            break
        if settings.response == "spectral":
            aim, slope = limits.ahead(moves, slopes, alpha)
        else:
            aim = limits.respond(slopes)
            slope = limits.slope(slopes, moves, aim)
        uncertain = reach_of(step) * step.fit.residual
        tight = careful or settings.tight
        precision = FINEST if tight else float(np.clip(1e-2 * -slope / reach_of(step), FINEST, 1e-6))
        if (tight or uncertain > 0.1 * -slope) and step.fit.residual > FINEST:
            memory = None if settings.from_scratch else step.memory
            outcome = refit(training, moves[:-1], query + moves[-1], target, memory, precision)
            step, losses[-1], refits = replace(step, outcome=outcome), outcome.loss, refits + 1
        trials = LineSearch(training, query, target, step, limits, moves, aim, precision, settings.from_scratch)
        accepted = SEARCHES[settings.line_search](trials, slope)
        refits += trials.refits
        if accepted is None or not accepted.loss < step.loss - ROUNDING * abs(step.loss):
            # What a short step gains may be less than what loose refits leave uncertain, and a long one may aim badly.
            if careful:
                ended = "stalled"
                break
            careful, alpha = True, min(alpha, limits.span(slopes))
            continue
        try:
            step = signal.differentiate(training, accepted.judged, step.memory)
        except NumericsError:  # so far out that nothing bends any more: the last point with a signal stands
            ended = "stalled"
            break
        before, careful = (moves, slopes), False
        moves, slopes = accepted.moves, step.slopes
        squared, bend, gap = limits.compare(before, (moves, slopes))
        # Where curvature is not positive the model says "as far as possible".
        far = far if settings.longest >= FAR else min(OPENING * far, FAR * limits.span(slopes))
        alpha = min(squared / bend, far) if bend > 0 else far
        losses.append(step.loss)
        if on_step is not None:
            on_step(len(losses) - 1, step.loss, gap)
    return LoopEnd(moves, step, gap, len(losses) - 1, refits, losses, ended)


def _ended(settings: LoopSettings, loss: float, gap: float, steps: int) -> str:
    """Return why no further step is begun; "" to go on."""
    if gap <= settings.tolerance * abs(loss):
        return "closed"
    if steps >= settings.max_steps:
        return "steps"
    return "time" if time.monotonic() > settings.deadline else ""


def reach_of(step: Step) -> float:
    """Return ‖v‖: a refit with residual r leaves the loss uncertain by vᵀr.

    Too loose a refit makes the line search stall, too tight a one wastes passes; so it is tied to what can be gained.
    """
    return 1.0 if step.signal is None else max(1.0, float(np.linalg.norm(step.signal)))
