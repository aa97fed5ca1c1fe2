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

from oar.checks import with_near_names
from oar.errors import OptionError, Status
from oar.people.wording import counted
from oar.plans import Result
from oar.problem import Problem
from oar.progress import Progress, is_late, know
from oar.questions.least.bounds import bound_of
from oar.questions.least.trials import (
    Explained,
    ProblemTrials,
    codes_of,
    eligible,
    handing_in,
    has_closed_form,
    moves_of,
    no_idle_options,
    settled,
    with_members,
    with_most,
)
from oar.questions.least.usefulness import Usefulness, usefulness_of
from oar.recourse import collective
from oar.referee.proofs.balls import fewest_members
from oar.solvers.centroids.best_members import members_needed, ranked_members
from oar.solvers.centroids.exact import Reach, margin, reach_of, smallest_scale
from oar.solvers.registry import EffortLike, bounded, current_effort
from oar.typing import SignalLike, SolverLike

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MANY = 10_000  # people times features from which on plans take long
FAILING = 2  # how many may fail in a row where they take long; how many are made is a matter of effort
STEPS, NEAR = (1 / 16, 1 / 16, 1 / 8, 1 / 4, 1 / 2), 1 / 20  # shares of a coalition: how many fewer, and near enough
LEFT_OUT = 4  # single members whose leaving is planned for, each time that one could leave
MOST_LEAVING = 5  # times that one of them leaves


@dataclass(frozen=True, eq=False)
class CoalitionAnswer(Explained):
    """The minimal coalition: how few members suffice at the given budget, and who they are.

    Attributes:
        size: the least number of members, or where that is not `exact`, the least that was found; None if even all
            eligible ones do not suffice.
        by_class: how many of each class; empty where values are regressed.
        members: (n,) mask of such a coalition; a Series for a DataFrame.
        status: ACHIEVED (audited), ALREADY (no member is needed), IMPOSSIBLE (proved), or NOT_FOUND.
        explanation: the answer in words.
        result: the audited collective result of just these members; None if impossible. Where no coalition was found to
            suffice, that of all eligible members.
        at_least: how many members are proved to be needed; 0 where none is.
        exact: whether the size is proved to be the least.
    """

    size: int | None
    by_class: dict[Any, int]
    members: Any
    status: Status
    explanation: str
    result: Result | None
    at_least: int = 0
    exact: bool = False

    def __int__(self) -> int:
        """The size; raises if there is none."""
        if self.size is None:
            raise OptionError(f"no coalition suffices: {self.explanation}")
        return self.size


