"""How far to go towards an aim: each trial point is judged by a true refit, never by a prediction.

Refits start from the last accepted one. Where training has many minima that is not what an operator does who trains
afresh, and the two can end in different ones; there a point that looks good is refitted from scratch as well, and only
that loss counts.

    armijo   the first share of the way, from all of it downwards, at which the loss falls enough for its length
    exact    the share at which the loss is least (Brent's method), at about ten times the refits
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Training
from oar.signals.base import Memory, Outcome, Step, refit
from oar.solvers.feasible.regions import FeasibleSet

Array = NDArray[np.float64]
SUFFICIENT = 1e-4
MUCH = 0.1  # of a loss, which is enough to fall by
MOST_TRIALS = 30
SHARPNESS = 1e-4  # of the share of the way, in an exact search


@dataclass(frozen=True, eq=False)
class Trial:
    """Moves (n + 1, d), and what a refit says of them; None where none could be done."""

    moves: Array
    outcome: Outcome | None

    @property
    def judged(self) -> Outcome:
        """What the refit says; only where there was one."""
        assert self.outcome is not None
        return self.outcome

    @property
    def loss(self) -> float:
        """The loss at the refit; infinite where the refit did not converge, so that it is never the best."""
        if self.outcome is None or not self.outcome.fit.converged or not np.isfinite(self.outcome.loss):
            return np.inf
        return self.outcome.loss


@dataclass(eq=False)
class LineSearch:
    """Points between `moves` and `aim`, which both keep to the limits."""

    training: Training
    query: Array
    target: Array
    step: Step
    limits: FeasibleSet
    moves: Array
    aim: Array
    precision: float
    from_scratch: bool
    refits: int = 0

    def at(self, share: float) -> Trial:
        """Refit at this share of the way."""
        # Between two points of a ball one can leave it by rounding only, but must not.
        moves = self.aim if share == 1 else self.limits.project(self.moves + share * (self.aim - self.moves))
        trial = self._refitted(moves, Memory(self.step.fit.parameters))
        if self.from_scratch and trial.loss < self.step.loss:
            trial = self._refitted(moves, None)
        return trial

    def _refitted(self, moves: Array, memory: Memory | None) -> Trial:
        self.refits += 1
        try:
            outcome = refit(self.training, moves[:-1], self.query + moves[-1], self.target, memory, self.precision)
        except NumericsError:  # such as: people who have moved so far that no regulariser means no minimum
            outcome = None
        return Trial(moves, outcome)


def armijo(trials: LineSearch, slope: float) -> Trial | None:
    """Shorten the way until the loss falls by SUFFICIENT of what its slope promises; None if it never does."""
    if not slope < 0:
        return None
    before, share = trials.step.loss, 1.0
    for _ in range(MOST_TRIALS):
        trial = trials.at(share)
        # Slopes promise more than there is to gain where budgets are large.
        if trial.loss <= before - min(-SUFFICIENT * share * slope, MUCH * abs(before)):
            return trial
        # The parabola through value, slope and the trial's value, kept between a tenth and a half of the way.
        rise = trial.loss - before - share * slope
        guess = -slope * share**2 / (2 * rise) if 0 < rise < np.inf else 0.5 * share
        share = float(np.clip(guess, 0.1 * share, 0.5 * share))
    return None


def exact(trials: LineSearch, slope: float) -> Trial | None:
    """Return the best point on the way, or one that satisfies Armijo where that is better; None if none is better."""
    from scipy.optimize import minimize_scalar

    if not slope < 0:
        return None
    tried: list[Trial] = []

    def loss(share: float) -> float:
        tried.append(trials.at(float(share)))
        return min(tried[-1].loss, np.finfo(float).max)  # Brent's parabolas cannot use infinity

    loss(1.0)
    minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": SHARPNESS, "maxiter": MOST_TRIALS})
    best = min(tried, key=lambda trial: trial.loss)
    # The way may fall only within the first steps of a search as fine as Armijo's.
    return best if best.loss < trials.step.loss else armijo(trials, slope)


SEARCHES: dict[str, Callable[[LineSearch, float], Trial | None]] = {"armijo": armijo, "exact": exact}
