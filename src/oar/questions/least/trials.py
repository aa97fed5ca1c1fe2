"""Trials: the same problem asked again, with other budgets or fewer members, solved and audited.

Every question without a closed form asks here and nowhere else, and halves (`halve`) between what failed and what did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb, Relabel, Withhold
from oar.actions.choice import as_action, parts_of
from oar.checks import is_number
from oar.errors import DataError, OptionError
from oar.estimators.black_box import Calls
from oar.people.wording import counted
from oar.pictures.notebook import ShownAsText
from oar.plans import MemberPlan, Result
from oar.problem import Problem
from oar.progress import OnStep, is_late, silent, trying
from oar.recourse import audited, planned
from oar.referee import MEMBERS
from oar.referee.witnesses.refits import keeping_unmoved_refits, kept_refits
from oar.retraining.contribution import Contribution
from oar.solvers.registry import current_effort, default_effort, proposal_of
from oar.solvers.settings import EFFORTS, EffortLevel

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Value = TypeVar("Value", int, float)
DECISIVE = 4  # patience with random starts of plans that decide
PASSES = 60_000  # over the data, in all trials: models with many minima take thousands each
TRAININGS = 200  # of a black box, times the effort for refits: after so many no other plan is begun
OUT_OF_TRAININGS = "{:,} trainings of the black box were taken, after which no other plan is begun; allow more effort."
OUT_OF_TIME = "The time was over before the search was, and more of it may say more."


class Explained(ShownAsText):
    """An answer that is shown in words."""

    explanation: str

    def __str__(self) -> str:
        """The answer in words."""
        return self.explanation


class ProblemTrials:
    """The solver of the same problem with other budgets and members, which keeps count.

    A trial only has to tell whether the goal is within reach, so it is planned with less effort than an answer
    (`EffortLevel.trials`), and from moves that are known to be good elsewhere; `fully` makes the effort of an answer.
    """

    def __init__(self, problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep = silent) -> None:
        self.problem, self._settings, self._on_step, self.solves = problem, (solver, signal), on_step, 0
        self._kept = kept_refits()  # the audit's refit to people as they are, which is that of every trial
        self._calls = getattr(problem.model, "calls", Calls())
        self.passes = 0  # over the data, in all trials
        self._began, self._most = self._calls.copy(), round(TRAININGS * current_effort().refits)

    @property
    def signal(self) -> Any:
        """The signal, by which training is differentiated."""
        return self._settings[1]

    @property
    def ended(self) -> str:
        """A sentence where the time for the search is over, or all trainings of a black box are taken; or ""."""
        if self._calls.since(self._began).fits >= self._most:
            return OUT_OF_TRAININGS.format(self._most)
        return OUT_OF_TIME if is_late() else ""

    @property
    def trained(self) -> str:
        """What was asked of a black box, in words that go on a sentence, or ""."""
        fits = self._calls.since(self._began).fits
        return f", by {counted(fits, 'training', 'trainings')} of the black box in all" if fits else ""

    def solve(self, problem: Problem, *known: Result) -> Result:
        """Solve and audit a trial, from what is known to be good elsewhere, too."""
        return self._tried(problem, known, replace(EFFORTS[current_effort().trials], endless=False))

    def fully(self, problem: Problem, *known: Result) -> Result:
        """Solve and audit with the effort of an answer, and starts beyond the first that fails to pay."""
        effort = current_effort()
        return self._tried(problem, known, replace(effort, patience=max(effort.patience, DECISIVE)))

    def _tried(self, problem: Problem, known: Sequence[Result], effort: EffortLevel) -> Result:
        self.solves += 1
        plans = [one.plan for one in known]
        starts = [np.vstack([plan.each, plan.query_move]) for plan in plans if isinstance(plan, MemberPlan)]
        with trying(_in_words(problem)), keeping_unmoved_refits(self._kept), default_effort(effort):
            found = planned(problem, *self._settings, self._on_step, starts)
        self.passes += found.passes
        return found

    @property
    def spent(self) -> bool:
        """Whether trials have taken so long that no other is begun, whatever the clock says."""
        return self.passes >= PASSES or bool(self.ended)

    def still(self) -> Result:
        """Return the audited result if nobody moves."""
        nobody = with_members(self.problem, np.zeros(self.problem.people.size, dtype=bool))
        if self.problem.people.streamed:
            return self.solve(scaled(self.problem, 0.0))
        self.solves += 1
        return audited(proposal_of("nobody", nobody, np.zeros(self.problem.people.features.shape)), nobody, MEMBERS)


def _in_words(problem: Problem) -> str:
    """Return what a trial tries, for lines of progress: how far how many may go."""
    if not problem.moves:
        return ""
    able = int((problem.allowance.everyones(problem.people.size) > 0).sum())
    who = counted(problem.best.number if problem.best else able, "member", "members")
    return f"a {what_is_scaled(problem)} of {own_scale(problem):.4g} for {who}"


def halve(
    failed: Value, does: Value, tried: Callable[[Value], Value | None], near: Callable[[Value, Value], bool]
) -> tuple[Value, Value]:
    """Return the largest value that failed and the smallest that does, halving between them until they are `near`.

    `tried` returns how small a value a trial has shown to do, at most the one that is asked for; None where it fails.
    """
    while not near(failed, does):
        middle = type(does)((failed + does) / 2)
        shown = tried(middle)
        failed, does = (middle, does) if shown is None else (failed, shown)
    return failed, does


def next_to_each_other(failed: int, does: int) -> bool:
    """Report whether there is no whole number between two."""
    return does - failed <= 1


def after(most: int) -> Callable[[float, float], bool]:
    """Return what ends halving after so many times."""
    left = iter([False] * most)
    return lambda failed, does: next(left, True)


def has_closed_form(problem: Problem) -> bool:
    """Report whether the questions have exact answers: nearest centroid on plain features, with given participants."""
    simple = problem.plain and problem.query.probability is None and problem.keep is None
    plain = problem.model.plain_means and problem.within_balls and problem.best is None and not problem.levers.given
    return simple and plain and not problem.over_rounds


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


def with_members(problem: Problem, members: Mask) -> Problem:
    """Return the problem in which just these take part, in whatever they may do already."""
    levers = problem.levers
    if not levers.given:
        return problem.with_action(participants=members & eligible(problem), seed=None)
    able = {
        Perturb: problem.allowance.acting(problem.people.size),
        Relabel: levers.relabel.mask,
        Withhold: levers.withhold.mask,
    }
    parts = [replace(part, participants=members & able[type(part)], seed=None) for part in _counted(problem)]
    return replace(problem, action=as_action(parts))


def settled(problem: Problem) -> Problem:
    """Return the problem in which all take part whom `oar.Best` would choose among."""
    return problem if problem.best is None else with_members(problem, eligible(problem))


def with_most(problem: Problem, number: int) -> Problem:
    """Return the problem in which at most so many labels are flipped, and at most so many leave."""
    parts = [
        part if getattr(part, "most", None) is None else replace(part, most=min(part.most, number))
        for part in _counted(problem)
    ]
    return replace(problem, action=as_action(parts))


def _counted(problem: Problem) -> list[Any]:
    """Return a problem's actions, with numbers of people in the place of shares of them."""
    limits: dict[type, Any] = {Relabel: problem.levers.relabel, Withhold: problem.levers.withhold}
    return [
        part if getattr(part, "share", None) is None else replace(part, most=limits[type(part)].most, share=None)
        for part in parts_of(problem.action)
    ]


