"""The three questions for nearest centroid on plain features, exactly.

Each answer is the root of a monotone function of the classes' radii (`solvers.reach`), so nothing is searched by trial.
Each carries an audited result that shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import LARGEST_BUDGET
from oar.errors import Status
from oar.plans import Result
from oar.plans.judgement import MET
from oar.problem import Problem
from oar.questions.answers import BudgetAnswer, CoalitionAnswer, ShareAnswer
from oar.questions.least.trials import scaled, unit_budgets
from oar.recourse import collective, individual
from oar.referee.proofs import fewest_members, never, within_radii
from oar.referee.proofs.rounding import UNIT
from oar.solvers.centroids.best_members import members_needed, ranked_members
from oar.solvers.centroids.exact import why_never
from oar.solvers.centroids.reach import Reach, margin, reach_of, smallest_scale

Array = NDArray[np.float64]
LESS = (*10.0 ** np.arange(-12, -1), *np.arange(0.02, 1.0, 0.02))  # shares of a scale that are left out
SHARP = 1e-6  # share of a number within which it is proved to be the least


def exact_budget(problem: Problem) -> BudgetAnswer:
    """Return the smallest budget with which the participants reach the goal (the problem's own is ignored).

    For p = 2 and everyone taking part this is max(0, (d_g − min_{c≠g} d_c)/2).
    """
    reach = reach_of(problem)
    value, blocker = smallest_scale(reach)
    classes, what = problem.people.classes, "budget" if problem.allowance.single else "factor on the budgets"
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
    # Radii are in step with the scale.
    unit = within_unit(problem)
    for less in LESS:
        least = value * (1 - less)
        if within_radii(problem, still, unit * least).impossible:
            return float(least)
    return 0.0


def within_unit(problem: Problem) -> Array:
    """Return how far members move each centroid (k,) at a scale of 1."""
    people = problem.people
    totals = people.class_sums(None)
    sums = people.class_sums(unit_budgets(problem)) / np.where(totals > 0, totals, 1.0)
    return np.asarray(sums * (1 + (people.size + 8) * UNIT))


def _just_above(reach: Reach, value: float) -> float:
    """Return a scale a millionth above the value, or as little more as it takes to be clear of a tie."""
    step = max(1e-6 * value, float(reach.ties.max()))
    if step == 0:
        return 1.0  # everything lies in one point, the origin: any budget does
    while reach.lead(reach.unit * (value + step)) <= 0 and value + 2 * step < LARGEST_BUDGET:
        step *= 2
    return value + step


def exact_coalition(problem: Problem) -> CoalitionAnswer:
    """Return the fewest of the eligible participants who reach the goal within their budgets.

    A class's radius is the sum of its members' contributions w_i ε_i / W_c, so for any number of members from
    a class the best are those who contribute most. With t members of the goal's class its distance is known; each
    other class then needs the first m_c members that put it farther away than that. Scan all t.
    """
    people = problem.people
    reach = reach_of(problem)
    ranked, prefix = ranked_members(problem)
    needed, distances = members_needed(reach, prefix)
    totals = needed.sum(axis=1)
    members = np.zeros(people.size, dtype=bool)
    if totals.min() == np.inf:
        short = max(0.0, -float(reach.lead(reach.radii)))
        everyone = collective(problem, solver="exact")
        proved = everyone.impossible
        explanation = (
            f"{'Impossible' if proved else 'Not found'}: even with all {sum(map(len, ranked)):,} eligible members "
            f"another class is as near or nearer, by {short:.3g}. {_more_budget(reach)}"
        )
        status, shown = (Status.IMPOSSIBLE, None) if proved else (Status.NOT_FOUND, everyone)
        return CoalitionAnswer(None, {}, people.column(members), status, explanation, shown, exact=proved)
    # Of all smallest coalitions take the one with the widest margin.
    smallest = np.flatnonzero(totals == totals.min())
    counts = needed[smallest].astype(np.intp)
    reached = np.stack([values[counts[:, code]] for code, values in enumerate(distances)], axis=1)
    best = int(margin(reached, reach.goal).argmax())
    for code, count in enumerate(counts[best]):
        members[ranked[code][:count]] = True
    result = collective(problem.with_action(participants=members, seed=None), solver="exact")
    by_class = {label: int(count) for label, count in zip(people.classes, counts[best], strict=True)}
    size = int(members.sum())
    listing = ", ".join(f"{count:,} of {label!r}" for label, count in by_class.items() if count)
    explanation = "No member needs to move: the query has the goal already."
    least = int(min(fewest_members(problem, result.evidence), size))
    if size:
        explanation = f"{size:,} members suffice ({listing}), and it takes at least {least:,} (proved)."
    column = people.column(members)
    return CoalitionAnswer(size, by_class, column, result.status, explanation, result, least, least == size)


def _more_budget(reach: Reach) -> str:
    scale, _ = smallest_scale(reach)
    if scale == np.inf:
        return "No larger budget would help them either."
    if reach.scale > 0 and scale > reach.scale:
        return f"With more than {scale / reach.scale:.4g} times the budget all of them would suffice."
    return f"With a budget clearly above {scale:.6g} all of them would suffice."


def exact_break_even(problem: Problem, solver: Any) -> ShareAnswer:
    """Return the share of participants at which the collective overtakes the individual at the same budget.

    With a share s of every class's eligible members all radii are s times those of all of them, and the collective's
    exact loss falls in s. The individual's problem is not convex: its best found loss gives the share, its
    proved bound gives the most that the share can be.
    """
    alone = individual(problem, solver=solver)
    reach = reach_of(problem)
    share = _share_at_loss(reach, alone.loss)
    at_most = share if alone.exact else _share_at_loss(reach, alone.bound)
    scale, _ = smallest_scale(reach)
    goal_share = scale / reach.scale if reach.scale > 0 and scale < reach.scale else None
    if share is None:
        everyone = collective(problem, solver="exact")
        proved = everyone.bound >= alone.loss
        explanation = (
            f"{'Impossible' if proved else 'Not found'}: with all eligible members the collective's best loss is "
            f"{everyone.loss:.6g}, not below the individual's {alone.loss:.6g}. Let more members take part, or give "
            "them larger budgets."
        )
        status, shown = (Status.IMPOSSIBLE, None) if proved else (Status.NOT_FOUND, everyone)
        return ShareAnswer(None, at_most, goal_share, status, explanation, alone, shown, exact=proved)
    result = collective(problem.with_action(participants=_first_members(problem, share), seed=None), solver="exact")
    if result.loss > alone.loss * (1 + 1e-9):
        refusal = "The audit does not confirm the share. Please report this as a bug."
        return ShareAnswer(share, at_most, goal_share, Status.REFUSED, refusal, alone, result)
    level = "falls below" if result.loss < alone.loss * (1 - 1e-9) else "is as low as"
    explanation = (
        f"The collective's loss {level} the individual's once {share:.1%} of each class take part"
        f"{_how_sure(alone, at_most)}; {_when_reached(goal_share)}."
    )
    return ShareAnswer(share, at_most, goal_share, Status.ACHIEVED, explanation, alone, result, exact=alone.exact)


def _how_sure(alone: Result, at_most: float | None) -> str:
    """Say how far the share rests on an individual optimum that is found, not proved."""
    if alone.exact:
        return ""
    if at_most is None or at_most == 1.0:
        return " (against the best individual move found)"
    return f" (against the best individual move found; {at_most:.1%} are enough whatever the individual does)"


def _when_reached(goal_share: float | None) -> str:
    if goal_share is None:
        return "the goal itself is not reached even if all of them do"
    return f"the goal itself is reached above {goal_share:.1%}"


def _share_at_loss(reach: Reach, loss: float) -> float | None:
    """Return the share at which the collective's loss has fallen to `loss`; None if it never does."""
    from scipy.optimize import brentq

    def excess(share: float) -> float:
        return float(reach.loss(share * reach.radii)) - loss

    at_all = excess(1.0)
    if excess(0.0) <= 0:
        return 0.0 if at_all < 0 else None  # there is something to overtake only if moving helps at all
    if at_all > MET * loss:
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
