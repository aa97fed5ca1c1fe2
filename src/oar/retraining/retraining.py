"""Retraining: what a refit makes of what people hand in, and what that means for those who ask and for others.

    refit = retraining.refit(contribution)        None where there is nothing to train on, or no minimum
    losses, reached = retraining.judged(refit)    of each who asks, at the features with which it asks then
    effects = retraining.effects(refit)           what it does to everybody else

There are four of them: a model's own training, bound to the people once (`OwnTraining`), the same of people who are
read in parts (`parts`), an update rule that is run
over several rounds (`rollout`), of which a single refit is one, and a model that can only be trained and asked
(`black_box`). A query is judged as the audit judges it, so that a tie is no success; but they are no audit, which is by
other code and checks limits, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.goals import Wish
from oar.models.centroid.nearest_centroid import Centroids, rival_ties
from oar.models.training import Array, Fit, Training
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.side_effects import Effects, measured_effects
from oar.tolerances import CONVERGED, SOLVED, TIGHT

Mask = NDArray[np.bool_]


class RefitResult(NamedTuple):
    """The result of a refit for all queries together; without a refit the loss is NaN."""

    loss: float
    success: bool


FAILED = RefitResult(np.nan, False)
NUDGE = 1e-4  # by how much targets are shifted to find the score's slope in them


class Refit(ABC):
    """A refit: the parameters that were learned from a contribution."""

    contribution: Contribution

    @abstractmethod
    def judged(self, points: Array) -> tuple[Array, Mask]:
        """Return the loss of each who asks (q,), standing at points (q, d), and whether it reaches its goal (q,)."""

    @abstractmethod
    def predict(self, rows: Array) -> NDArray[Any]:
        """Return class codes (m,), or values (m, o), for people with these features (m, d)."""

    @property
    def predictors(self) -> list[Callable[[Array], NDArray[Any]]]:
        """What predicts after each round, as `predict` does after the last; of a single refit there is one."""
        return [self.predict]


class Retraining(ABC):
    """A problem's model, retrained on what people might hand in."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.refits = problem, 0

    @cached_property
    def features(self) -> Array:
        """Everyone's features (n, d) before any move."""
        return self.problem.people.rows

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

    def is_random(self) -> bool:
        """Report whether two refits on the same contribution may differ."""
        return False

    def points(self, contribution: Contribution, query_move: Array | float = 0.0) -> Array:
        """Return where those who ask stand (q, d) after a contribution, which moves members who ask, too."""
        asked, moves = self.problem.asked, contribution.moves
        points = asked.points + query_move
        return points if asked.members is None or moves is None else points + moves[asked.members]

    def judged(self, refit: Refit, query_move: Array | float = 0.0) -> tuple[Array, Mask]:
        """Return the loss of each who asks (q,), and whether it reaches its goal (q,)."""
        return refit.judged(self.points(refit.contribution, query_move))

    def verdict(self, contribution: Contribution, query_move: Array | float = 0.0) -> RefitResult:
        """Retrain; return what is lowered, and whether enough reach their goals and no limit on others is broken."""
        refit = self.refit(contribution)
        return FAILED if refit is None else self.said(refit, query_move)

    def said(self, refit: Refit, query_move: Array | float = 0.0) -> RefitResult:
        """Return the verdict of a refit."""
        loss, success = self.combined(refit, query_move)
        if success and self.problem.kept is not None:  # limits on what may change for others
            told = self.effects(refit)
            success = told is not None and not told.broken
        return RefitResult(loss, success)

    def combined(self, refit: Refit, query_move: Array | float = 0.0) -> tuple[float, bool]:
        """Return what is lowered, and whether enough of those who ask reach their goals."""
        return self.problem.combined(*self.judged(refit, query_move))

    def effects(self, refit: Refit) -> Effects | None:
        """Return what this does to others, where the problem limits that; None where there was no refit before it."""
        if self._first is None:
            return None
        given = refit.contribution
        return measured_effects(self.problem, given.acts(self.before), given.moves, self._first.predict, refit.predict)

    @cached_property
    def _first(self) -> Refit | None:
        return self.refit(Contribution())


