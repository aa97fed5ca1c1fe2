"""Goal loss against the budget for one pair of classes, alone, together and both; every value is audited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.plans import Result
from oar.problem import Problem
from oar.questions import minimal_budget
from oar.recourse import collective, individual, joint
from oar_paper.case import Case
from oar_paper.figures.voronoi_cells import distance_to_cell

Array = NDArray[np.float64]
WAYS: dict[str, Callable[..., Result]] = {"individual": individual, "collective": collective, "joint": joint}
BISECTIONS = 10


@dataclass(frozen=True, eq=False)
class Curve:
    """One way of recourse along an axis (budgets or shares).

    Attributes:
        losses: audited goal losses; claimed: what the solver said.
        success: whether the audit saw the goal reached.
        flip: where on the axis success begins, by bisection of audited runs between grid points (the upper end of the
            last interval); None if it does not begin on the grid.
        flip_loss: the audited loss there.
    """

    losses: Array
    claimed: Array
    success: NDArray[np.bool_]
    flip: float | None
    flip_loss: float | None


@dataclass(frozen=True, eq=False)
class BudgetCurves:
    """The paper's Figure 2 for one data set.

    Attributes:
        loss_before: the goal loss without any move.
        curves: by way of recourse.
        heuristic: losses of the paper's own one-step heuristic, audited, for the individual and the collective.
        collective_minimum, individual_minimum: the exact infima of the budgets that flip the prediction.
    """

    pair: str
    budgets: Array
    loss_before: float
    curves: dict[str, Curve]
    heuristic: dict[str, Array]
    collective_minimum: float
    individual_minimum: float


def budget_curves(case: Case, budgets: Sequence[float]) -> BudgetCurves:
    """Solve and audit the paper's pair at every budget."""
    grid = np.asarray(budgets)
    problem = case.problem(float(grid[-1]))
    return BudgetCurves(
        pair=case.describe(case.pair),
        budgets=grid,
        loss_before=individual(case.problem(0.0)).loss_before,
        curves={name: curve(way, case.problem, grid) for name, way in WAYS.items()},
        heuristic={
            name: np.array([WAYS[name](case.problem(budget), solver="paper").loss for budget in budgets])
            for name in ("individual", "collective")
        },
        collective_minimum=float(minimal_budget(problem)),
        individual_minimum=distance_to_cell(case.centroids.positions, case.query(case.pair), case.pair.goal),
    )


def curve(way: Callable[..., Result], problem_at: Callable[[float], Problem], grid: Array) -> Curve:
    """Solve and audit along a grid, and find where success begins."""
    results = [way(problem_at(float(place))) for place in grid]
    success = np.array([result.success for result in results])
    flip, flip_loss = None, None
    if success.any():
        first = int(success.argmax())
        flip, flip_loss = float(grid[first]), results[first].loss
        if first > 0:
            low = float(grid[first - 1])
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + flip)
                result = way(problem_at(middle))
                if result.success:
                    flip, flip_loss = middle, result.loss
                else:
                    low = middle
    return Curve(
        losses=np.array([result.loss for result in results]),
        claimed=np.array([result.proposal.claimed_loss for result in results]),
        success=success,
        flip=flip,
        flip_loss=flip_loss,
    )
