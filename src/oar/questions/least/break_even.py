"""Break-even: the share of participants from which acting together is better; exact for nearest centroid.

Shares are of each class's eligible members, drawn at random once: a larger share contains a smaller one, and could do
what that does. The share is halved between the largest at which the collective was not found to do better and the
smallest at which it was, by audited solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import random_order
from oar.actions.sets.norms import euclidean
from oar.checks import check_seed, with_near_names
from oar.errors import OptionError, Status
from oar.models.centroid.nearest_centroid import odds_against
from oar.plans import Result
from oar.plans.result import MET
from oar.problem import Problem
from oar.progress import Progress, know
from oar.questions.least.trials import (
    Explained,
    ProblemTrials,
    check_tolerance,
    codes_of,
    eligible,
    halve,
    has_closed_form,
    no_idle_options,
    settled,
    with_members,
)
from oar.questions.least.usefulness import Persons
from oar.recourse import collective, individual
from oar.solvers.centroids.best_members import ranked_members
from oar.solvers.centroids.exact import Reach, reach_of, smallest_scale
from oar.solvers.registry import EffortLike, bounded
from oar.typing import SignalLike, SolverLike

Mask = NDArray[np.bool_]
USUAL = 0.02
BETTER = 1e-9  # share of a loss by which another must be below it to be better
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShareAnswer(Explained):
    """The break-even share: the share of participants from which the collective does better than the individual.

    Both have the same budget. For nearest centroid on plain features a share is one of each class's reach (members'
    weights times budgets): of heads, where those are equal. Elsewhere members of each class are drawn at random, and it
    is a share of heads.

    Attributes:
        share: for nearest centroid on plain features: if this share of each class's eligible members takes part, the
            collective's exact loss equals that of the individual's best move found; any larger share does strictly
            better. Elsewhere: the smallest share that was found to do strictly better. None if all eligible members do
            worse, or were not found to do better.
        at_most: the share that would be enough even if the individual's loss were as low as its proved bound; None
            if all eligible members would not be. Equal to `share` where the individual's optimum is proved.
        goal_share: the share above which the collective reaches the goal itself, or the smallest that was found to;
            None if all do not.
        status: ACHIEVED (audited with whole members), IMPOSSIBLE, or NOT_FOUND.
        explanation: the answer in words.
        individual: the audited individual result.
        result: the audited collective result with that share, rounded up to whole members; None if impossible. Where
            no share was found to do, that of all eligible members.
        exact: whether both optima that are compared are proved: the collective's and the individual's.
    """

    share: float | None
    at_most: float | None
    goal_share: float | None
    status: Status
    explanation: str
    individual: Result
    result: Result | None
    exact: bool = False

    def __float__(self) -> float:
        """The share; raises if there is none."""
        if self.share is None:
            raise OptionError(f"there is no break-even: {self.explanation}")
        return self.share


@with_near_names
def break_even(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    collective_solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    tolerance: float | None = None,
    seed: int | None = None,
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> ShareAnswer:
    """Return the share of participants at which the collective overtakes the individual at the same budget.

    For nearest centroid on plain features it is computed exactly. Otherwise it is the smallest share of randomly drawn
    members that was found to do better.

    Args:
        problem: the problem to solve.
        solver: the solver for the individual, as in `oar.individual`.
        collective_solver: the solver for the collective, as in `oar.collective`.
        signal: as in `oar.collective`.
        tolerance: the difference of shares within which the search stops; 0.02 if left out.
        seed: of the draw of members; 0 if left out.
        effort: as in `oar.collective`; plans that only have to tell whether the goal is within reach get less of it.
        time_limit: seconds after which the search begins nothing more, and what it has found so far is returned; None
            is no limit.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    searching = {"collective_solver": collective_solver, "signal": signal, "tolerance": tolerance, "seed": seed}
    problem = settled(problem)
    no_idle_options(problem, "the break-even share", **searching)
    close = check_tolerance(tolerance, USUAL)
    drawn = 0 if seed is None else seed
    check_seed(drawn)
    with bounded("break-even", progress, effort, time_limit) as on_step:
        if has_closed_form(problem):
            return exact_break_even(problem, solver)
        alone = individual(problem, solver=solver)
        draw = Draw(ProblemTrials(problem, collective_solver, signal, on_step), int(drawn))
        return _searched(draw, alone, close)


