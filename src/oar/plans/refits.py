"""What a refit makes of a part of a plan: where only some act, or not quite as planned.

Refits are by the model's own training (nearest centroid by its closed form), from the first refit on where training has
one minimum and from scratch where it has many. The query is judged as the audit judges it: a tie is no success. They
are no audit, which is by other code and checks limits, too.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from oar.black_boxes import refits as asking
from oar.black_boxes.refits import BlackBoxRefits
from oar.errors import DataError, NumericsError
from oar.estimators import BlackBox
from oar.estimators.black_box.box import Box
from oar.goals import ClassWish, Wish
from oar.models import Differentiable, NearestCentroid
from oar.models.centroid.nearest_centroid import Centroids, rival_ties
from oar.plans.explain.side_effects import Effects, measured_effects
from oar.plans.lever_plan import LeverPlan
from oar.plans.plan import Plan
from oar.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
TIGHT = 1e-10  # the gradient norm of a refit
CONVERGED = 1e-6  # a larger gradient is not that of a minimum


class PlanContribution(NamedTuple):
    """What people give the operator: moves (n, d), labels (n, k) as shares or values, and weights (n,)."""

    moves: Array
    rows: Array
    weights: Array


class RefitResult(NamedTuple):
    """What a refit says about the query; without a refit the loss is NaN."""

    loss: float
    success: bool


FAILED = RefitResult(np.nan, False)


class Refits:
    """Refits of a plan's model on what people might do.

    Attributes:
        features: (n, d) everyone before any move.
        before, planned: what everyone gives without the plan, and with all of it.
        actors: (n,) who moves, is relabelled or leaves.
    """

    def __init__(self, plan: Plan) -> None:
        """Read what the plan hands out."""
        problem, people = plan.problem, plan.problem.people
        self.problem, self.query_move = problem, plan.query_move
        self.features = np.asarray(people.features, dtype=np.float64)
        rows = people.target_rows(problem.regresses)
        weights = people.row_weights
        moves = np.asarray(plan.moves(), dtype=np.float64)
        self.before = PlanContribution(np.zeros_like(moves), rows, weights)
        self.planned = PlanContribution(moves, rows, weights)
        self.actors: Mask = np.asarray(moves.any(axis=1))
        if isinstance(plan, LeverPlan):
            self.planned = PlanContribution(moves, plan.targets, np.where(plan.away, 0.0, weights))
            self.actors = np.asarray(self.actors | (plan.targets != rows).any(axis=1) | plan.away)
        outside = isinstance(problem.model, BlackBox)
        kind: Any = _ByAsking if outside else _ByMeans if problem.model.plain_means else _ByTraining
        self._model: _Refitted = kind(problem, self.before)

    def if_only(self, acting: Mask) -> PlanContribution:
        """Return what everyone gives if of the actors only these (n,) act."""
        if acting[self.actors].all():
            return self.planned
        each, planned, before = acting[:, None], self.planned, self.before
        rows = before.rows if planned.rows is before.rows else np.where(each, planned.rows, before.rows)
        weights = before.weights
        if planned.weights is not weights:
            weights = np.where(acting, planned.weights, weights)
        return PlanContribution(planned.moves * each, rows, weights)

    def fit(self, given: PlanContribution) -> Any:
        """Return what the model learns from this, in a form of its own; None where it cannot be fitted."""
        if not (given.weights.sum() > 0):
            return None
        by_class = not self.problem.regresses and self.problem.model.labels_matter
        if by_class and not (given.weights @ given.rows > 0).all():
            return None  # nobody is left in a class
        return self._model.fit(given)

    def verdict(self, given: PlanContribution, query_moves: bool = True) -> RefitResult:
        """Refit and judge the query, which makes its own move or not."""
        learned = self.fit(given)
        if learned is None:
            return FAILED
        loss, success = self.problem.combined(*self.judged(given, learned, query_moves))
        return RefitResult(loss, success and not self._broken(given, learned))

    def judged(self, given: PlanContribution, learned: Any, query_moves: bool = True) -> tuple[Array, Mask]:
        """Return each query's loss (q,) and whether it reaches its goal (q,), once the model has learned this."""
        asked = self.problem.asked
        points = asked.points + self.query_move if query_moves else asked.points
        if asked.members is not None:
            points = points + given.moves[asked.members]
        each = [self._model.judge(learned, *one) for one in zip(self.problem.wishes, points, strict=True)]
        losses, reached = (np.array(part) for part in zip(*each, strict=True))
        return losses, reached

    def effects(self, given: PlanContribution, learned: Any) -> Effects | None:
        """Return what this does to others, where the problem limits that; None where there was no refit before it."""
        acts = given.moves.any(axis=1) | (given.rows != self.before.rows).any(axis=1)
        acts |= given.weights != self.before.weights
        if self._first is None:
            return None
        old, new = (partial(self.predict, fit) for fit in (self._first, learned))
        return measured_effects(self.problem, np.asarray(acts), given.moves, old, new)

    @cached_property
    def _first(self) -> Any:
        return self.fit(self.before)

    def _broken(self, given: PlanContribution, learned: Any) -> bool:
        """Report whether limits on what may change for others are broken."""
        if self.problem.kept is None:
            return False
        told = self.effects(given, learned)
        return told is None or bool(told.broken)

    def predict(self, learned: Any, rows: Array) -> NDArray[Any]:
        """Return class codes (m,), or values (m, o), for people with these features."""
        model, parameters = self.problem.model, self._model.parameters(learned)
        if isinstance(model, BlackBox):
            return parameters.predictions(rows)
        if not model.linear:
            return model.predict(parameters, rows)
        outputs = rows @ parameters[:, :-1].T + parameters[:, -1]  # as `predict`, without compiling anything
        if self.problem.regresses:
            return outputs
        return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)


