"""Rollouts: the operator's rule is run over all rounds, and the goal counts after the last or after each.

A refit is the whole rollout. What it says of those who ask is put together from the rounds that the goal is for, as the
audit does it; what it predicts for others is what the last round's model predicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.models import Centroids
from oar.online import OnlineProblem, Path, Rollout
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import Array, Mask, Refit, Retraining, judged_by_training, predictions


@dataclass(frozen=True, eq=False)
class RolloutRefit(Refit):
    """All rounds' models, as they are after a contribution."""

    retraining: RolloutTraining
    contribution: Contribution
    path: Path

    def by_round(self, points: Array) -> list[tuple[Array, Mask]]:
        """Return for each round the loss of each who asks (q,), and whether it reaches its goal (q,)."""
        bound, first, problem = self.retraining.rollout.bound, self.retraining.first_means, self.retraining.problem
        return [
            judged_by_training(bound(number), flat, problem, points, first)
            for number, flat in enumerate(self.path.parameters)
        ]

    def judged(self, points: Array) -> tuple[Array, Mask]:
        """Return losses, their means over the rounds that count, and who reaches its goal after each of them."""
        weights = self.retraining.problem.weights
        losses, reached = (np.array(part) for part in zip(*self.by_round(points), strict=True))
        return weights @ losses, np.asarray(reached[weights > 0].all(axis=0))

    def predict(self, rows: Array) -> NDArray[Any]:
        """Return class codes or values, as the last round's model predicts them."""
        return self.predictors[-1](rows)

    @property
    def predictors(self) -> list[Callable[[Array], NDArray[Any]]]:
        """Each round's model."""
        model, deployed = self.retraining.problem.model, self.retraining.rollout.deployed
        return [partial(predictions, model, deployed(flat)) for flat in self.path.parameters]


class RolloutTraining(Retraining):
    """Retraining by an update rule, round by round."""

    problem: OnlineProblem

    def __init__(self, problem: OnlineProblem) -> None:
        super().__init__(problem)
        self.rollout = Rollout(problem)

    @cached_property
    def first_means(self) -> Centroids | None:
        """Class means that say how wide ties are; None of models that are no class means."""
        if not self.problem.model.plain_means:
            return None
        shape, largest = (len(self.problem.people.classes), self.problem.people.dimensions), np.abs(self.features).max()
        return Centroids(np.zeros(shape), np.ones(shape[0]), np.full(shape[0], largest))

    def refit(self, contribution: Contribution, near: Any = None) -> RolloutRefit | None:
        """Roll out all rounds; None where one of them has no fit. Rounds know other moves, not other labels."""
        given = contribution.beyond(self.before)
        if not given.only_moves:
            self.problem.only_one_refit("retraining on other labels or weights")
        self.refits += 1
        try:
            return RolloutRefit(self, contribution, self.rollout.forward(given.moves))
        except (NumericsError, DataError):  # no minimum, as where classes are separated
            return None

    def combined(self, refit: Any, query_move: Array | float = 0.0) -> tuple[float, bool]:
        """Return the mean of what is lowered over the rounds that count, and whether enough get there in each."""
        rounds = refit.by_round(self.points(refit.contribution, query_move))
        combined = [self.problem.combined(*one) for one in rounds]
        losses, reached = (np.array(part) for part in zip(*combined, strict=True))
        weights = self.problem.weights
        return float(weights @ losses), bool(reached[weights > 0].all())
