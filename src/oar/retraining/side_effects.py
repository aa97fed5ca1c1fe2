"""Side effects on people who did not ask, bystanders and movers, by predictions before and after.

Planners keep a problem's limits on that (`oar.Keep`) by it; whether they are kept is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.goals.keep import SideEffects
from oar.models.training import Array
from oar.problem import Problem

Mask = NDArray[np.bool_]
Predict = Callable[[Array], NDArray[Any]]
"""From features (m, d) to class codes (m,), or values (m, o)."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Predictions before and after.

    Attributes:
        before, after: (n,) class codes, or (n, o) values, of everyone at their own features as they were.
        there: (n,) class codes after, of everyone where their own moves take them; values as `after`.
        places: (n, d) where that is.
        seen: who is a bystander, who moves, and who loses what.
        scored: of those by whom the model is scored: features (m, d), labels (m, k), and predictions before and after.
        broken: the limits that are broken, in words.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    there: NDArray[Any]
    places: Array
    seen: SideEffects
    scored: tuple[Array, Array, NDArray[Any], NDArray[Any]]
    broken: list[str]


def measured_effects(problem: Problem, acts: Mask, moves: Array | None, old: Predict, new: Predict) -> Effects:
    """Compare a model with the one before it, where some people (n,) act, by moves (n, d); the problem limits that."""
    assert problem.kept is not None
    people, others = problem.people, problem.kept.scored
    features = people.rows
    before, after = old(features), new(features)
    there, places = after, features
    if problem.kept.limits.lost is not None and moves is not None:
        places = features + moves
        there = new(places)
    if others is None:
        rows = people.target_rows(problem.regresses)
        weights = people.row_weights
        scored = (features, rows, before, after)
    else:
        weights = others.weights
        scored = (others.features, others.rows, old(others.features), new(others.features))
    higher = -1.0 if problem.regresses else 1.0  # is better
    scores = [higher * score(problem.regresses, predicted, scored[1], weights) for predicted in scored[2:]]
    persons, nobody = problem.persons, np.zeros(len(acts), dtype=bool)
    acts = np.isin(persons, persons[acts])  # over rounds a person acts if any of its rows does, and counts once
    counts = problem.last_rows & ~np.isin(persons, persons[problem.asked.among])
    changed, had, has = nobody, nobody, nobody
    if not problem.regresses:
        changed = before != after
        had, has = (np.isin(codes, problem.wanted_codes) for codes in (before, there))
    seen = SideEffects(counts & ~acts, counts & acts, changed, had, has)
    return Effects(before, after, there, places, seen, scored, problem.kept.broken(seen, *scores))


def score(regresses: bool, predicted: NDArray[Any], targets: Array, weights: Array) -> float:
    """Return the weighted accuracy of predictions, or their mean squared error; a soft label is its largest share."""
    if regresses:
        return float(np.average(((predicted - targets) ** 2).mean(axis=1), weights=weights))
    return float(np.average(predicted == targets.argmax(axis=1), weights=weights))