class _Refitted(Protocol):
    """One way of refitting."""

    def fit(self, given: PlanContribution) -> Any: ...

    def judge(self, learned: Any, wish: Wish, query: Array) -> RefitResult: ...

    def parameters(self, learned: Any) -> Any: ...


class _ByMeans:
    """Nearest centroid: class means of the moved rows, by one product."""

    def __init__(self, problem: Problem, before: PlanContribution) -> None:
        assert isinstance(problem.model, NearestCentroid)
        self._problem, self._model = problem, problem.model
        self._first = problem.model.fit(problem.people)
        self._features = np.asarray(problem.people.features, dtype=np.float64)

    def fit(self, given: PlanContribution) -> Array:
        shares = given.rows * given.weights[:, None]
        return shares.T @ (self._features + given.moves) / shares.sum(axis=0)[:, None]

    def judge(self, learned: Array, wish: Wish, query: Array) -> RefitResult:
        """Ties are as wide as they were before any move, as in the audit."""
        return judged_by_means(self._first, learned, wish, query)

    def parameters(self, learned: Array) -> Any:
        return type(self._first)(learned, self._first.class_weights, self._first.sizes)


def judged_by_means(first: Centroids, means: Array, wish: Wish, query: Array) -> RefitResult:
    """Return what class means (k, d) say about a query; ties are as wide as with the first ones."""
    assert isinstance(wish, ClassWish)
    distances = np.linalg.norm(means - query, axis=1)
    ties = rival_ties(first, query, min(wish.codes, key=lambda code: distances[code]))
    if wish.probability is not None:
        return RefitResult(wish.loss(-distances), wish.reached(-distances))
    return RefitResult(wish.loss(-distances), wish.lead(ties - distances) > 0)


class _ByAsking:
    """A black box: trained itself, with another seed each time where training is random."""

    def __init__(self, problem: Problem, before: PlanContribution) -> None:
        self._asking, self._before, self._number = BlackBoxRefits(problem), before, 0
        self._random = self._asking.is_random()

    def fit(self, given: PlanContribution) -> Box:
        rows = None if given.rows is self._before.rows else given.rows
        weights = None if given.weights is self._before.weights else given.weights
        self._number += self._random
        return self._asking.refit(asking.BlackBoxContribution(given.moves, rows, weights), self._number)

    def judge(self, learned: Box, wish: Wish, query: Array) -> RefitResult:
        place = next(place for place, one in enumerate(self._asking.problem.wishes) if one is wish)
        losses, reached = self._asking.judged(learned, query[None], slice(place, place + 1))
        return RefitResult(float(losses[0]), bool(reached[0]))

    def parameters(self, learned: Box) -> Box:
        return learned


class _ByTraining:
    """Any other model: its own training, bound to the people once."""

    def __init__(self, problem: Problem, before: PlanContribution) -> None:
        assert isinstance(problem.model, Differentiable)
        self._problem, self._model, self._before = problem, problem.model, before
        self._training = problem.model.training(problem.people)
        self._begin: Array | None = None  # of the first refit, where there is one minimum to find

    def fit(self, given: PlanContribution) -> Any:
        training = self._training
        if given.rows is not self._before.rows or given.weights is not self._before.weights:
            targets = np.ascontiguousarray(self._model.target_rows(given.rows))
            training = training.contributing(targets, given.weights / given.weights.sum())
        start = training.start() if self._begin is None else self._begin
        try:
            found = training.fit(training.moved(given.moves), start, TIGHT)
        except (NumericsError, DataError):  # no minimum, as where classes are separated, or a class without variance
            return None
        unfinished = not found.converged and found.residual > CONVERGED
        if unfinished or not np.isfinite(found.parameters).all():
            return None
        if self._begin is None and self._model.convex:
            self._begin = found.parameters
        return training, found.parameters

    def judge(self, learned: Any, wish: Wish, query: Array) -> RefitResult:
        training, flat = learned
        return RefitResult(wish.judged(training, flat, query)[0], wish.reached(training.outputs(flat, query)))

    def parameters(self, learned: Any) -> Any:
        training, flat = learned
        if hasattr(training, "in_given_units"):
            return training.in_given_units(flat).reshape(training.shape)
        return training.parameters(flat)


def effects(plan: Plan) -> Effects | None:
    """Return what a plan does to others, where its problem limits that; None where the model cannot be refitted."""
    refits = Refits(plan)
    learned = refits.fit(refits.planned)
    return None if learned is None else refits.effects(refits.planned, learned)