@dataclass(frozen=True, eq=False)
class TrainedRefit(Refit):
    """A refit by a model's own training, and that training, with the targets and weights that were handed in."""

    retraining: OwnTraining
    contribution: Contribution
    training: Training
    fit: Fit

    @cached_property
    def goal(self) -> tuple[float, Array]:
        """What is lowered, at the first of those who ask, and its gradient in θ (p,)."""
        problem = self.retraining.problem
        return self.training.goal(self.fit.parameters, problem.first_query, problem.goal_target)[:2]

    @property
    def loss(self) -> float:
        """What is lowered, at the first of those who ask."""
        return self.goal[0]

    def judged(self, points: Array) -> tuple[Array, Mask]:
        """Return losses and who reaches its goal."""
        flat, training, first = self.fit.parameters, _unaimed(self.training), self.retraining.first_means
        return judged_by_training(training, flat, self.retraining.problem, points, first)

    @cached_property
    def parameters(self) -> Any:
        """θ in the model's own form, for features in their own units."""
        return _unaimed(self.training).parameters(self.fit.parameters)

    def predict(self, rows: Array) -> NDArray[Any]:
        """Return class codes or values."""
        return predictions(self.retraining.problem.model, self.parameters, rows)


class OwnTraining(Retraining):
    """Retraining by a model's own training, to a gradient norm of `precision`.

    Where training has one minimum, a refit starts from another one near it, or else from the first; where it has many,
    from scratch. Differentiated at a refit, with v = H⁻¹g and a member's score s = vᵀ∇_θ ℓ(θ; x, y), it also says what
    other labels are worth. A class must have more than the share `empty` of everyone's weight to be trained on, and
    `passes` counts how often refits, signals and scores read all the data.
    """

    kind: ClassVar[type[TrainedRefit]] = TrainedRefit

    def __init__(self, problem: Problem, precision: float = TIGHT, empty: float = 0.0) -> None:
        super().__init__(problem)
        self.training: Training = problem.training()
        self.passes, self._precision, self._empty = 0, precision, empty
        self._begin: Array | None = None  # of the first refit, where there is one minimum to find
        self._moved: tuple[Array | None, Any] | None = None  # the last moves, and features after them

    @cached_property
    def first_means(self) -> Centroids | None:
        """Class means before any move: ties are as wide as with them; None of models that are no class means."""
        model: Any = self.problem.model
        return model.fit(self.problem.people) if model.plain_means else None

    def check(self) -> None:
        """Raise a NumericsError where already the people as they are have no fit."""
        self.training.fit(self.training.moved(None), self.training.start(), self._precision)

    def refit(self, contribution: Contribution, near: TrainedRefit | None = None) -> TrainedRefit | None:
        """Retrain, where there is one minimum from another refit near it, or else from the first one."""
        if not self.trainable(contribution, self._empty):
            return None
        new, warm = contribution.beyond(self.before), self.problem.model.convex
        known = near if warm else None
        training = self.training
        if not new.only_moves:  # made from another one, whose Hessian may still do
            _, targets, weights = new.over(self.before)
            near_to = training if known is None else known.training
            training = near_to.contributing(self._rows(targets), weights / weights.sum())
        begin, before = self._begin if known is None else known.fit.parameters, training.passes
        self.refits += 1
        try:
            features = self._features(new.moves)
            fit = training.fit(features, training.start() if begin is None else begin, self._precision)
        except (NumericsError, DataError):  # no minimum, as where classes are separated, or a class without variance
            return None
        finally:
            self.passes += training.passes - before
        if (not fit.converged and fit.residual > CONVERGED) or not np.isfinite(fit.parameters).all():
            return None
        if warm and self._begin is None:
            self._begin = fit.parameters
        return self.kind(self, contribution, training, fit)

    def aimed(self, contribution: Contribution, near: TrainedRefit | None = None) -> TrainedRefit | None:
        """Retrain; None also where what is lowered is not a finite number."""
        found = self.refit(contribution, near)
        try:
            return found if found is not None and np.isfinite(found.loss) else None
        except (NumericsError, DataError):
            return None

    def _rows(self, targets: Array) -> Array:
        model: Any = self.problem.model
        return np.ascontiguousarray(model.target_rows(targets))

    def _features(self, moves: Array | None) -> Any:
        """Return moved features in the training's own form; those of the last moves are kept."""
        if self._moved is None or self._moved[0] is not moves:
            self._moved = moves, self.training.moved(moves)
        return self._moved[1]

    def signal(self, refit: TrainedRefit) -> Array | None:
        """Return v = H⁻¹g; None where H forbids it."""
        before = refit.training.passes
        try:
            return refit.training.solve(refit.fit, refit.goal[1], None, SOLVED)
        except NumericsError:
            return None
        finally:
            self.passes += refit.training.passes - before

    def scores(self, refit: TrainedRefit, signal: Array, targets: Array) -> Array:
        """Return everyone's s (n,), if its target were that row of `targets` (n, k)."""
        self.passes += 1
        return refit.training.scores(refit.fit.parameters, refit.fit.features, signal, self._rows(targets))

    def label_slopes(self, refit: TrainedRefit, signal: Array, targets: Array) -> Array:
        """Return ∂s_i/∂y_ic (n, k)."""
        return slopes_in_labels(partial(self.scores, refit, signal), targets)


