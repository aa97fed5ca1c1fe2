"""The smallest budget: exact for nearest centroid; elsewhere the smallest that is found to suffice.

Budgets are doubled until a plan succeeds, then halved between the largest that failed and the smallest that did. A plan
that leaves some of its budget is proof for a smaller one, and where moves need not be whole the last good plan,
shortened to a smaller budget, is tried by a refit before it is planned for anew. Only audited plans count.
"""

from __future__ import annotations

import numpy as np

from oar.actions.perturb import check_budget
from oar.errors import Status, with_near_names
from oar.plans import Result
from oar.problem import Problem
from oar.progress import Progress, step_line
from oar.questions.answers import BudgetAnswer
from oar.questions.least.bounds import bound_of
from oar.questions.least.centroids import exact_budget, proved_scale
from oar.questions.least.trials import (
    CountedSolves,
    check_tolerance,
    has_closed_form,
    lengths_of,
    moves_of,
    no_idle_options,
    own_scale,
    scaled,
    unit_budgets,
    what_is_scaled,
    with_moves,
)
from oar.referee.proofs import MEMBERS, nobody_moves
from oar.solvers.centroids.reach import reach_of, smallest_scale
from oar.typing import SignalLike, SolverLike

USUAL = 1e-2
FARTHEST = 4.0  # times the distance of the farthest person from the query: how far the search goes
MOST_SOLVES = 40
ROUNDING = 1e-12


@with_near_names
def minimal_budget(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    tolerance: float | None = None,
    most: float | None = None,
    progress: Progress = None,
) -> BudgetAnswer:
    """Return the smallest budget with which the participants reach the goal (the problem's own is only a first guess).

    For nearest centroid on plain features it is exact: for p = 2 and everyone taking part
    max(0, (d_g − min_{c≠g} d_c)/2). Elsewhere it is found by solving and auditing again and again: `value` suffices,
    and `at_least` is needed.

    Args:
        problem: what is asked.
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        tolerance: the share of the value within which the search stops; 0.01 if left out.
        most: the largest budget (or factor on the budgets) that is tried; four times the way from the query to the
            farthest person if left out.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    problem.only_moves("this question")
    no_idle_options(problem, "the least budget", solver=solver, signal=signal, tolerance=tolerance, most=most)
    if has_closed_form(problem):
        return exact_budget(problem)
    close = check_tolerance(tolerance, USUAL)
    with step_line("minimal budget", progress) as on_step:
        return _searched(CountedSolves(problem, solver, signal, on_step), close, most)


def _searched(trying: CountedSolves, close: float, most: float | None) -> BudgetAnswer:
    problem = trying.problem
    still, what = trying.still(), what_is_scaled(problem)
    if still.success:
        return BudgetAnswer(
            0.0, still.status, None, "No move is needed: the query has the goal already.", still, 0.0, True
        )
    if not still.audit.converged:
        return BudgetAnswer(np.inf, Status.NOT_FOUND, None, Status.NOT_CONVERGED.advice, still)
    units = unit_budgets(problem)
    if not units.any():
        said = f"Impossible with any {what}: nobody may move; let somebody take part."
        return BudgetAnswer(np.inf, Status.IMPOSSIBLE, None, said, None, np.inf, True)
    farthest = _farthest(problem) if most is None else check_budget(most, "most")
    found, failed, last = _first_that_does(trying, farthest)
    if found is None:
        least = _least(problem, farthest)
        # Either even all of those whom the best few are chosen from cannot do, or nobody may change anything at all.
        if least == np.inf or nobody_moves(last.problem, MEMBERS):
            said = f"Impossible with any {what}: no moves that limits and participants leave reach the goal."
            return BudgetAnswer(np.inf, Status.IMPOSSIBLE, None, said, None, np.inf, True)
        said = f"No {what} up to {farthest:.4g} was found to suffice, which proves nothing. {_proved(least, what)}"
        return BudgetAnswer(np.inf, Status.NOT_FOUND, None, said.strip(), last, least)
    value, result = found
    while value - failed > close * value and trying.solves < MOST_SOLVES:
        middle = 0.5 * (failed + value)
        better = _tried(trying, middle, result)
        if better is None:
            failed = middle
        else:
            value, result = better
    least = _least(problem, value)
    said = (
        f"A {what} of at most {value:.4g} suffices (audited). That is found, not proved to be the least: "
        f"{_how_it_ended(failed)}. {_proved(least, what)}"
    )
    return BudgetAnswer(value, result.status, None, said.strip(), result, least)


def _least(problem: Problem, enough: float) -> float:
    """Return a scale below which it is proved that nothing does; `enough` is where to look from."""
    if problem.model.plain_means and problem.within_balls and problem.plain:  # for all of them
        duels = smallest_scale(reach_of(problem))[0]
        return proved_scale(problem, duels if problem.query.probability is None else enough)
    members = None if problem.best is None else problem.best.number
    return bound_of(problem).least_scale(unit_budgets(problem), enough, members)


def _how_it_ended(failed: float) -> str:
    return f"no plan was found with {failed:.4g}" if failed > 0 else "the search for a smaller one ended there"


def _proved(least: float, what: str) -> str:
    return f"It takes at least {least:.4g} (proved)." if least > 0 else f"No least {what} is proved here."


def _first_that_does(trying: CountedSolves, farthest: float) -> tuple[tuple[float, Result] | None, float, Result]:
    """Return the first scale that does with its result, the largest that did not, and the last result."""
    problem = trying.problem
    own = own_scale(problem)
    scale, failed = min(own if own > 0 else farthest / 16, farthest), 0.0
    while True:
        result = trying.solve(scaled(problem, scale))
        if result.success:
            return _tightened(trying, result, scale), failed, result
        if scale >= farthest or trying.solves >= MOST_SOLVES:
            return None, scale, result
        failed, scale = scale, min(2 * scale, farthest)


def _tried(trying: CountedSolves, scale: float, best: Result) -> tuple[float, Result] | None:
    """Return a smaller scale that does, with its result, no larger than the one asked for; None if none was found."""
    problem = scaled(trying.problem, scale)
    if problem.limits is None:
        # The same members as before, each going as far as it still may.
        few = problem.with_action(participants=best.problem.allowance.mask, seed=None)
        moves = few.allowance.norm.project(moves_of(best), few.allowance.everyones(few.people.size))
        shorter = with_moves(best, few, moves)
        if shorter.success:
            return scale, shorter
    result = trying.solve(problem, best)
    return _tightened(trying, result, scale) if result.success else None


def _tightened(trying: CountedSolves, result: Result, scale: float) -> tuple[float, Result]:
    """Return the scale that a plan truly needs, and the plan audited at it."""
    units = unit_budgets(trying.problem)
    moves = moves_of(result)
    lengths = lengths_of(result.problem, moves)
    used = float((lengths[units > 0] / units[units > 0]).max(initial=0.0)) * (1 + ROUNDING)
    if used >= scale:
        return scale, result
    few = scaled(trying.problem, used).with_action(participants=result.problem.allowance.mask, seed=None)
    tight = with_moves(result, few, moves)
    return (used, tight) if tight.success else (scale, result)


def _farthest(problem: Problem) -> float:
    """Return a scale at which everyone may go well past the query."""
    units = unit_budgets(problem)
    rows = np.asarray(problem.people.features, dtype=np.float64) - problem.first_query
    lengths = lengths_of(problem, rows)
    farthest = FARTHEST * float(lengths.max()) / float(units[units > 0].min())
    return farthest if farthest > 0 else 1.0
