"""Retraining: what a refit makes of what people hand in, and what that means for those who ask and for others.

    refit = retraining.refit(contribution)        None where there is nothing to train on, or no minimum
    losses, reached = retraining.judged(refit)    of each who asks, at the features with which it asks then
    effects = retraining.effects(refit)           what it does to everybody else

There are two of them: a model's own training (`own_training`), and a model that can only be trained and asked
(`black_box`). A query is judged as the audit judges it, so that a tie is no success; but they are no audit, which is by
other code and checks limits, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.side_effects import Effects, measured_effects

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class RefitResult(NamedTuple):
    """What a refit says about those who ask, together; without a refit the loss is NaN."""

    loss: float
    success: bool


FAILED = RefitResult(np.nan, False)


class Refit(ABC):
    """What was learned from a contribution."""

    contribution: Contribution

    @abstractmethod
    def judged(self, points: Array) -> tuple[Array, Mask]:
        """Return the loss of each who asks (q,), standing at points (q, d), and whether it reaches its goal (q,)."""

    @abstractmethod
    def predict(self, rows: Array) -> NDArray[Any]:
        """Return class codes (m,), or values (m, o), for people with these features (m, d)."""


class Retraining(ABC):
    """A problem's model, retrained on what people might hand in.

    Attributes:
        problem: whose model is retrained.
        features: (n, d) everyone before any move.
        refits: how many refits there were.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.refits = problem, 0
        self.features = np.asarray(problem.people.features, dtype=np.float64)

    @cached_property
    def before(self) -> Contribution:
        """What people hand in as they are, every part an array."""
        return Contribution.of(self.problem.people, self.problem.regresses)

    @abstractmethod
    def refit(self, contribution: Contribution, near: Any = None) -> Refit | None:
        """Retrain, from another refit `near` it where that helps; None where it is not possible."""

    def trainable(self, contribution: Contribution, least: float = 0.0) -> bool:
        """Report whether somebody is left to train on, and of every class more than the share `least` of weights."""
        _, targets, weights = contribution.over(self.before)
        total = weights.sum()
        if self.problem.regresses or not self.problem.model.labels_matter:
            return bool(total > 0)
        return bool(total > 0 and (weights @ targets > least * total).all())

    def points(self, contribution: Contribution, query_move: Array | None = None) -> Array:
        """Return where those who ask stand (q, d) after a contribution, which moves members who ask, too."""
        asked, moves = self.problem.asked, contribution.moves
        points = asked.points if query_move is None else asked.points + query_move
        return points if asked.members is None or moves is None else points + moves[asked.members]

    def judged(self, refit: Refit, query_move: Array | None = None) -> tuple[Array, Mask]:
        """Return the loss of each who asks (q,), and whether it reaches its goal (q,)."""
        return refit.judged(self.points(refit.contribution, query_move))

    def verdict(self, contribution: Contribution, query_move: Array | None = None) -> RefitResult:
        """Retrain; return what is lowered, and whether enough reach their goals and no limit on others is broken."""
        refit = self.refit(contribution)
        return FAILED if refit is None else self.said(refit, query_move)

    def said(self, refit: Refit, query_move: Array | None = None) -> RefitResult:
        """Return the verdict of a refit."""
        loss, success = self.problem.combined(*self.judged(refit, query_move))
        return RefitResult(loss, success and not self._broken(refit))

    def effects(self, refit: Refit) -> Effects | None:
        """Return what this does to others, where the problem limits that; None where there was no refit before it."""
        if self._first is None:
            return None
        given = refit.contribution
        return measured_effects(self.problem, given.acts(self.before), given.moves, self._first.predict, refit.predict)

    @cached_property
    def _first(self) -> Refit | None:
        return self.refit(Contribution())

    def _broken(self, refit: Refit) -> bool:
        """Report whether limits on what may change for others are broken."""
        if self.problem.kept is None:
            return False
        told = self.effects(refit)
        return told is None or bool(told.broken)


def retraining_of(problem: Problem) -> Retraining:
    """Return how a problem's model is retrained: by its own training where it has one, else by training and asking."""
    if hasattr(problem.model, "training"):
        from oar.retraining.own_training import OwnTraining

        return OwnTraining(problem)
    from oar.retraining.black_box import BlackBoxTraining

    return BlackBoxTraining(problem)