def slopes_in_labels(scores: Callable[[Array], Array], targets: Array) -> Array:
    """Return ∂s_i/∂y_ic (n, k) of scores (n,) of some targets (n, k), by central differences.

    These are exact for losses that are at most quadratic in the target, as all of ours are away from kinks.
    """
    slopes = np.empty(targets.shape)
    for column in range(targets.shape[1]):
        up, down = targets.copy(), targets.copy()
        up[:, column] += NUDGE
        down[:, column] -= NUDGE
        slopes[:, column] = (scores(up) - scores(down)) / (2 * NUDGE)
    return slopes


def predictions(model: Any, parameters: Any, rows: Array) -> NDArray[Any]:
    """Return class codes (m,), or values (m, o), of people (m, d), compiling nothing for linear models."""
    if not getattr(model, "linear", False):
        return model.predict(parameters, rows)
    outputs = rows @ parameters[:, :-1].T + parameters[:, -1]
    if model.regresses:
        return outputs
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)


def judged_by_training(
    training: Training, flat: Array, problem: Problem, points: Array, first: Centroids | None
) -> tuple[Array, Mask]:
    """Return what θ (p,) says about queries at points (q, d): losses, and who reaches its goal.

    Of class means it is with ties as wide as with the `first` ones.
    """

    def one(wish: Wish, point: Array) -> RefitResult:
        if first is not None:
            return judged_by_means(first, flat.reshape(first.positions.shape), wish, point)
        return RefitResult(wish.judged(training, flat, point)[0], wish.reached(training.outputs(flat, point)))

    each = [one(wish, point) for wish, point in zip(problem.wishes, points, strict=True)]
    losses, reached = zip(*each, strict=True)
    return np.array(losses), np.array(reached)


def judged_by_means(first: Centroids, means: Array, wish: Any, query: Array) -> RefitResult:
    """Return what class means (k, d) say about a query; ties are as wide as with the first ones."""
    distances = np.linalg.norm(means - query, axis=1)
    ties = rival_ties(first, query, min(wish.codes, key=lambda code: distances[code]))
    if wish.probability is not None:
        return RefitResult(wish.loss(-distances), wish.reached(-distances))
    return RefitResult(wish.loss(-distances), wish.lead(ties - distances) > 0)


def _unaimed(training: Training) -> Any:
    return getattr(training, "unaimed", training)


def retraining_of(problem: Problem) -> Retraining:
    """Return how a problem's model is retrained: in rounds, part by part, by its own training, or by asking it."""
    if problem.over_rounds:
        from oar.retraining.rollout import RolloutTraining

        return RolloutTraining(problem)  # type: ignore[arg-type]
    if problem.people.streamed:
        from oar.retraining.parts import TrainingInParts

        return TrainingInParts(problem)
    if not problem.model.only_asked:
        return OwnTraining(problem)
    from oar.retraining.black_box import BlackBoxTraining

    return BlackBoxTraining(problem)