def eligible(problem: Problem) -> Mask:
    """Return whose data could be other than they are (n,): who may move, be relabelled or leave."""
    people, relabel, withhold = problem.people, problem.levers.relabel, problem.levers.withhold
    able = problem.allowance.everyones(people.size) > 0
    if not problem.levers.given:
        return able
    changes = relabel.mask & bool(relabel.most or relabel.soft) | withhold.mask & bool(withhold.most)
    return np.asarray(able | changes & (people.row_weights > 0))


def codes_of(problem: Problem) -> NDArray[np.int32]:
    """Return everyone's class (n,); 0 where values are regressed."""
    if problem.regresses:
        return np.zeros(problem.people.size, dtype=np.int32)
    return np.concatenate([chunk.codes for chunk in problem.people.chunks()])


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
    return allowance.acting(size).astype(np.float64)


def lengths_of(problem: Problem, moves: Array) -> Array:
    """Return how much of a budget everyone's move (n, d) takes; on a table, in cost."""
    if problem.limits is not None:
        measured = problem.measured(False)
        moves = moves[:, measured.columns] * measured.costs
    return problem.allowance.norm.length(moves)


def with_moves(result: Result, problem: Problem, moves: Array) -> Result:
    """Return a result's plan with other moves of its members, audited against the problem's limits."""
    return handing_in(result, problem, result.plan.contribution().with_moves(moves))


def handing_in(result: Result, problem: Problem, given: Contribution) -> Result:
    """Return a result's plan with something else handed in, audited against the problem's limits.

    What the solver claimed of its own plan does not hold for it.
    """
    plan = result.plan.handing_in(problem, given)
    found = audited(replace(result.proposal, plan=plan, gap=np.inf, exact=False, ended=""))
    return replace(found, proposal=replace(found.proposal, claimed_loss=found.loss))


def moves_of(result: Result) -> Array:
    """Return everyone's move (n, d) as an array."""
    return np.asarray(result.plan.moves(), dtype=np.float64)


def what_is_scaled(problem: Problem) -> str:
    """Return what a scale is called."""
    return "budget" if problem.allowance.single else "factor on the budgets"