class Draw:
    """The collective's results by share of each class's eligible members, drawn in a fixed random order."""

    def __init__(self, trying: ProblemTrials, seed: int) -> None:
        self._trying, problem = trying, trying.problem
        self.model, self._crowd = problem.model, Persons(problem)
        able, order = self._crowd.of(eligible(problem)), random_order(self._crowd.size, seed)
        codes = self._crowd.last(codes_of(problem))
        self._classes = [order[(codes[order] == code) & able[order]] for code in np.unique(codes)]
        self._known: dict[tuple[int, ...], Result] = {}

    @property
    def ended(self) -> str:
        """A sentence where the time for the search is over, or ""."""
        return self._trying.ended

    @property
    def never_sure(self) -> bool:
        """Whether no loss is 0 but by rounding, as of a softmax: then leads tell apart what losses of 0.0 do not."""
        problem = self._trying.problem
        attained = problem.regresses or self.model.margins or self.model.only_asked
        return not attained and problem.query.probability is None

    def members(self, share: float) -> Mask:
        """Return who takes part: of every class so many that they are at least this share."""
        mask = np.zeros(self._crowd.size, dtype=bool)
        for order in self._classes:
            mask[order[: self._count(order, share)]] = True
        return self._crowd.rows(mask)

    def _count(self, order: NDArray[np.intp], share: float) -> int:
        return int(np.ceil(share * len(order) - 1e-9))

    def at(self, share: float, *near: Result) -> Result:
        """Return the audited collective result of a share."""
        key = tuple(self._count(order, share) for order in self._classes)
        if key not in self._known:
            few = with_members(self._trying.problem, self.members(share))
            solve = self._trying.fully if share == 1 else self._trying.solve
            self._known[key] = solve(few, *near)
        return self._known[key]

    def least(self, good: Any, close: float, what: str) -> float | None:
        """Return the smallest share found whose result is good (`what` in words); None where not even everyone's is."""
        best = self.at(1.0)
        if not good(best):
            return None
        if good(self.at(0.0)):
            return 0.0

        def shown(share: float) -> float | None:
            nonlocal best
            result = self.at(share, best)
            if not good(result):
                return None
            best = result
            know(f"{what} with a share of at most {share:.1%}")
            return share

        return halve(0.0, 1.0, shown, lambda failed, does: does - failed <= close or self._trying.spent)[1]


def _searched(draw: Draw, alone: Result, close: float) -> ShareAnswer:
    limit = alone.loss - BETTER * abs(alone.loss)
    everyone = draw.at(1.0)
    if not (alone.audit.converged and everyone.audit.converged):
        said = Status.NOT_CONVERGED.advice
        return ShareAnswer(None, None, None, Status.NOT_FOUND, said, alone, everyone)
    rounded = alone.loss == 0 and draw.never_sure

    def better(result: Result) -> bool:
        ahead = result.audit.margin > alone.audit.margin + BETTER * abs(alone.audit.margin)
        return result.loss < limit or (rounded and result.loss == 0 and ahead)

    share = draw.least(better, close, "the collective ahead")
    goal_share = draw.least(lambda result: result.success, close, "the goal reached")
    if share is None and not rounded and alone.loss <= getattr(draw.model, "least_loss", -np.inf):
        said = "Impossible: the individual's loss is as low as any can be, so no collective does better."
        return ShareAnswer(None, None, goal_share, Status.IMPOSSIBLE, said, alone, None)
    if share is None:
        said = (
            f"Not found: with all eligible members the collective's best loss found is {everyone.loss:.6g}, not below "
            f"the individual's {alone.loss:.6g}, which proves nothing. Let more members take part, or give them larger "
            f"budgets. {draw.ended}"
        )
        return ShareAnswer(None, None, goal_share, Status.NOT_FOUND, said.strip(), alone, everyone)
    against = "against the best individual move" + ("" if alone.exact else " found")
    reached = "the goal itself was not found to be reached even if all of them do"
    if goal_share == 0:
        reached = "the goal itself is reached before any of them moves"
    elif goal_share is not None:
        reached = f"at most {goal_share:.1%} are needed for the goal itself"
    said = (
        f"The collective's loss is below the individual's with at most {share:.1%} of each class, drawn at random "
        f"(audited). That is found, not proved to be the least, {against}; {reached}. {draw.ended}"
    )
    at_most = share if alone.exact else None
    return ShareAnswer(share, at_most, goal_share, Status.ACHIEVED, said.strip(), alone, draw.at(share))


