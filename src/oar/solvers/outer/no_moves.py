"""Where nobody can move, or no move is felt, what is so before any move decides what is possible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem

Array = NDArray[np.float64]


def goal_missed(problem: Problem, outputs: Callable[[Array], Array]) -> bool:
    """Report whether too few of those who ask have their goal where they stand, by a model's `outputs` (d,) → (o,).

    Only who is on the other side of the line counts as without: between a tie and a goal audits decide.
    """
    missed = []
    for wish, point in zip(problem.wishes, problem.asked.points, strict=True):
        seen = outputs(point)
        missed.append(wish.lead(seen) <= 0 and not wish.reached(seen))
    return bool(1 - np.mean(missed) < problem.enough - np.finfo(float).eps)
