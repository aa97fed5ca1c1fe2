"""The m most useful members: who is to move, and how.

For nearest centroid on plain features the choice is exact (`best_members`). For other models members are ranked by
what their full move gains, to first order, at a true refit; the first m are planned for; they are ranked anew by the
signal after their moves, and so on, as long as the choice is a new one. The same goes from where everyone would have
moved. With few people single members are then exchanged: one stays, another answers the signal, and a refit says
whether that helps. The best of all choices by its plan's refit counts, so it is never worse than the first ranking.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.solvers.centroids.best_members import best_members
from oar.solvers.centroids.exact import reach_of
from oar.solvers.descent.one_response import OneResponse
from oar.solvers.registry import IN_MEMORY, Task, Wrapper, default_effort

Mask = NDArray[np.bool_]
Propose = Callable[[Mask], Proposal]
ROUNDS = 4  # plans for choices that follow from the last one,
FEW_ROUNDS = 2  # and where every refit trains a network from scratch
SWAPPED = 8  # members of the least use, and others of the most, who are exchanged with each other
FEW = 2_000  # members' moves, as numbers, up to which refits are so quick that exchanges are tried


def _of_centroids(problem: Problem, number: int, propose: Propose, query: bool) -> Proposal:
    reach = reach_of(problem, query=query)
    members, proved = best_members(problem, reach, number)
    found = propose(members)
    if not query:
        return _honest(found, problem, number, proved=proved and found.exact)
    tried = [members]
    for _ in range(ROUNDS):  # the best members where the query now is
        members = best_members(problem, replace(reach, offsets=reach.offsets - found.plan.query_move), number)[0]
        if _known(members, tried):
            break
        tried.append(members)
        found = min(found, propose(members), key=_loss)
    return _honest(found, problem, number)


class Ranking:
    """A ranking of members by their first-order gains at true refits, and who can be chosen."""

    def __init__(self, problem: Problem, signal: Any, query: bool) -> None:
        """Bind a problem; those can be chosen whose budget and weight are above 0."""
        self.answering = OneResponse.of(problem, signal, query)
        self.able: Mask = (self.answering.budgets > 0) & (self.answering.weights > 0)

    def order(self, plan: Any) -> NDArray[np.intp]:
        """Return those who can be chosen, the most useful first, by the signal after a plan (None: before any)."""
        return self.after(*(None, None) if plan is None else (plan.each, plan.query_move))

    def after(self, moves: Any, query_move: Any = None) -> NDArray[np.intp]:
        """Return the same after moves (n, d) of features (None: before any)."""
        each = None if moves is None else self.answering.in_cost(moves)
        try:
            outcome = self.answering.refit(each, query_move)
            gains = self.answering.gains(outcome)
        except NumericsError:  # without a signal there is only what everyone could do
            gains = self.answering.weights * self.answering.budgets
        gains = np.where(self.able, gains, -np.inf)
        return np.argsort(-gains, kind="stable")[: int(self.able.sum())]

    def first(self, number: int, plan: Any) -> Mask:
        """Return the most useful members after a plan."""
        members = np.zeros(self.able.size, dtype=bool)
        members[self.order(plan)[:number]] = True
        return members

    def swapped(self, members: Mask, plan: Any) -> Mask:
        """Return the choice with that one member exchanged which a refit likes best; the choice where it likes none.

        Who stays does not move any more, and who comes in answers the signal; all others move as planned.
        """
        answering, order = self.answering, self.order(plan)
        each = answering.in_cost(plan.each)
        now = answering.refit(each, plan.query_move)
        answers = answering.respond(answering.slopes(now, None), answering.budgets)
        leaving = order[members[order]][::-1][:SWAPPED]
        coming = order[~members[order]][:SWAPPED]
        other, least = members, now.loss
        for leaves in leaving:
            for comes in coming:
                moves = each.copy()
                moves[leaves], moves[comes] = 0.0, answers[comes]
                loss = answering.refit(moves, plan.query_move, now).loss
                if loss < least:
                    other, least = members.copy(), loss
                    other[leaves], other[comes] = False, True
        return other


def _found(problem: Problem, number: int, propose: Propose, signal: Any, query: bool) -> Proposal:
    ranking = Ranking(problem, signal, query)
    if number >= int(ranking.able.sum()):
        return _honest(propose(ranking.able), problem, number)
    members, convex = ranking.first(number, None), problem.model.convex
    best = propose(members)
    tried = [members]
    for again in (False, True) if convex else (False,):  # from the first choice, then from where everyone has moved
        latest = propose(ranking.able) if again else best
        for _ in range(ROUNDS if convex else FEW_ROUNDS):
            members = ranking.first(number, latest.plan)
            if _known(members, tried):
                break
            tried.append(members)
            latest = propose(members)
            if _loss(latest) < _loss(best):
                best = latest
    if convex and problem.people.size * problem.people.dimensions <= FEW:
        best = _exchanged(problem, propose, ranking, best, tried)
    return _honest(best, problem, number)


def _exchanged(problem: Problem, propose: Propose, ranking: Ranking, best: Proposal, tried: list[Mask]) -> Proposal:
    """Exchange single members as long as a plan for the new choice has a lower loss."""
    for _ in range(ROUNDS):
        members = best.plan.problem.allowance.acting(problem.people.size)
        with suppress(NumericsError):
            swapped = ranking.swapped(members, best.plan)
            if not _known(swapped, tried):
                tried.append(swapped)
                other = propose(swapped)
                if _loss(other) < _loss(best):
                    best = other
                    continue
        break
    return best


def _known(members: Mask, tried: list[Mask]) -> bool:
    return any((members == one).all() for one in tried)


def _loss(proposal: Proposal) -> float:
    return proposal.claimed_loss if np.isfinite(proposal.claimed_loss) else np.inf


def _honest(found: Proposal, problem: Problem, number: int, proved: bool = False) -> Proposal:
    """Say what the choice is worth, and claim nothing about other choices that was not proved."""
    eligible = int((problem.allowance.everyones(problem.people.size) > 0).sum())
    said = f"Chosen were {number:,} of {eligible:,} eligible members"
    return replace(found, exact=proved, chosen=said)


class BestMembers(Wrapper):
    """The most useful members: choices of them are planned for, by whichever solver was named."""

    name, verbs = "best members", ("collective", "joint")
    requires, serves = frozenset({"best"}), IN_MEMORY

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Choose members, and ask for a plan of each choice.

        The plan's problem has them as its participants, so the audit sees to it that nobody else moves.
        """
        problem, number = task.problem, task.problem.best.number
        simple = problem.within_balls and problem.keep is None and problem.plain

        def plan(members: Mask) -> Proposal:
            return task.ask(problem=problem.with_action(participants=members, seed=None))

        if simple and problem.model.plain_means:
            return _of_centroids(problem, number, plan, task.query)
        with default_effort(task.effort.trials):  # choices are compared by trials, and the best is planned for anew
            tried = _found(problem, number, plan, task.signal, task.query)
        chosen = tried.plan
        ends = [np.vstack([chosen.each, chosen.query_move])] if isinstance(chosen, MemberPlan) else []
        found = task.ask(problem=chosen.problem, starts=ends)
        return replace(min(tried, found, key=_loss), exact=False, chosen=tried.chosen)
