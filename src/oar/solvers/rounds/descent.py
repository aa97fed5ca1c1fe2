"""Lower a loss that is walked to: moves, all rounds of retraining, the goal; and back for the slopes.

The same step as in `loop`: a projected step by Barzilai and Borwein, or a best response (Frank–Wolfe), and of the way
there the first share that lowers the loss enough for its length, judged by true walks forwards. Only an accepted point
is walked back from. The loss never rises, so that the last point is the best one seen. What is kept are moves, an aim
and slopes (each as large as the moves themselves) and one path of parameters, whatever the number of rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.progress import OnStep
from oar.solvers.descent.loop import FAR, OPENING, ROUNDING
from oar.solvers.feasible.balls import FeasibleBalls
from oar.solvers.feasible.shared_budgets import SharedBudgets

Array = NDArray[np.float64]
SUFFICIENT = 1e-4
MOST_TRIALS = 30
RoundFeasibleSet = FeasibleBalls | SharedBudgets


class DescentPoint(NamedTuple):
    """Where moves lead: the loss, and the path, from which the way back begins."""

    loss: float
    path: Any


@dataclass(frozen=True)
class Landscape:
    """What is lowered.

    Attributes:
        forward: from moves (n, d) to where they lead.
        back: from moves and where they lead to dL/dδ (n, d).
    """

    forward: Callable[[Array], DescentPoint]
    back: Callable[[Array, DescentPoint], Array]


@dataclass(frozen=True)
class DescentSettings:
    """How to step and when to stop: as in `oar.solvers.descent.loop.LoopSettings`."""

    response: str
    max_steps: int
    tolerance: float
    deadline: float


@dataclass(frozen=True, eq=False)
class DescentEnd:
    """Where the descent ended: moves, loss, slopes (n, d), the gap, steps, and why it ended."""

    moves: Array
    walked: DescentPoint
    slopes: Array
    gap: float
    steps: int
    ended: str

    @property
    def loss(self) -> float:
        """The loss there."""
        return self.walked.loss


def descend(
    landscape: Landscape,
    limits: RoundFeasibleSet,
    start: Array,
    settings: DescentSettings,
    longest: float = FAR,
    on_step: OnStep | None = None,
    began: DescentPoint | None = None,
) -> DescentEnd:
    """Lower the loss from `start` until the certificate closes or the settings say stop.

    `longest` is the longest first step, in budgets; from FAR on it is a full response. `began` is where the start
    leads, where that is known.
    """
    moves = limits.project(start)
    here = landscape.forward(moves) if began is None else began
    slopes = landscape.back(moves, here)
    alpha = far = longest * limits.span(slopes)
    gap, steps, careful = limits.gap(moves, slopes), 0, False
    while True:
        ended = _ended(settings, here.loss, gap, steps)
        if ended:
            break
        if settings.response == "spectral":
            aim, slope = limits.ahead(moves, slopes, alpha)
        else:
            aim = limits.respond(slopes)
            slope = limits.slope(slopes, moves, aim)
        found = armijo(landscape, limits, moves, aim, here.loss, slope)
        if found is None or not found[1].loss < here.loss - ROUNDING * abs(here.loss):
            if careful or settings.response != "spectral":
                ended = "stalled"
                break
            careful, alpha = True, min(alpha, limits.span(slopes))  # a long step may aim badly
            continue
        before, careful = (moves, slopes), False
        moves, here = found
        slopes = landscape.back(moves, here)
        squared, bend, gap = limits.compare(before, (moves, slopes))
        far = far if longest >= FAR else min(OPENING * far, FAR * limits.span(slopes))
        # Where curvature is not positive the model says "as far as possible".
        alpha = min(squared / bend, far) if bend > 0 else far
        steps += 1
        if on_step is not None:
            on_step(steps, here.loss, gap)
    return DescentEnd(moves, here, slopes, gap, steps, ended)


def _ended(settings: DescentSettings, loss: float, gap: float, steps: int) -> str:
    """Return why no further step is begun; "" to go on."""
    if gap <= settings.tolerance * abs(loss):
        return "closed"
    if steps >= settings.max_steps:
        return "steps"
    return "time" if time.monotonic() > settings.deadline else ""


def armijo(
    landscape: Landscape, limits: RoundFeasibleSet, moves: Array, aim: Array, before: float, slope: float
) -> tuple[Array, DescentPoint] | None:
    """Shorten the way until the loss falls by SUFFICIENT of what its slope promises; None if it never does."""
    if not slope < 0:
        return None
    share = 1.0
    for _ in range(MOST_TRIALS):
        # Between two points of a convex set one can leave it by rounding only, but must not.
        there = aim if share == 1 else limits.project(moves + share * (aim - moves))
        try:
            walked = landscape.forward(there)
            loss = walked.loss if np.isfinite(walked.loss) else np.inf
        except NumericsError:  # so far out that training fails there
            walked, loss = None, np.inf
        if walked is not None and loss <= before + SUFFICIENT * share * slope:
            return there, walked
        # The parabola through value, slope and the trial's value, kept between a tenth and a half of the way.
        rise = loss - before - share * slope
        guess = -slope * share**2 / (2 * rise) if 0 < rise < np.inf else 0.5 * share
        share = float(np.clip(guess, 0.1 * share, 0.5 * share))
    return None
