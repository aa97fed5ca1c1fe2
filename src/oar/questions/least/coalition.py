"""The smallest coalition: exact for nearest centroid; elsewhere the smallest that is found, with true refits.

First everyone eligible is planned for. Those who do not move in a plan, and as many of the least useful as a refit
allows while all others move as planned, are left out; they are a smaller coalition. Then fewer members are planned for:
a sixteenth fewer, twice, then an eighth, a quarter, half, as long as that does, and after the first that does not by
halving, down to a twentieth. These are the most useful ones, by the signal after the best plan so far, and by the
signal before any move. Of small coalitions single members are left out at the end, the least useful first. Only audited
plans count. Where plans take long (many numbers, several minima, limits on side effects) the search ends after two that
fail in a row; the answer says how many were made, and that it was ended.

`oar.minimal_coalition` and reports on a plan, which begin with it (`fewest_in`), search alike, and so find the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError, Status, with_near_names
from oar.people.wording import counted
from oar.plans import MemberPlan, Result
from oar.problem import Problem
from oar.progress import Progress, step_line
from oar.questions.answers import CoalitionAnswer
from oar.questions.least.bounds import bound_of
from oar.questions.least.centroids import exact_coalition
from oar.questions.least.trials import CountedSolves, has_closed_form, moves_of, no_idle_options, with_moves
from oar.solvers.outer.best_members import Ranking
from oar.solvers.settings import current_effort
from oar.typing import SignalLike, SolverLike

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MANY = 10_000  # people times features from which on plans take long
FAILING = 2  # how many may fail in a row where they take long; how many are made is a matter of effort
PASSES = 200_000  # over the data, in all of these plans: refits to moves of enormous budgets take thousands each
STEPS, NEAR = (1 / 16, 1 / 16, 1 / 8, 1 / 4, 1 / 2), 1 / 20  # shares of a coalition: how many fewer, and near enough
LEFT_OUT = 4  # single members whose leaving is planned for, each time that one could leave
MOST_LEAVING = 5  # times that one of them leaves


@with_near_names
def minimal_coalition(
    problem: Problem, *, solver: SolverLike = "auto", signal: SignalLike = "auto", progress: Progress = None
) -> CoalitionAnswer:
    """Return the fewest of the eligible participants who reach the goal within their budgets.

    For nearest centroid on plain features they are proved to be the fewest. Elsewhere they are found by solving and
    auditing again and again: `size` suffice, and `at_least` are needed.

    Args:
        problem: what is asked.
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    problem.only_moves("this question")
    no_best(problem, "the fewest members are looked for")
    no_idle_options(problem, "the smallest coalition", solver=solver, signal=signal)
    if has_closed_form(problem):
        return exact_coalition(problem)
    with step_line("minimal coalition", progress) as on_step:
        return _searched(CountedSolves(problem, solver, signal, on_step))


def fewest_in(result: Result) -> CoalitionAnswer:
    """Return the same answer, from a result of `oar.collective` with its defaults that is there already."""
    problem = result.problem
    if problem.best is not None:  # among those whom it chose
        problem = problem.with_action(participants=np.asarray(moves_of(result).any(axis=1)), seed=None)
    if has_closed_form(problem):
        return exact_coalition(problem)
    return _searched(CountedSolves(problem, "auto", "auto", None), result)


def no_best(problem: Problem, why: str) -> None:
    """Refuse participants who are still to be chosen."""
    if problem.best is not None:
        raise OptionError(
            f"participants: must say who may take part where {why}, got {problem.best!r}; pass what it chooses among."
        )


def _searched(trying: CountedSolves, known: Result | None = None) -> CoalitionAnswer:
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
    all_of_them = problem.with_action(participants=budgets > 0, seed=None)
    everyone = trying.solve(all_of_them) if known is None else with_moves(known, all_of_them, moves_of(known))
    proof = bound_of(problem)
    if not everyone.success:
        proved = not able or everyone.impossible or proof.ruled_out(budgets, able)
        if proved:
            said = f"Impossible, and proved: not even all {able:,} eligible members reach the goal."
            return CoalitionAnswer(None, {}, people.column(nobody), Status.IMPOSSIBLE, said, None, exact=True)
        said = f"Not even all {able:,} eligible members were found to reach the goal, which proves nothing."
        return CoalitionAnswer(None, {}, people.column(nobody), Status.NOT_FOUND, said, everyone, at_least=1)
    search = CoalitionSearch(trying, Ranking.of(problem, trying.signal, False), everyone)
    search.left_out()
    least = proof.least_members(budgets, search.size)
    search.fewer(least)
    return _answer(problem, search, least, able)