def exact_break_even(problem: Problem, solver: Any) -> ShareAnswer:
    """Return the share at which the collective overtakes the individual.

    With a share s of every class's eligible members all radii are s times those of all of them, and the collective's
    exact loss falls in s. The individual's problem is not convex: its best found loss gives the share, its
    proved bound gives the most that the share can be.
    """
    alone = individual(problem, solver=solver)
    reach = reach_of(problem)
    against = _odds_of(problem, alone)
    share = _share_at_odds(reach, against)
    exact = alone.exact and 0 < alone.loss * (1 - MET) <= alone.bound  # losses of 0.0 are not told apart by bounds
    at_most = share if exact else _share_at_odds(reach, _odds_at(alone.bound))
    scale, _ = smallest_scale(reach)
    goal_share = scale / reach.scale if reach.scale > 0 and scale < reach.scale else None
    if share is None:
        everyone = collective(problem, solver="exact")
        proved = everyone.bound >= alone.loss > 0
        explanation = (
            f"{'Impossible' if proved else 'Not found'}: with all eligible members the collective's best loss is "
            f"{everyone.loss:.6g}, not below the individual's {alone.loss:.6g}. Let more members take part, or give "
            "them larger budgets."
        )
        status, shown = (Status.IMPOSSIBLE, None) if proved else (Status.NOT_FOUND, everyone)
        return ShareAnswer(None, at_most, goal_share, status, explanation, alone, shown, exact=proved)
    some = with_members(problem, _first_members(problem, share))
    result = collective(some, solver="exact")
    if result.loss > alone.loss * (1 + 1e-9):
        refusal = "The audit does not confirm the share. Please report this as a bug."
        return ShareAnswer(share, at_most, goal_share, Status.REFUSED, refusal, alone, result)
    reached = "is not reached even if all of them do" if goal_share is None else f"is reached above {goal_share:.1%}"
    there = reach_of(some)
    level = "falls below" if there.odds(there.radii) < against - 1e-9 * max(1.0, against) else "is as low as"
    explanation = (
        f"The collective's loss {level} the individual's once {share:.1%} of each class take part"
        f"{_how_sure(exact, at_most)}; the goal itself {reached}."
    )
    if not alone.loss > 0:
        explanation += " Both losses are 0 to float64; compared are the logarithms of the odds against the goal."
    return ShareAnswer(share, at_most, goal_share, Status.ACHIEVED, explanation, alone, result, exact=exact)


def _odds_of(problem: Problem, alone: Result) -> float:
    """Return the log odds against the goal after the individual's own move, which order what losses of 0.0 do not."""
    query = reach_of(problem, members=False, query=True)
    move = alone.plan.query_move
    return float(odds_against(euclidean(query.after(np.zeros_like(query.offsets), move)), query.goal))


def _odds_at(loss: float) -> float:
    """Return the log odds at a loss, log(e^loss − 1)."""
    return loss + float(np.log(-np.expm1(-loss))) if loss > 0 else -np.inf


def _how_sure(exact: bool, at_most: float | None) -> str:
    """Say how far the share rests on an individual optimum that is found, not proved."""
    if exact:
        return ""
    enough = "" if at_most in (None, 1.0) else f"; {at_most:.1%} are enough whatever the individual does"
    return f" (against the best individual move found{enough})"


def _share_at_odds(reach: Reach, odds: float) -> float | None:
    """Return the share at which the collective's log odds against the goal fall to `odds`; None if they never do."""
    from scipy.optimize import brentq

    def excess(share: float) -> float:
        return float(reach.odds(share * reach.radii)) - odds

    at_all = excess(1.0)
    if excess(0.0) <= 0:
        return 0.0 if at_all < 0 else None  # there is something to overtake only if moving helps at all
    if at_all > MET * max(1.0, odds):
        return None
    if at_all >= 0:
        return 1.0
    return float(brentq(excess, 0.0, 1.0, xtol=1e-15, rtol=4 * np.finfo(float).eps, maxiter=500))


def _first_members(problem: Problem, share: float) -> NDArray[np.bool_]:
    """Return a mask of, class by class, as many members as hold at least this share of the class's radius."""
    ranked, prefix = ranked_members(problem)
    members = np.zeros(problem.people.size, dtype=bool)
    for order, radii in zip(ranked, prefix, strict=True):
        members[order[: np.searchsorted(radii, share * radii[-1], side="left")]] = True
    return members
