"""What a plan does to people whose own data it leaves alone, by the model's own refits.

Planners keep a problem's limits on that (`oar.Keep`) by it; whether they are kept is for the audit to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.plans.plan import Plan
from oar.plans.refits import Refits

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


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


def effects(plan: Plan) -> Effects | None:
    """Refit before and after, and compare; None where the model cannot be refitted."""
    problem = plan.problem
    assert problem.kept is not None
    refits = Refits(plan)
    old, new = refits.fit(refits.before), refits.fit(refits.planned)
    if old is None or new is None:
        return None
    before, after = refits.predict(old, refits.features), refits.predict(new, refits.features)
    stays = ~refits.actors
    if problem.asked.members is not None:
        stays[problem.asked.members] = False
    scored, weights = (refits.features, refits.before.rows, before, after), refits.before.weights
    if problem.kept.scored is not None:
        people, weights = problem.kept.scored, problem.kept.scored.weights
        told = refits.predict(old, people.features), refits.predict(new, people.features)
        scored = (people.features, people.rows, *told)
    scores = [_score(problem.regresses, predicted, scored[1], weights) for predicted in scored[2:]]
    changed = before != after if before.ndim == 1 else np.zeros(len(before), dtype=bool)
    return Effects(before, after, stays, scored, problem.kept.broken(changed, stays, *scores))


def _score(regresses: bool, predicted: NDArray[Any], rows: Array, weights: Array) -> float:
    """Return how good predictions are, higher being better: accuracy, or minus the mean squared error."""
    if regresses:
        return -float(np.average(((predicted - rows) ** 2).mean(axis=1), weights=weights))
    return float(np.average(predicted == rows.argmax(axis=1), weights=weights))
