"""Whether a plan leaves others alone as it must (`oar.Keep`): everyone is predicted again, before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.goals.keep import SideEffects
from oar.plans import LeverPlan, Plan

Array = NDArray[np.float64]
Predict = Callable[[Array], NDArray[Any]]
"""From features (m, d) to class codes (m,), or values (m, o)."""


def broken_by(plan: Plan, old: Predict, new: Predict) -> list[str]:
    """Return which limits on side effects a plan breaks, in words."""
    problem, people = plan.problem, plan.problem.people
    if problem.kept is None:
        return []
    features = np.asarray(people.features, dtype=np.float64)
    before, after = old(features), new(features)
    seen = _seen(plan, before, after, new)
    scored = problem.kept.scored
    if scored is None:
        rows = people.value_rows() if problem.regresses else people.class_rows()
        weights = np.ones(people.size) if people.weights is None else people.weights
    else:
        rows, weights, before, after = scored.rows, scored.weights, old(scored.features), new(scored.features)
    return problem.kept.broken(seen, *(_score(told, rows, weights) for told in (before, after)))


def _seen(plan: Plan, before: NDArray[Any], after: NDArray[Any], new: Predict) -> SideEffects:
    """Return who stays and who acts, and who has or loses what is asked for; those who ask do not count."""
    problem, acts = plan.problem, _acts(plan)
    others = ~np.isin(np.arange(len(acts)), () if problem.asked.among is None else problem.asked.among)
    if problem.regresses:
        return SideEffects(others & ~acts, others & acts, *np.zeros((3, len(acts)), dtype=bool))
    there = after.copy()
    assert problem.kept is not None
    if problem.kept.limits.lost is not None and acts.any():
        moved = np.asarray(problem.people.features, dtype=np.float64) + np.asarray(plan.moves(), dtype=np.float64)
        there[acts] = new(moved[acts])
    wanted = {code for wish in problem.wishes for code in wish.codes}  # type: ignore[union-attr]
    had, has = (np.array([code in wanted for code in codes], dtype=bool) for codes in (before, there))
    return SideEffects(others & ~acts, others & acts, before != after, had, has)


def _acts(plan: Plan) -> NDArray[np.bool_]:
    """Return who changes anything."""
    people = plan.problem.people
    acts = np.asarray(plan.moves(), dtype=np.float64).any(axis=1)
    if isinstance(plan, LeverPlan):
        before = people.value_rows() if plan.problem.regresses else people.class_rows()
        acts = acts | (plan.targets != before).any(axis=1) | plan.away
    return np.asarray(acts)


def _score(told: NDArray[Any], rows: Array, weights: Array) -> float:
    """Return a weighted accuracy, or a mean squared error with its sign turned."""
    if told.ndim == 1:
        return float(weights @ (told == rows.argmax(axis=1)) / weights.sum())
    return -float(weights @ ((told - rows) ** 2).mean(axis=1) / weights.sum())
