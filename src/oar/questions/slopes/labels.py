"""The leverage of labels and of leaving: the fall of the goal loss that one member's other label, or absence, promises.

By the scores s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) at the refit before anybody acts, to first order,

    another label y'    w̄_i [s_i(y') − s_i(y_i)]
    leaving             w̄_i / (1 − w̄_i) · [Σ_j w̄_j s_j − s_i]
    a soft label        w̄_i [∂s_i/∂y_ic − ∂s_i/∂y_ib] for a share that goes to c from b, the worst class that it has
    a target            w̄_i ‖∂s_i/∂y_i‖ for each unit of its move

These are of a whole label and a whole person, not of a unit of move, so they add up to little more than themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import slopes_in_labels
from oar.solvers.discrete.ground import first_order

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LabelSlopes:
    """The falls of the goal loss by labels and absence.

    Attributes:
        labels: (n, k) by each class as a label, 0 where it is the member's own or not allowed; of regressed targets
            (n, m), the slope in each value, of which the best move makes use. None where labels do not change.
        leaving: (n,) by absence, 0 for who may not leave. None where nobody may.
        best: (n,) the largest fall that one member's label or absence promises, and 0 where none does.
        may: (n,) whose label may change, or who may leave.
        margins: (groups, k + 1) half-widths of intervals, where falls are found by trainings.
    """

    labels: Array | None
    leaving: Array | None
    best: Array
    may: Mask
    margins: Array | None = None


def label_slopes(
    problem: Problem, start: Contribution, scores: Callable[[Array], Array], everyone: bool
) -> LabelSlopes:
    """Return what labels and absence promise, from the scores (n,) of everyone with some labels (n, k)."""
    targets, weights = start.parts[1], start.parts[2]
    soft = problem.levers.relabel.soft is not None
    falls = -first_order(start, scores, problem.regresses or soft)
    if soft:
        along = (weights / weights.sum())[:, None] * slopes_in_labels(scores, targets)
        falls[:, :-1] = along if problem.regresses else _shifts(along, targets)
    return of_falls(problem, weights, falls, everyone)


def of_falls(problem: Problem, weights: Array, falls: Array, everyone: bool) -> LabelSlopes:
    """Return what is allowed of falls (n, k + 1) of the loss by each label and, last, by leaving."""
    relabel, withhold = problem.levers.relabel, problem.levers.withhold
    some = weights > 0
    may_change, may_leave = (some & one.given & (one.mask | everyone) for one in (relabel, withhold))
    labels = np.where(may_change[:, None] & (problem.regresses | relabel.allowed), falls[:, :-1], 0.0)
    leaving = np.where(may_leave, falls[:, -1], 0.0)
    by_label = np.linalg.norm(labels, axis=1) if problem.regresses else labels.max(axis=1)
    best = np.maximum(0.0, np.maximum(by_label, leaving))
    told = labels if relabel.given else None, leaving if withhold.given else None
    return LabelSlopes(*told, best, may_change | may_leave)


def _shifts(along: Array, targets: Array) -> Array:
    """Return the gains (n, k) of a share that goes to each class, from the other class that it is best taken from."""
    found = np.empty(along.shape)
    for code in range(along.shape[1]):
        others = np.where(targets > 0, along, np.inf)
        others[:, code] = np.inf
        least = others.min(axis=1)
        found[:, code] = np.where(np.isfinite(least), along[:, code] - least, 0.0)
    return found
