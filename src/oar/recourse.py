"""The front door's three verbs: alone, together, both. Each solves, then audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.errors import EstimatorError
from oar.estimators import BlackBox
from oar.plans import Proposal, Result
from oar.problem import Problem
from oar.progress import OnStep, Progress
from oar.referee import BOTH, MEMBERS, QUERY, judged
from oar.solvers import propose_collective, propose_individual, propose_joint
from oar.solvers.registry import EffortLike, bounded
from oar.typing import SignalLike, SolverLike


@with_near_names
def individual(
    problem: Problem, *, solver: SolverLike = "auto", effort: EffortLike = None, time_limit: float | None = None
) -> Result:
    """Return the query's own best move against the fixed model (equation 2 of the paper).

    Of several queries, and of members who ask, it is each one's own, (q, d) in `plan.query_move`; over rounds it is
    against the models of the rounds that the goal is for, had nobody acted. Where members do not move but are
    relabelled or leave, the query does not move either, unless `query.budget` says how far.

    Args:
        problem: the problem; the query's budget is `query.budget`, or else the members' common one.
        solver: "auto" or "projected-gradient" (from many starts), "paper", for nearest centroid "widest-lead", or
            settings from `oar.solvers`.
        effort: as in `collective`; here the number of random starts and steps, and the tolerance.
        time_limit: as in `collective`.
    """
    with bounded("individual", False, effort, time_limit):
        proposal = propose_individual(problem, solver)
    return audited(proposal, proposal.plan.problem, QUERY)


@with_near_names
def collective(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Result:
    """Return the members' best moves for the refitted model (equation 3 of the paper).

    For an `oar.OnlineProblem` these are everyone's moves in every round, within each round's budgets or shared ones,
    and the result is an `oar.online.OnlineResult`, replayed round by round. Its solver is "exact" (nearest centroid, a
    goal for the last round), "projected-gradient", "frank-wolfe" or "one-shot", and the rule defines its own
    derivative, so no signal is chosen.

    Args:
        problem: the problem to solve.
        solver: "auto"; for nearest centroid "exact" (the global optimum), "projected-gradient" or "paper"; for other
            models "projected-gradient", "frank-wolfe" or "one-shot"; for an `oar.BlackBox` "surrogate" or
            "direct-search"; or settings from `oar.solvers`.
        signal: how training is differentiated, for models other than nearest centroid: "auto", a name or settings
            from `oar.signals`.
        effort: the amount of search where settings do not set it: "quick" (no random starts, half the steps, a gap ten
            times as wide, a third of a black box's trainings), "normal", or "thorough" (four times the random starts
            and trainings, twice the steps, a tenth of the gap, and never worse than normal where models are refitted in
            a loop). None is "normal", or the effort of `oar.solvers.default_effort`. Settings in `solver` take
            precedence, and exact and one-step solvers give the same plan with any effort.
        time_limit: seconds after which the search begins nothing more and the best plan so far is audited, whose status
            says so; until then no number of steps ends it. What is begun goes on, a refit for instance, and the audit
            takes its own time. None is no limit.
        progress: whether to show steps on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    with bounded("collective", progress, effort, time_limit) as on_step:
        return planned(problem, solver, signal, on_step)


def planned(
    problem: Problem, solver: Any, signal: Any, on_step: OnStep, starts: Sequence[NDArray[np.float64]] = ()
) -> Result:
    """Return `collective`'s result for whoever shows progress itself, and perhaps knows more moves to start from."""
    return audited(propose_collective(problem, solver, signal, on_step, starts), problem, MEMBERS)


@with_near_names
def joint(
    problem: Problem,
    *,
    solver: SolverLike = "auto",
    signal: SignalLike = "auto",
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Result:
    """Return moves of members and query together; each may use its whole budget.

    Several queries each make their own move. With these, over rounds, and where members are relabelled or leave, plans
    and own moves are made by turns. Members who ask move with their data alone, as in `oar.collective`.

    Args:
        problem: the problem to solve.
        solver: "auto"; for nearest centroid "projected-gradient" (from many starts), "paper", or "widest-lead" (the
            goal as far ahead as it comes, whatever the loss); for other models as in `collective`.
        signal: as in `collective`.
        effort: as in `collective`.
        time_limit: as in `collective`.
        progress: as in `collective`.
    """
    with bounded("joint", progress, effort, time_limit) as on_step:
        proposal = propose_joint(problem, solver, signal, on_step)
    return audited(proposal, problem, BOTH)


def audited(proposal: Proposal, problem: Problem | None = None, who: str | None = None) -> Result:
    """Return a proposal with what a fresh refit says of it, and what is proved of all that this problem allows.

    Nothing is proved where it is not said who may move: see `oar.referee.judged`.
    """
    model = proposal.plan.problem.model
    if not isinstance(model, BlackBox):
        return judged(proposal, problem, who)
    before = model.calls.copy()
    try:
        found = judged(proposal, problem, who)
    except EstimatorError as failed:
        raise EstimatorError(
            f"{failed} A plan had been made, and is kept as `plan` of this error: oar.audit(error.plan) judges it.",
            proposal.plan,
        ) from failed
    return replace(found, audit_calls=model.calls.since(before))
