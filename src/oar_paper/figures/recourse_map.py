"""The data of a two-feature picture of recourse: who moves where, alone and together, and what the model says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.models import NearestCentroid
from oar.people import Population
from oar.plans import Result
from oar.problem import Problem

Array = NDArray[np.float64]
MOST_CLASSES = 7  # as many as there are colours and markers to tell them apart


@dataclass(frozen=True, eq=False)
class AuditOutcome:
    """The audit's finding: the query's label and goal loss, and whether it reached the goal."""

    prediction: Any
    loss: float
    margin: float
    success: bool


@dataclass(frozen=True, eq=False)
class RecourseMap:
    """The contents of the picture.

    Attributes:
        features: (n, 2) where the members are; codes: (n,) their classes; classes: the labels.
        moves: (n, 2) the members' moves in the collective plan.
        centroids, centroids_after: (k, 2) before and after the refit.
        query: (2,); query_move: (2,) its own move in the individual plan; budget: ε; goal: the goal's code.
        before: label and loss without any move.
        alone, together: what the audit found for the individual and for the collective plan.
    """

    features: Array
    codes: NDArray[np.int64]
    classes: tuple
    moves: Array
    centroids: Array
    centroids_after: Array
    query: Array
    query_move: Array
    budget: float
    goal: int
    before: AuditOutcome
    alone: AuditOutcome
    together: AuditOutcome


def recourse_map(alone: Result, together: Result) -> RecourseMap:
    """Collect the picture of an individual and a collective result of the same problem with two features."""
    problem = together.problem
    people = problem.people
    _check(problem)
    if alone.problem is not problem:
        raise DataError("alone: must be a result of the same problem as together, got another; solve the same one.")
    model = NearestCentroid()
    moves = np.asarray(together.plan.moves())
    features = np.asarray(people.features, dtype=np.float64)
    centroids = model.fit(people).positions
    distances = np.linalg.norm(centroids - problem.query_features, axis=1)
    return RecourseMap(
        features=features,
        codes=np.asarray(people.codes(0, people.size), dtype=np.int64),
        classes=people.classes,
        moves=moves,
        centroids=centroids,
        centroids_after=model.fit(Population(features + moves, people.labels, people.weights)).positions,
        query=problem.query_features,
        query_move=alone.plan.query_move,
        budget=float(problem.allowance.budget),
        goal=problem.goal,
        before=AuditOutcome(
            together.audit.prediction_before,
            together.loss_before,
            float(np.delete(distances, problem.goal).min() - distances[problem.goal]),
            together.audit.prediction_before == people.classes[problem.goal],
        ),
        alone=_outcome(alone),
        together=_outcome(together),
    )


def _outcome(result: Result) -> AuditOutcome:
    return AuditOutcome(result.prediction, result.loss, result.audit.margin, result.success)


def _check(problem: Problem) -> None:
    """Refuse what the picture could not show truthfully."""
    problem.only_moves("a picture of moves")
    problem.only_one_refit("a picture of moves")
    problem.only_balls("a picture of moves")
    dimensions, classes = problem.people.dimensions, len(problem.people.classes)
    if dimensions != 2:
        raise DataError(f"together: must have 2 features to be drawn, got {dimensions}; choose two columns.")
    if classes > MOST_CLASSES:
        raise DataError(f"together: must have at most {MOST_CLASSES} classes to be drawn, got {classes}.")
    if problem.allowance.norm.p != 2 or not problem.allowance.single:
        raise DataError(
            f"together: must have norm 2 and one budget for all to be drawn, got {problem.action!r}; "
            "the picture shows one circle."
        )
