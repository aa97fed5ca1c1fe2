"""What is done to people whose own data stay as they are, by predictions before and after.

Planners keep a problem's limits on that (`oar.Keep`) by it; whether they are kept is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Predict = Callable[[Array], NDArray[Any]]
"""From features (m, d) to class codes (m,), or values (m, o)."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Predictions before and after.

    Attributes:
        before, after: (n,) class codes, or (n, o) values, of everyone at their own features as they were.
        stays: (n,) who is a bystander.
        scored: of those by whom the model is scored: features (m, d), labels (m, k), and predictions before and after.
        broken: the limits that are broken, in words.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    stays: Mask
    scored: tuple[Array, Array, NDArray[Any], NDArray[Any]]
    broken: list[str]


def measured_effects(problem: Problem, acts: Mask, old: Predict, new: Predict) -> Effects:
    """Compare a model with the one before it, where some people (n,) act; the problem has limits on that."""
    assert problem.kept is not None
    people, others = problem.people, problem.kept.scored
    features = np.asarray(people.features, dtype=np.float64)
    before, after = old(features), new(features)
    stays = ~acts
    if problem.asked.among is not None:
        stays[problem.asked.among] = False
    if others is None:
        rows = people.value_rows() if problem.regresses else people.class_rows()
        weights = np.ones(people.size) if people.weights is None else people.weights
        scored = (features, rows, before, after)
    else:
        weights = others.weights
        scored = (others.features, others.rows, old(others.features), new(others.features))
    scores = [_score(problem.regresses, predicted, scored[1], weights) for predicted in scored[2:]]
    changed = before != after if before.ndim == 1 else np.zeros(len(before), dtype=bool)
    return Effects(before, after, stays, scored, problem.kept.broken(changed, stays, *scores))


def _score(regresses: bool, predicted: NDArray[Any], rows: Array, weights: Array) -> float:
    """Return how good predictions are, higher being better: accuracy, or minus the mean squared error."""
    if regresses:
        return -float(np.average(((predicted - rows) ** 2).mean(axis=1), weights=weights))
    return float(np.average(predicted == rows.argmax(axis=1), weights=weights))