def _answer(problem: Problem, search: CoalitionSearch, least: int, able: int) -> CoalitionAnswer:
    result, size = search.best, search.size
    members = result.problem.allowance.mask
    assert members is not None
    by_class = _by_class(problem, members)
    listing = ", ".join(f"{count:,} labelled {label!r}" for label, count in by_class.items() if count)
    said = f"At most {size:,} of {able:,} eligible members: certain ones, found to suffice (audited)"
    said += f", {listing}; as many others need not." if listing else "; as many others need not."
    if least == size:
        said += f" It takes at least {least:,} (proved)."
    else:
        proved = f"it takes at least {least:,} (proved)" if least > 1 else "that more than one is needed is not proved"
        said += f" They are found {search.how}, not proved to be the fewest; {proved}."
    column = problem.people.column(members)
    return CoalitionAnswer(size, by_class, column, result.status, said, result, least, least == size)


def _by_class(problem: Problem, members: Mask) -> dict[Any, int]:
    if problem.regresses:
        return {}
    people = problem.people
    counts = np.bincount(people.codes(0, people.size)[members], minlength=len(people.classes))
    return {label: int(count) for label, count in zip(people.classes, counts, strict=True)}


@dataclass(eq=False)
class CoalitionSearch:
    """The search for ever smaller coalitions; `best` is the smallest whose plan succeeded, audited."""

    trying: CountedSolves
    ranking: Ranking
    best: Result
    made: int = 0  # plans for fewer members
    failing: int = 0  # of them, in a row
    passes: int = 0  # that they took

    @property
    def ended(self) -> bool:
        """Whether no more plans are made."""
        problem = self.trying.problem
        long = problem.people.size * problem.people.dimensions > MANY or not problem.model.convex
        plans = current_effort().plans
        most = FAILING if long or problem.keep is not None else plans
        return self.made >= plans or self.failing >= most or self.passes >= PASSES

    @property
    def how(self) -> str:
        """The search in words."""
        ended = ", where the search was ended" if self.ended else ""
        return f"by leaving out members and by {counted(self.made, 'plan', 'plans')} for fewer{ended}"

    @property
    def size(self) -> int:
        """The size of the smallest coalition so far."""
        mask = self.best.problem.allowance.mask
        return self.best.problem.people.size if mask is None else int(mask.sum())

    def fewer(self, least: int) -> None:
        """Make the coalition smaller and smaller, but not smaller than it can be."""
        failed, successes, none = least - 1, 0, True
        while self.size - failed > max(1, int(NEAR * self.size)) and not self.ended:
            part = int((1 - STEPS[min(successes, len(STEPS) - 1)]) * self.size)
            number = min(max(part, failed + 1), self.size - 1) if none else (failed + self.size) // 2
            if self.reaches(number):
                successes += 1
            else:
                failed, none = number, False
        if NEAR * self.size < 1:
            self.one_by_one(least)

    def reaches(self, number: int) -> bool:
        """Plan for at most so many members, in several choices of them; keep the first that succeeds."""
        for members in self._choices(number):
            result = self._planned(members)
            if result is not None and result.success:
                self._take(result)
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
            reached = answering.judged(answering.refit(fewer, near=outcome)).success
            low, high = (middle, high) if reached else (low, middle)
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
                if result is not None and result.success:
                    self._take(result)
                    break
            if self.size == size:
                return

    def _take(self, result: Result) -> None:
        self.best, self.failing = result, 0
        self.left_out()

    def _planned(self, members: Mask) -> Result | None:
        """Plan for just these members; None where no more plans may be made."""
        if self.ended:
            return None
        self.made += 1
        self.failing += 1
        few = self.trying.problem.with_action(participants=members, seed=None)
        result = self.trying.solve(few, self.best)
        self.passes += result.passes
        return result

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
