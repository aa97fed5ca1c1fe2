"""The smallest budget: exact for nearest centroid; elsewhere the smallest that is found to suffice.

Budgets are doubled until a plan succeeds, then halved between the largest that failed and the smallest that did. A plan
that leaves some of its budget is proof for a smaller one, and where moves need not be whole the last good plan,
shortened to a smaller budget, is tried by a refit before it is planned for anew. Only audited plans count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import LARGEST_BUDGET, check_budget
from oar.checks import with_near_names
from oar.errors import Status
from oar.online import OnlineProblem
from oar.plans import Result
from oar.problem import Problem
from oar.progress import Progress, know
from oar.questions.least.bounds import bound_of
from oar.questions.least.scales import Found, Scale, scale_of
from oar.questions.least.trials import (
    Explained,
    ProblemTrials,
    after,
    check_tolerance,
    eligible,
    halve,
    has_closed_form,
    no_idle_options,
    scaled,
    unit_budgets,
    what_is_scaled,
)
from oar.recourse import collective
from oar.referee import MEMBERS, nobody_moves
from oar.referee.proofs.balls import averages_above, never, within_radii
from oar.referee.proofs.rounds import of_rounds
from oar.solvers.centroids.exact import Reach, reach_of, smallest_scale, why_never
from oar.solvers.registry import EffortLike, bounded
from oar.typing import SignalLike, SolverLike

USUAL = 1e-2
MOST_SOLVES = 40
CONFIRMED = 0.05  # share of a scale below one that suffices after all, from where on the search goes on
HALVED = 20  # times, from a scale that suffices to the largest that is proved not to: to a millionth of it
Array = NDArray[np.float64]
LESS = (*10.0 ** np.arange(-12, -1), *np.arange(0.02, 1.0, 0.02))  # shares of a scale that are left out
SHARP = 1e-6  # share of a number within which it is proved to be the least


@dataclass(frozen=True, eq=False)
class BudgetAnswer(Explained):
    """The minimal budget: how far each participant must be able to move.

    Attributes:
        value: where `exact`, the infimum of the budgets that suffice: any larger one does, and at the value itself the
            goal at best ties. Otherwise the smallest budget that was found to suffice. Where budgets differ between
            people: the factor on all of them. Where members do not move: how far each soft label may, or how many
            labels are flipped and how many leave. inf if impossible, or if none was found.
        status: ACHIEVED (audited, where `exact` just above the value), ALREADY (no move is needed), IMPOSSIBLE
            (proved), or NOT_FOUND.
        binding: the class that is beaten last, or None.
        explanation: the answer in words.
        result: the audited collective result at the value, or just above it; None if impossible. Where none was found
            to suffice, that of the largest budget which was tried.
        at_least: a budget that is proved to be needed: none below it reaches the goal. 0 where nothing is proved.
        exact: whether `at_least` is proved to be the value itself, to six digits.
    """

    value: float
    status: Status
    binding: Any
    explanation: str
    result: Result | None
    at_least: float = 0.0
    exact: bool = False

    def __float__(self) -> float:
        """The value."""
        return self.value


@with_near_names
def minimal_budget(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    tolerance: float | None = None,
    most: float | None = None,
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> BudgetAnswer:
    """Return the smallest budget at which the participants reach the goal (the problem's own is only a first guess).

    For nearest centroid on plain features it is exact: for p = 2 and everyone taking part max(0, (d_g − min_{c≠g}
    d_c)/2). Otherwise it is found by repeated solving and auditing: `value` suffices, and `at_least` is needed. Where
    members move and are relabelled or leave, it is the budget of the moves, and other limits stay.

    Args:
        problem: the problem to solve.
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        tolerance: the share of the value within which the search stops; 0.01 if left out.
        most: the largest budget (or factor on the budgets) that is tried; by default four times the distance from the
            query to the farthest person.
        effort: as in `oar.collective`; plans that only have to tell whether the goal is within reach get less of it.
        time_limit: seconds after which the search begins nothing more, and what it has found so far is returned; None
            is no limit.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    no_idle_options(problem, "the least budget", solver=solver, signal=signal, tolerance=tolerance, most=most)
    close = check_tolerance(tolerance, USUAL)
    with bounded("minimal budget", progress, effort, time_limit) as on_step:
        if has_closed_form(problem):
            return exact_budget(problem)
        return _searched(ProblemTrials(problem, solver, signal, on_step), close, most)


def _searched(trying: ProblemTrials, close: float, most: float | None) -> BudgetAnswer:
    problem, scale = trying.problem, scale_of(trying.problem)
    still, what = trying.still(), scale.what
    if still.success:
        said = "Nobody needs to act: the query has the goal already."
        return BudgetAnswer(0.0, still.status, None, said, still, 0.0, True)
    if not still.audit.converged:
        return BudgetAnswer(np.inf, Status.NOT_FOUND, None, Status.NOT_CONVERGED.advice, still)
    if not eligible(scale.at(1)).any():
        said = f"Impossible with any {what}: nobody may act; let somebody take part."
        return BudgetAnswer(np.inf, Status.IMPOSSIBLE, None, said, None, np.inf, True)
    farthest = scale.farthest() if most is None else type(scale.own)(check_budget(most, "most"))
    found, failed, last = _first_that_does(trying, scale, farthest)
    if found is None:
        least = max(scale.least, _least(problem, farthest))
        # Either even all of those whom the best few are chosen from cannot do, or nobody may change anything at all.
        if least == np.inf or (farthest > 0 and not problem.levers.given and nobody_moves(last.problem, MEMBERS)):
            said = f"Impossible with any {what}: no moves that limits and participants leave reach the goal."
            return BudgetAnswer(np.inf, Status.IMPOSSIBLE, None, said, None, np.inf, True)
        tried = min(farthest, failed)
        said = f"No {what} up to {tried:.4g} was found to suffice, which proves nothing. {_proved(least, what)}"
        said += f" {trying.ended}"
        return BudgetAnswer(np.inf, Status.NOT_FOUND, None, said.strip(), last, least)
    if problem.levers.given and problem.moves:  # other labels and strikes may do without any move
        alone = trying.solve(scale.at(0.0))
        found = (0.0, alone) if alone.success else found
    return _answer(trying, scale, *_halved(trying, scale, close, failed, found))


def _halved(
    trying: ProblemTrials, scale: Scale, close: float, failed: float, found: Found
) -> tuple[float, float, Result]:
    """Return a value that failed, and the smallest above it that is found to do, with its result."""
    value, result = found
    know(f"a {scale.said(value)}")

    def shown(smaller: float) -> float | None:
        nonlocal result
        better = _tried(trying, scale, smaller, result)
        if better is None:
            return None
        result = better[1]
        know(f"a {scale.said(better[0])}")
        return better[0]

    def near(failed: float, does: float) -> bool:
        return scale.next_to_each_other(failed, does, close) or trying.solves >= MOST_SOLVES or trying.spent

    failed, value = halve(failed, value, shown, near)
    # Trials may end in worse minima than plans do: the one that decides is made again, with the effort of an answer.
    while failed > 0 and not near(0, value) and (better := _tried(trying, scale, failed, result, fully=True)):
        value, result = better
        failed, value = halve(type(value)(min(failed, value) * (1 - CONFIRMED)), value, shown, near)
    return failed, value, result


def _answer(trying: ProblemTrials, scale: Scale, failed: float, value: float, result: Result) -> BudgetAnswer:
    least = max(scale.least, _least(trying.problem, value))
    if not value:
        said = "No move is needed: what else members may do suffices (audited)."
        return BudgetAnswer(0.0, result.status, None, said, result, 0.0, True)
    if least >= value:
        said = f"A {scale.said(value)} suffices (audited), and that is the least (proved)."
        return BudgetAnswer(float(value), result.status, None, said, result, float(value), True)
    ended = f"no plan was found with {failed:.4g}" if failed > 0 else "the search for a smaller one ended there"
    said = (
        f"A {scale.said(value)} suffices (audited). That is found, not proved to be the least: "
        f"{ended}. {_proved(least, scale.what)} {trying.ended}"
    )
    return BudgetAnswer(float(value), result.status, None, said.strip(), result, least)


def _least(problem: Problem, enough: float) -> float:
    """Return a scale below which it is proved that nothing does; `enough` is where to look from."""
    if problem.levers.given:  # bounds are of moves
        return 0.0
    if isinstance(problem, OnlineProblem):
        return _least_over_rounds(problem, enough) if problem.model.plain_means else 0.0
    if problem.model.plain_means and problem.within_balls and problem.plain:  # for all of them
        duels = smallest_scale(reach_of(problem))[0]
        return proved_scale(problem, duels if problem.query.probability is None else enough)
    bound = bound_of(problem)
    members = problem.best.number if problem.best else bound.able
    return bound.least_scale(unit_budgets(problem), enough, members)


def _least_over_rounds(problem: OnlineProblem, enough: float) -> float:
    """Return a scale at which the referee proves that no moves in all rounds reach the goal, as large as is found."""

    def still_open(scale: float) -> float | None:
        return None if of_rounds(scaled(problem, scale)).impossible else scale  # type: ignore[arg-type]

    if still_open(enough) is None:
        return enough
    return halve(0.0, enough, still_open, after(HALVED))[0]


def _proved(least: float, what: str) -> str:
    return f"It takes at least {least:.4g} (proved)." if least > 0 else f"No least {what} is proved here."


def _first_that_does(trying: ProblemTrials, scale: Scale, farthest: float) -> tuple[Found | None, float, Result]:
    """Return the first value that does with its result, the largest that did not, and the last result."""
    value, failed = min(scale.own if scale.own > 0 else farthest / 16, farthest), type(farthest)(0)
    value = max(type(farthest)(value), type(farthest)(scale.least))
    while True:
        result = trying.solve(scale.at(value))
        ended = value >= farthest or trying.solves >= MOST_SOLVES or trying.spent
        if ended and not result.success:
            result = trying.fully(scale.at(value), result)
        if result.success:
            return scale.tightened(result, value), failed, result
        if ended:
            return None, value, result
        failed, value = value, min(2 * value, farthest)


def _tried(trying: ProblemTrials, scale: Scale, value: float, best: Result, fully: bool = False) -> Found | None:
    """Return a smaller value that does, with its result, no larger than the one asked for; None if none was found."""
    shorter = scale.shortened(best, value)
    if shorter is not None and shorter.success:
        return value, shorter
    result = (trying.fully if fully else trying.solve)(scale.at(value), best)
    return scale.tightened(result, value) if result.success else None


def exact_budget(problem: Problem) -> BudgetAnswer:
    """Return the smallest budget as the root of a monotone function of the classes' radii; nothing is tried."""
    reach = reach_of(problem)
    value, blocker = smallest_scale(reach)
    classes, what = problem.people.classes, what_is_scaled(problem)
    if value == np.inf:
        least = proved_scale(problem, value)
        said = f"with any {what}: {why_never(problem, reach, blocker)}"
        if least < np.inf:  # so near a tie that rounding decides
            return BudgetAnswer(value, Status.NOT_FOUND, classes[blocker or 0], f"Not found {said}", None, least)
        return BudgetAnswer(
            value, Status.IMPOSSIBLE, classes[blocker or 0], f"Impossible {said}", None, at_least=value, exact=True
        )
    if reach.lead(np.zeros_like(reach.unit)) > 0:
        result = collective(scaled(problem, 0.0), solver="exact")
        return BudgetAnswer(
            0.0, result.status, None, "No move is needed: the query has the goal already.", result, exact=True
        )
    result = collective(scaled(problem, _just_above(reach, value)), solver="exact")
    binding = None if blocker is None else classes[blocker]
    least = proved_scale(problem, value, result.evidence)
    explanation = f"Any {what} above {value:.6g} suffices, and no smaller one does."
    if least < value * (1 - SHARP):
        explanation = f"Any {what} above {value:.6g} suffices. It takes at least {least:.6g} (proved)."
    return BudgetAnswer(value, result.status, binding, explanation, result, least, least >= value * (1 - SHARP))


def proved_scale(problem: Problem, value: float, still: Any = None) -> float:
    """Return a scale, `value` but for rounding, below which the referee proves that nothing reaches the goal.

    It looks at less and less, until what is open is behind it: rounding, or how far a search ended above the least; 0
    where nothing is proved. `still` is the referee's evidence where some result has it already.
    """
    still = collective(scaled(problem, 0.0), solver="exact").evidence if still is None else still
    if never(problem, still):
        return np.inf
    if value == np.inf:
        return 0.0
    unit = averages_above(problem.people, unit_budgets(problem))  # radii at a scale of 1, with which they are in step
    for less in LESS:
        least = value * (1 - less)
        if within_radii(problem, still, unit * least).impossible:
            return float(least)
    return 0.0


def _just_above(reach: Reach, value: float) -> float:
    """Return a scale a millionth above the value, or as little more as it takes to be clear of a tie."""
    step = max(1e-6 * value, float(reach.ties.max()))
    if step == 0:
        return 1.0  # everything lies in one point, the origin: any budget does
    while reach.lead(reach.unit * (value + step)) <= 0 and value + 2 * step < LARGEST_BUDGET:
        step *= 2
    return value + step
