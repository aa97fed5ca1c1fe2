"""Black boxes that are nearest neighbours, of whom everybody has one vote."""

from __future__ import annotations

from typing import Any

from oar.estimators.black_box.box import BlackBox
from oar.problem import Problem

ROUNDED = 1e-12  # in squares of the largest coordinates: what estimators' own distances may be wrong by


def neighbours_of(problem: Problem) -> int | None:
    """Return k where the model is scikit-learn's k nearest neighbours of plain features, one person, one vote."""
    model = problem.model
    if (
        not isinstance(model, BlackBox)
        or problem.limits is not None
        or problem.several
        or model.is_random(problem.people)
    ):
        return None
    estimator: Any = model.estimator
    if not type(estimator).__module__.startswith("sklearn.neighbors"):
        return None
    from sklearn.neighbors import KNeighborsClassifier

    if type(estimator) is not KNeighborsClassifier or estimator.metric_params:
        return None
    straight = estimator.metric in ("euclidean", "l2") or (estimator.metric == "minkowski" and estimator.p == 2)
    number = int(estimator.n_neighbors)
    # Votes that are weighted by distance are equal only where there is one.
    equal = estimator.weights in ("uniform", None) or (estimator.weights == "distance" and number == 1)
    return number if straight and equal and number <= problem.people.size else None