@with_near_names
def minimal_coalition(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> CoalitionAnswer:
    """Return the fewest of the eligible participants who reach the goal within their budgets.

    For nearest centroid on plain features they are proved to be the fewest. Otherwise they are found by repeated
    solving and auditing: `size` suffice, and `at_least` are needed.

    Args:
        problem: the problem to solve.
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        effort: as in `oar.collective`; plans that only have to tell whether the goal is within reach get less of it.
        time_limit: seconds after which the search begins nothing more, and what it has found so far is returned; None
            is no limit.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    problem = settled(problem)
    no_idle_options(problem, "the smallest coalition", solver=solver, signal=signal)
    with bounded("minimal coalition", progress, effort, time_limit) as on_step:
        if has_closed_form(problem):
            return exact_coalition(problem)
        return _searched(ProblemTrials(problem, solver, signal, on_step))


def fewest_in(result: Result) -> CoalitionAnswer:
    """Return the same answer, from a result of `oar.collective` with its defaults that is there already."""
    problem = result.problem
    if problem.best is not None:  # among those whom it chose
        problem = with_members(problem, np.asarray(moves_of(result).any(axis=1)))
    if has_closed_form(problem):
        return exact_coalition(problem)
    return _searched(ProblemTrials(problem), result)


def _searched(trying: ProblemTrials, known: Result | None = None) -> CoalitionAnswer:
    problem, people = trying.problem, trying.problem.people
    still, nobody = trying.still(), np.zeros(people.size, dtype=bool)
    if still.success:
        said = "No member needs to act: the query has the goal already."
        return CoalitionAnswer(0, _by_class(problem, nobody), people.column(nobody), still.status, said, still, 0, True)
    if not still.audit.converged:
        said = Status.NOT_CONVERGED.advice
        return CoalitionAnswer(None, {}, people.column(nobody), Status.NOT_FOUND, said, still)
    useful = usefulness_of(problem, trying.signal)
    budgets, rows = problem.allowance.everyones(people.size), eligible(problem)
    able = int(useful.crowd.of(rows).sum())
    all_of_them = with_members(problem, rows)
    everyone = trying.fully(all_of_them) if known is None else handing_in(known, all_of_them, known.plan.contribution())
    proof = bound_of(problem)
    if not everyone.success:
        proved = not able or everyone.impossible or proof.ruled_out(budgets, able)
        if proved:
            said = f"Impossible, and proved: not even all {able:,} eligible members reach the goal."
            return CoalitionAnswer(None, {}, people.column(nobody), Status.IMPOSSIBLE, said, None, exact=True)
        said = f"Not even all {able:,} eligible members were found to reach the goal, which proves nothing."
        said = f"{said} {trying.ended}".strip()
        return CoalitionAnswer(None, {}, people.column(nobody), Status.NOT_FOUND, said, everyone, at_least=1)
    search = CoalitionSearch(trying, useful, everyone)
    search.left_out()
    search.least = least = proof.least_members(budgets, search.size)
    search.tell()
    search.fewer(least)
    return _answer(problem, search, least, able)


def _answer(problem: Problem, search: CoalitionSearch, least: int, able: int) -> CoalitionAnswer:
    result, size = search.best, search.size
    members = search.useful.crowd.rows(search.members) & eligible(problem)
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
    """Return how many of these members (n,) each class has, everybody counted once, by the last label."""
    if problem.regresses:
        return {}
    classes = problem.people.classes
    counts = np.bincount(codes_of(problem)[members & problem.last_rows], minlength=len(classes))
    return {label: int(count) for label, count in zip(classes, counts, strict=True)}


@dataclass(eq=False)
class CoalitionSearch:
    """The search for ever smaller coalitions; `best` is the smallest whose plan succeeded, audited."""

    trying: ProblemTrials
    useful: Usefulness
    best: Result
    made: int = 0  # plans for fewer members
    failing: int = 0  # of them, in a row
    fully: bool = False  # whether plans are made with the effort of an answer
    least: int = 1  # how many are proved to be needed

    def tell(self) -> None:
        """Say what is known so far."""
        know(f"at most {counted(self.size, 'member', 'members')}, at least {self.least:,}")

    @property
    def ended(self) -> bool:
        """Whether no more plans are made."""
        problem = self.trying.problem
        long = problem.people.size * problem.people.dimensions > MANY or not problem.model.convex
        plans = current_effort().plans
        most = FAILING if long or problem.keep is not None or problem.levers.given or problem.over_rounds else plans
        return self.made >= plans or self.failing >= most or self.trying.spent

    @property
    def how(self) -> str:
        """The search in words."""
        ended = ", where the search was ended" if self.ended else ""
        ended = ", when the time was over" if is_late() else ended
        plans = f"by leaving out members and by {counted(self.made, 'plan', 'plans')} for fewer{ended}"
        return f"{plans}{self.trying.trained}"

    @property
    def members(self) -> Mask:
        """The smallest coalition so far (m,): who acts in the best plan."""
        return self.useful.acting(self.best.plan)

    @property
    def size(self) -> int:
        """The size of it."""
        return int(self.members.sum())

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
        if not self.fully and failed >= least and self.size > failed:
            # Trials may end in worse minima than plans do: the one that decides is made again, with more effort.
            self.fully, size = True, self.size
            if self.reaches(self.size - 1 if NEAR * size < 1 else failed):
                self.fewer(least)

    def reaches(self, number: int) -> bool:
        """Plan for at most so many members, in several choices of them; keep the first that succeeds."""
        return any(map(self._succeed, self._choices(number)))

    def left_out(self) -> None:
        """Leave out who does nothing, and then as many of the least useful as refits allow."""
        for fewer in self.useful.left_out(self.best.plan, lambda: bool(self.trying.ended)):
            members = self.useful.crowd.of(fewer.acts(self.useful.retraining.before))
            result = handing_in(self.best, self._with(members), fewer)
            if result.success:
                self.best = result
                return

    def one_by_one(self, least: int) -> None:
        """Leave out single members, the least useful first, as long as others' plans make up for it."""
        for _ in range(MOST_LEAVING):
            size = self.size
            if size <= max(least, 1):
                return
            members, order = self.members, self._order(self.best)
            for leaves in order[members[order]][::-1][:LEFT_OUT]:
                fewer = members.copy()
                fewer[leaves] = False
                if self._succeed(self._with(fewer)):
                    break
            if self.size == size:
                return

    def _with(self, members: Mask) -> Problem:
        return with_members(self.trying.problem, self.useful.crowd.rows(members))

    def _succeed(self, few: Problem) -> bool:
        """Plan for just some members, as long as plans are made, and keep a plan that succeeds with fewer."""
        if self.ended:
            return False
        self.made += 1
        self.failing += 1
        result = (self.trying.fully if self.fully else self.trying.solve)(few, self.best)
        acting = int(self.useful.acting(result.plan).sum())
        if not result.success or acting >= self.size:
            return False
        self.best, self.failing = result, 0
        self.left_out()
        self.tell()
        return True

    def _choices(self, number: int) -> Iterator[Problem]:
        """Yield problems of fewer changes, or of the most useful members after the best plan so far, and before any."""
        if not self.trying.problem.moves and self.trying.problem.levers.counted:
            yield with_most(self.trying.problem, number)
            return
        seen: list[Mask] = []
        order = self._order(self.best)
        for ranked in (order[self.members[order]], order, self.useful.order(None)):
            choice = np.zeros(self.useful.crowd.size, dtype=bool)
            choice[ranked[:number]] = True
            if choice.any() and not any((choice == one).all() for one in seen):
                seen.append(choice)
                yield self._with(choice)

    def _order(self, result: Result) -> NDArray[np.intp]:
        return self.useful.order(result.plan)


def exact_coalition(problem: Problem) -> CoalitionAnswer:
    """Return the fewest who reach the goal.

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
    result = collective(with_members(problem, members), solver="exact")
    by_class = {label: int(count) for label, count in zip(people.classes, counts[best], strict=True)}
    size = int(members.sum())
    listing = ", ".join(f"{count:,} of {label!r}" for label, count in by_class.items() if count)
    explanation = "No member needs to move: the query has the goal already."
    least = int(min(fewest_members(problem, result.evidence), size))
    if size:
        suffice = counted(size, "member suffices", "members suffice")
        explanation = f"{suffice} ({listing}), and it takes at least {least:,} (proved)."
    column = people.column(members)
    return CoalitionAnswer(size, by_class, column, result.status, explanation, result, least, least == size)


def _more_budget(reach: Reach) -> str:
    scale, _ = smallest_scale(reach)
    if scale == np.inf:
        return "No larger budget would help them either."
    if reach.scale > 0 and scale > reach.scale:
        return f"With more than {scale / reach.scale:.4g} times the budget all of them would suffice."
    return f"With a budget clearly above {scale:.6g} all of them would suffice."
