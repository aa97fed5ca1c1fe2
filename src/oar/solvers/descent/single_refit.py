"""One refit in memory as what a descent lowers: moves (n + 1, d), the members' rows and then the query's own.

Refits start from the last accepted one. Where training has many minima that is not what an operator does who trains
afresh, and the two can end in different ones; there a point that looks good is refitted from scratch as well, and only
that loss counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Training
from oar.signals.base import Memory, Outcome, Signal, Step, refit
from oar.solvers.descent.descent import LossPoint

Array = NDArray[np.float64]


@dataclass(eq=False)
class SingleRefit:
    """A model bound to its people, the signal that differentiates it, and who asks for what.

    Attributes:
        training: the model, bound to people as they stand.
        signal: how training is differentiated.
        query: x† (d,).
        target: the goal's target (o,).
        from_scratch: whether points that are accepted are refitted from scratch, because training has many minima.
        refits: how many there were.
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
        memory = None if near is None else near.kept.memory
        outcome = point.kept if isinstance(point.kept, Outcome) else point.kept.outcome
        return signalled(point.moves, self.signal.differentiate(self.training, outcome, memory))


def point_of(moves: Array, outcome: Outcome) -> LossPoint:
    """Return the point that an outcome is about."""
    return LossPoint(moves, outcome.loss, outcome, outcome.fit.converged, outcome.fit.residual)


def signalled(moves: Array, step: Step) -> LossPoint:
    """Return the point that a step is about, with its gradient."""
    norm = 1.0 if step.signal is None else max(1.0, float(np.linalg.norm(step.signal)))
    return replace(point_of(moves, step.outcome), kept=step, gradient=step.slopes, signal_norm=norm)
