"""Trials, which questions without a closed form share: solves, audits, and plans with smaller budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_number
from oar.errors import DataError, OptionError
from oar.plans import MemberPlan, Result
from oar.problem import Problem
from oar.progress import OnStep
from oar.recourse import audited, planned

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class CountedSolves:
    """Solves the same question with other budgets and members, and keeps count."""

    def __init__(self, problem: Problem, solver: Any, signal: Any, on_step: OnStep | None) -> None:
        self.problem, self._settings, self._on_step, self.solves = problem, (solver, signal), on_step, 0

    @property
    def signal(self) -> Any:
        """The signal, by which training is differentiated."""
        return self._settings[1]

    def solve(self, problem: Problem, *known: Result | None) -> Result:
        """Solve and audit; on a table also from what is known to be good elsewhere."""
        self.solves += 1
        starts = []
        if problem.limits is not None:
            plans = [one.plan for one in known if one is not None]
            starts = [np.vstack([plan.each, plan.query_move]) for plan in plans if isinstance(plan, MemberPlan)]
        return planned(problem, *self._settings, self._on_step, starts)

    def still(self) -> Result:
        """Return the audited result if nobody moves."""
        nobody = np.zeros(self.problem.people.size, dtype=bool)
        return self.solve(self.problem.with_action(participants=nobody, seed=None))


def has_closed_form(problem: Problem) -> bool:
    """Report whether the questions have exact answers: nearest centroid on plain features, with given participants."""
    simple = problem.plain and problem.query.probability is None and problem.keep is None
    return simple and problem.model.plain_means and problem.within_balls and problem.best is None


def no_idle_options(problem: Problem, question: str, **options: Any) -> None:
    """Refuse settings of a search where nothing is searched."""
    if not has_closed_form(problem):
        return
    for name, value in options.items():
        if value not in (None, "auto"):
            raise OptionError(
                f"{name}: does nothing here, because for nearest centroid {question} is computed, not searched; leave "
                f"it out, got {value!r}."
            )


def check_tolerance(tolerance: Any, usual: float) -> float:
    """Return a tolerance; raise unless it is between 0 and 1."""
    if tolerance is None:
        return usual
    if not is_number(tolerance) or not 0 < tolerance < 1:
        raise DataError(f"tolerance: must be a number above 0 and below 1, got {tolerance!r}.")
    return float(tolerance)


def scaled(problem: Problem, scale: float) -> Problem:
    """Return the problem with the common budget set to `scale`, or everyone's own multiplied by it."""
    if problem.allowance.single:
        return problem.with_action(budget=scale)
    return problem.with_action(budget=scale * np.asarray(problem.allowance.budget))


def own_scale(problem: Problem) -> float:
    """Return the scale of the problem as it is: its common budget, or 1 where budgets differ."""
    return float(problem.allowance.budget) if problem.allowance.single else 1.0


def unit_budgets(problem: Problem) -> Array:
    """Return everyone's budget (n,) for one unit of scale, 0 for those who stay out."""
    allowance, size = problem.allowance, problem.people.size
    if not allowance.single:
        return allowance.everyones(size)
    return np.ones(size) if allowance.mask is None else allowance.mask.astype(np.float64)


def lengths_of(problem: Problem, moves: Array) -> Array:
    """Return how much of a budget everyone's move (n, d) takes; on a table, in cost."""
    if problem.limits is not None:
        measured = problem.measured(False)
        moves = moves[:, measured.columns] * measured.costs
    return problem.allowance.norm.length(moves)


def with_moves(result: Result, problem: Problem, moves: Array) -> Result:
    """Return a result's plan with other moves of its members, audited against the problem's limits.

    What the solver claimed of its own plan does not hold for it.
    """
    plan = MemberPlan(problem, result.plan.query_move, moves)
    found = audited(replace(result.proposal, plan=plan, gap=np.inf, exact=False, ended=""))
    return replace(found, proposal=replace(found.proposal, claimed_loss=found.loss))


def moves_of(result: Result) -> Array:
    """Return everyone's move (n, d) as an array."""
    return np.asarray(result.plan.moves(), dtype=np.float64)


def what_is_scaled(problem: Problem) -> str:
    """Return what a scale is called."""
    return "budget" if problem.allowance.single else "factor on the budgets"
