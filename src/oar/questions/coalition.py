"""How few of us are enough? Exact for nearest centroid; elsewhere the fewest that are found, with true refits.

First everyone eligible is planned for. Those who do not move in a plan, and as many of the least useful as a refit
allows while all others move as planned, are left out; they are a smaller coalition. Then fewer members are planned for,
by halving between the most that failed and the fewest that did: the most useful ones, by the signal after the best plan
so far, and by the signal before any move. At the end single members are left out, the least useful first. Only audited
plans count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError, Status
from oar.plans import MemberPlan, Result
from oar.problem import Problem
from oar.progress import step_line
from oar.questions.answers import CoalitionAnswer
from oar.questions.bounds import bound_of
from oar.questions.centroids import exact_coalition
from oar.questions.trying import Trying, has_closed_form, moves_of, no_idle_options, with_moves
from oar.solvers.best import Ranking

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEFT_OUT = 4  # single members whose leaving is planned for, each time that one could leave
MOST_LEAVING = 5  # times that one of them leaves


def minimal_coalition(
    problem: Problem, *, solver: Any = "auto", signal: Any = "auto", progress: bool | None = None
) -> CoalitionAnswer:
    """Return the fewest of the eligible participants who reach the goal within their budgets.

    For nearest centroid on plain features they are proved to be the fewest. Elsewhere they are found by solving and
    auditing again and again: `size` suffice, and `at_least` are needed.

    Args:
        problem: what is asked.
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        progress: whether to show steps on stderr; None means "on a terminal".
    """
    problem.only_moves("this question")
    no_best(problem, "the fewest members are looked for")
    no_idle_options(problem, "the smallest coalition", solver=solver, signal=signal)
    if has_closed_form(problem):
        return exact_coalition(problem)
    with step_line("minimal coalition", progress) as on_step:
        return _searched(Trying(problem, solver, signal, on_step))


def no_best(problem: Problem, why: str) -> None:
    """Refuse participants who are still to be chosen."""
    if problem.best is not None:
        raise OptionError(
            f"participants: must say who may take part where {why}, got {problem.best!r}; pass what it chooses among."
        )


def _searched(trying: Trying) -> CoalitionAnswer:
    problem, people = trying.problem, trying.problem.people
    still, nobody = trying.still(), np.zeros(people.size, dtype=bool)
    if still.success:
        said = "No member needs to move: the query has the goal already."
        return CoalitionAnswer(0, _by_class(problem, nobody), people.column(nobody), still.status, said, still, 0, True)
    if not still.audit.converged:
        said = Status.NOT_CONVERGED.advice
        return CoalitionAnswer(None, {}, people.column(nobody), Status.NOT_FOUND, said, still)
    budgets = problem.allowance.everyones(people.size)
    able = int((budgets > 0).sum())
    everyone = trying.solve(problem.with_action(participants=budgets > 0, seed=None))
    proof = bound_of(problem)
    if not everyone.success:
        proved = not able or everyone.proposal.impossible or (proof is not None and proof.ruled_out(budgets, able))
        if proved:
            said = f"Impossible, and proved: not even all {able:,} eligible members reach the goal."
            return CoalitionAnswer(None, {}, people.column(nobody), Status.IMPOSSIBLE, said, None, exact=True)
        said = f"Not even all {able:,} eligible members were found to reach the goal, which proves nothing."
        return CoalitionAnswer(None, {}, people.column(nobody), Status.NOT_FOUND, said, everyone, at_least=1)
    search = Fewer(trying, Ranking.of(problem, trying.signal, False), everyone)
    search.left_out()
    least = 1 if proof is None else proof.least_members(budgets, search.size)
    failed = least - 1
    while search.size - failed > 1:
        middle = (failed + search.size) // 2
        if not search.reaches(middle):
            failed = middle
    search.one_by_one(least)
    return _answer(problem, search.best, search.size, least, able)


def _answer(problem: Problem, result: Result, size: int, least: int, able: int) -> CoalitionAnswer:
    members = result.problem.allowance.mask
    assert members is not None
    by_class = _by_class(problem, members)
    listing = ", ".join(f"{count:,} of {label!r}" for label, count in by_class.items() if count)
    said = f"At most {size:,} of {able:,} eligible members are needed: these suffice (audited)"
    said += f", {listing}." if listing else "."
    if least == size:
        said += " No fewer do (proved)."
    else:
        proved = f"it takes at least {least:,} (proved)" if least > 1 else "that more than one is needed is not proved"
        said += f" They are found, not proved to be the fewest; {proved}."
    column = problem.people.column(members)
    return CoalitionAnswer(size, by_class, column, result.status, said, result, least, least == size)


def _by_class(problem: Problem, members: Mask) -> dict[Any, int]:
    if problem.regresses:
        return {}
    people = problem.people
    counts = np.bincount(people.codes(0, people.size)[members], minlength=len(people.classes))
    return {label: int(count) for label, count in zip(people.classes, counts, strict=True)}


@dataclass(eq=False)
class Fewer:
    """The search for ever smaller coalitions; `best` is the smallest whose plan succeeded, audited."""

    trying: Trying
    ranking: Ranking
    best: Result

    @property
    def size(self) -> int:
        """How many are in the smallest coalition so far."""
        mask = self.best.problem.allowance.mask
        return self.best.problem.people.size if mask is None else int(mask.sum())

    def reaches(self, number: int) -> bool:
        """Plan for at most so many members, in several choices of them; keep the first that succeeds."""
        for members in self._choices(number):
            result = self._planned(members)
            if result.success:
                self.best = result
                self.left_out()
                return True
        return False

    def left_out(self) -> None:
        """Leave out who does not move, and then as many of the least useful as refits allow."""
        answering, moves = self.ranking.answering, moves_of(self.best)
        each, moving = answering.in_cost(moves), np.asarray(moves.any(axis=1))
        outcome = answering.refit(each)
        try:
            here, there = answering.slopes(outcome, None), answering.slopes(outcome, each)
        except NumericsError:
            here = there = each
        gains = answering.weights * np.einsum("nd,nd->n", 0.5 * (here + there), each)
        order = np.flatnonzero(moving)[np.argsort(gains[moving], kind="stable")]
        low, high = 0, len(order)  # of the least useful movers: so many may leave, and so many may not
        while high - low > 1:
            middle = (low + high) // 2
            fewer = each.copy()
            fewer[order[:middle]] = 0.0
            low, high = (middle, high) if answering.reaches(answering.refit(fewer, near=outcome)) else (low, middle)
        for leaving in dict.fromkeys((low, 0)):
            members = moving.copy()
            members[order[:leaving]] = False
            few = self.trying.problem.with_action(participants=members, seed=None)
            result = with_moves(self.best, few, np.where(members[:, None], moves, 0.0))
            if result.success and int(members.sum()) < self.size:
                self.best = result
                return

    def one_by_one(self, least: int) -> None:
        """Leave out single members, the least useful first, as long as others' plans make up for it."""
        for _ in range(MOST_LEAVING):
            size = self.size
            if size <= max(least, 1):
                return
            members = self.best.problem.allowance.mask
            assert members is not None
            order = self._order(self.best)
            for leaves in order[members[order]][::-1][:LEFT_OUT]:
                fewer = members.copy()
                fewer[leaves] = False
                result = self._planned(fewer)
                if result.success:
                    self.best = result
                    self.left_out()
                    break
            if self.size == size:
                return

    def _planned(self, members: Mask) -> Result:
        few = self.trying.problem.with_action(participants=members, seed=None)
        return self.trying.solve(few, self.best)

    def _choices(self, number: int) -> Iterator[Mask]:
        """Yield the most useful members after the best plan so far, and before any; each choice once."""
        seen: list[Mask] = []
        members = self.best.problem.allowance.mask
        order = self._order(self.best)
        inside = order if members is None else order[members[order]]
        for ranked in (inside, order, self.ranking.order(None)):
            choice = np.zeros(self.ranking.able.size, dtype=bool)
            choice[ranked[:number]] = True
            if not any((choice == one).all() for one in seen):
                seen.append(choice)
                yield choice

    def _order(self, result: Result) -> NDArray[np.intp]:
        assert isinstance(result.plan, MemberPlan)
        return self.ranking.order(result.plan)
