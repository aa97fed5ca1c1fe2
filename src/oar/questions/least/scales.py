"""Scales: what a budget is, of moves, of soft labels, and of labels that are flipped and people who leave.

Where members may move it is how far: the common budget, or a factor on everyone's own, while labels and leavers are
limited as they are. Where they may not, it is how far a soft label may move, or the number of labels that are flipped
and of people who leave, each at most so many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.choice import as_action, parts_of
from oar.plans import Result
from oar.problem import Problem
from oar.questions.least.trials import (
    eligible,
    handing_in,
    lengths_of,
    moves_of,
    own_scale,
    scaled,
    unit_budgets,
    what_is_scaled,
    with_moves,
)
from oar.tolerances import ROUNDING

Array = NDArray[np.float64]
FARTHEST = 4.0  # times the distance of the farthest person from the query: how far the search goes
Found = tuple[float, Result]


class Scale:
    """The scale of moves in memory."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def what(self) -> str:
        """What it is called."""
        return what_is_scaled(self.problem)

    @property
    def own(self) -> float:
        """The problem's own."""
        return own_scale(self.problem)

    @property
    def least(self) -> float:
        """A scale that is needed wherever nobody's doing anything does not do."""
        return 0.0

    def said(self, value: float) -> str:
        """Return a value in words."""
        return f"{self.what} of at most {value:.4g}"

    def at(self, scale: float) -> Problem:
        """Return the problem at a scale."""
        return scaled(self.problem, scale)

    def farthest(self) -> float:
        """Return a scale at which everyone may go well past the query."""
        problem, units, longest = self.problem, unit_budgets(self.problem), 0.0
        for chunk in problem.people.chunks():
            rows = np.asarray(chunk.features, dtype=np.float64) - problem.first_query
            longest = max(longest, float(lengths_of(problem, rows).max(initial=0.0)))
        farthest = FARTHEST * longest / float(units[units > 0].min(initial=np.inf))
        return farthest if farthest > 0 else 1.0

    def next_to_each_other(self, failed: float, does: float, close: float) -> bool:
        """Report whether nothing is looked for between a scale that failed and one that does."""
        return does - failed <= close * does

    def shortened(self, best: Result, scale: float) -> Result | None:
        """Return the same members' plan, each going as far as it still may; None where moves must be whole."""
        problem = self.at(scale)
        if problem.limits is not None:
            return None
        few = problem.with_action(participants=best.problem.allowance.mask, seed=None)
        moves = few.allowance.norm.project(moves_of(best), few.allowance.everyones(few.people.size))
        return with_moves(best, few, moves)

    def tightened(self, result: Result, scale: float) -> Found:
        """Return the scale that a plan truly needs, and the plan audited at it."""
        used = self.used(result)
        if used >= scale:
            return scale, result
        tight = self._audited_at(used, result)
        return (used, tight) if tight.success else (scale, result)

    def used(self, result: Result) -> float:
        """Return the scale that a plan truly needs."""
        units, lengths = unit_budgets(self.problem), lengths_of(result.problem, moves_of(result))
        return float((lengths[units > 0] / units[units > 0]).max(initial=0.0)) * (1 + ROUNDING)

    def _audited_at(self, scale: float, result: Result) -> Result:
        few = self.at(scale).with_action(participants=result.problem.allowance.mask, seed=None)
        return with_moves(result, few, moves_of(result))


class ScaleInParts(Scale):
    """The scale of moves of people in parts, of which no plan is changed but by planning anew."""

    def shortened(self, best: Result, scale: float) -> Result | None:
        """Return nothing."""
        return None

    def tightened(self, result: Result, scale: float) -> Found:
        """Return the scale and the plan as they are."""
        return scale, result


class SoftScale(ScaleInParts):
    """The scale of soft labels: how far each may move."""

    what = "change of labels"

    @property
    def own(self) -> float:
        """The problem's own."""
        return float(self.problem.levers.relabel.soft or 0.0)

    def at(self, scale: float) -> Problem:
        """Return the problem at a scale."""
        parts = [
            replace(part, soft=scale) if getattr(part, "soft", None) is not None else part
            for part in parts_of(self.problem.action)
        ]
        return replace(self.problem, action=as_action(parts))

    def farthest(self) -> float:
        """Return all of a label, or well past all values."""
        values = self.problem.people.target_rows(self.problem.regresses)
        return FARTHEST * float(np.ptp(values) or 1.0) if self.problem.regresses else 1.0


class NumberScale(SoftScale):
    """The scale of flipped labels and leavers: how many."""

    what = "number of labels or leavers"

    @property
    def own(self) -> int:
        """The problem's own."""
        return max(self.problem.levers.relabel.most, self.problem.levers.withhold.most)

    @property
    def least(self) -> float:
        """One: nobody is not enough."""
        return 1.0

    def said(self, value: float) -> str:
        """Return a value in words."""
        return f"{self.what} of at most {value:,.0f}"

    def at(self, scale: float) -> Problem:
        """Return the problem at a scale."""
        parts = [replace(part, most=int(scale), share=None) for part in parts_of(self.problem.action)]
        return replace(self.problem, action=as_action(parts))

    def farthest(self) -> int:
        """Return everybody."""
        return int(eligible(self.at(self.problem.people.size)).sum())

    def next_to_each_other(self, failed: float, does: float, close: float) -> bool:
        """Report whether there is no number between."""
        return does - failed <= max(1, int(close * does))

    def tightened(self, result: Result, scale: float) -> Found:
        """Return the number that a plan truly needs, and the plan audited at it."""
        return Scale.tightened(self, result, scale)

    def used(self, result: Result) -> int:
        """Return how many labels are flipped, or how many leave."""
        return max(result.audit.relabelled, result.audit.leavers)

    def _audited_at(self, scale: float, result: Result) -> Result:
        return handing_in(result, self.at(scale), result.plan.contribution())


def scale_of(problem: Problem) -> Any:
    """Return what is scaled in a problem."""
    kinds = (
        (problem.people.streamed, ScaleInParts),
        (problem.moves, Scale),
        (problem.levers.counted, NumberScale),
    )
    return next((kind for applies, kind in kinds if applies), SoftScale)(problem)
