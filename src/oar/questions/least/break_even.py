"""From which share of participants on is it better to act together? Exact for nearest centroid, elsewhere found.

Shares are of each class's eligible members, drawn at random once: a larger share contains a smaller one, and could do
what that does. The share is halved between the largest at which the collective was not found to do better and the
smallest at which it was, by audited solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import random_order
from oar.errors import Status, with_near_names
from oar.models.settings import check_seed
from oar.plans import Result
from oar.problem import Problem
from oar.progress import Progress, step_line
from oar.questions.answers import ShareAnswer
from oar.questions.least.centroids import exact_break_even
from oar.questions.least.coalition import no_best
from oar.questions.least.trials import CountedSolves, check_tolerance, has_closed_form, no_idle_options
from oar.recourse import individual
from oar.typing import SignalLike, SolverLike

Mask = NDArray[np.bool_]
USUAL = 0.02
BETTER = 1e-9  # share of a loss by which another must be below it to be better


@with_near_names
def break_even(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    collective_solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    tolerance: float | None = None,
    seed: int | None = None,
    progress: Progress = None,
) -> ShareAnswer:
    """Return the share of participants at which the collective overtakes the individual at the same budget.

    For nearest centroid on plain features it is computed. Elsewhere it is the smallest share that is found to do
    better, of members who are drawn at random.

    Args:
        problem: what is asked.
        solver: the solver for the individual, as in `oar.individual`.
        collective_solver: the solver for the collective, as in `oar.collective`.
        signal: as in `oar.collective`.
        tolerance: the difference of shares within which the search stops; 0.02 if left out.
        seed: of the draw of members; 0 if left out.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    problem.only_moves("this question")
    no_best(problem, "shares of them are looked for")
    no_idle_options(
        problem,
        "the break-even share",
        collective_solver=collective_solver,
        signal=signal,
        tolerance=tolerance,
        seed=seed,
    )
    if has_closed_form(problem):
        return exact_break_even(problem, solver)
    close = check_tolerance(tolerance, USUAL)
    drawn = 0 if seed is None else seed
    check_seed(drawn)
    alone = individual(problem, solver=solver)
    with step_line("break-even", progress) as on_step:
        draw = Draw(CountedSolves(problem, collective_solver, signal, on_step), int(drawn))
        return _searched(draw, alone, close)


class Draw:
    """The collective's results by share of each class's eligible members, drawn in a fixed random order."""

    def __init__(self, trying: CountedSolves, seed: int) -> None:
        self._trying, problem = trying, trying.problem
        self.model, people = problem.model, problem.people
        able = problem.allowance.everyones(people.size) > 0
        codes = np.zeros(people.size, dtype=int) if problem.regresses else people.codes(0, people.size)
        order = random_order(people.size, seed)
        self._classes = [order[(codes[order] == code) & able[order]] for code in np.unique(codes)]
        self._known: dict[tuple[int, ...], Result] = {}

    def members(self, share: float) -> Mask:
        """Return who takes part: of every class so many that they are at least this share."""
        mask = np.zeros(self._trying.problem.people.size, dtype=bool)
        for order in self._classes:
            mask[order[: self._count(order, share)]] = True
        return mask

    def _count(self, order: NDArray[np.intp], share: float) -> int:
        return int(np.ceil(share * len(order) - 1e-9))

    def at(self, share: float, near: Result | None = None) -> Result:
        """Return the audited collective result of a share."""
        key = tuple(self._count(order, share) for order in self._classes)
        if key not in self._known:
            few = self._trying.problem.with_action(participants=self.members(share), seed=None)
            self._known[key] = self._trying.solve(few, near)
        return self._known[key]

    def least(self, good: Any, close: float) -> float | None:
        """Return the smallest share found whose result is good; None where not even everyone's is."""
        best = self.at(1.0)
        if not good(best):
            return None
        if good(self.at(0.0)):
            return 0.0
        low, high = 0.0, 1.0
        while high - low > close:
            middle = 0.5 * (low + high)
            result = self.at(middle, best)
            if good(result):
                high, best = middle, result
            else:
                low = middle
        return high


def _searched(draw: Draw, alone: Result, close: float) -> ShareAnswer:
    limit = alone.loss - BETTER * abs(alone.loss)
    everyone = draw.at(1.0)
    if not (alone.audit.converged and everyone.audit.converged):
        said = Status.NOT_CONVERGED.advice
        return ShareAnswer(None, None, None, Status.NOT_FOUND, said, alone, everyone)
    share = draw.least(lambda result: result.loss < limit, close)
    goal_share = draw.least(lambda result: result.success, close)
    if share is None and alone.loss <= getattr(draw.model, "least_loss", -np.inf):
        said = "Impossible: the individual's loss is as low as any can be, so no collective does better."
        return ShareAnswer(None, None, goal_share, Status.IMPOSSIBLE, said, alone, None)
    if share is None:
        said = (
            f"Not found: with all eligible members the collective's best loss found is {everyone.loss:.6g}, not below "
            f"the individual's {alone.loss:.6g}, which proves nothing. Let more members take part, or give them larger "
            "budgets."
        )
        return ShareAnswer(None, None, goal_share, Status.NOT_FOUND, said, alone, everyone)
    reached = "the goal itself was not found to be reached even if all of them do"
    if goal_share == 0:
        reached = "the goal itself is reached before any of them moves"
    elif goal_share is not None:
        reached = f"at most {goal_share:.1%} are needed for the goal itself"
    said = (
        f"The collective's loss is below the individual's with at most {share:.1%} of each class, drawn at random "
        f"(audited). That is found, not proved to be the least, {_against(alone)}; {reached}."
    )
    return ShareAnswer(share, share if alone.exact else None, goal_share, Status.ACHIEVED, said, alone, draw.at(share))


def _against(alone: Result) -> str:
    return "against the best individual move" + ("" if alone.exact else " found")
