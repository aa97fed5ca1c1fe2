"""The audit of a plan over time: every limit measured again, and all rounds replayed without and with the moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.online import OnlineProblem
from oar.online.stream import HISTORY, Stream
from oar.plans.explain.independence import Independence
from oar.plans.rounds.plan import OnlinePlan
from oar.plans.rounds.result import OnlineAudit, RoundOutcome
from oar.referee.limits.moves import LIMIT_SLACK, MoveCheck, Offences
from oar.referee.rounds.replay import replay
from oar.referee.verdicts import AuditSummary

Array = NDArray[np.float64]


def audit_online(plan: OnlinePlan) -> OnlineAudit:
    """Replay all rounds before and after the plan's moves, and report what the query gets after each."""
    if not isinstance(plan.problem, OnlineProblem):
        raise DataError(f"plan: must be for an oar.OnlineProblem, got one for {plan.problem!r}.")
    problem, stream = plan.problem, plan.problem.stream
    everyone = problem.everyone
    limits = MoveCheck(everyone, lambda row: _called(stream, row))
    moves = np.vstack([limits.check(chunk, plan.each[chunk.start : chunk.stop]) for chunk in everyone.people.chunks()])
    violations = (*limits.violations, *_shared(problem, moves), *_history(problem, moves))
    asked = everyone.asked
    points = asked.points if asked.members is None else asked.points + moves[asked.members]
    before = list(replay(problem, np.zeros_like(moves), asked.points))
    after = list(replay(problem, moves, points))
    lengths = np.linalg.norm(moves, ord=everyone.allowance.norm.p, axis=1)
    told = []
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        rows = stream.rows(number)
        told.append(
            RoundOutcome(
                number=number,
                movers=int(np.count_nonzero(lengths[rows])),
                effort=float(lengths[rows].sum()),
                **AuditSummary(everyone, old.verdicts(asked.points), new.verdicts(points)).reported(not violations),
            )
        )
    replays = [*before, *after]
    return OnlineAudit(
        rounds=tuple(told),
        goal_for=problem.goal_for,
        violations=violations,
        witness=" and ".join(dict.fromkeys(one.witness for one in after)),
        residual=max(one.residual for one in replays),
        converged=all(one.converged for one in replays),
        independence=Independence.weakest([one.independence for one in replays]),
    )


def _called(stream: Stream, row: int) -> str:
    """Return whose row it is, and of when, in words."""
    if stream.when[row] == HISTORY:
        return f"row {row} of the history"
    names = stream.people.index if stream.who is None else stream.who
    return f"person {row if names is None else names[row]} in round {stream.when[row]}"


def _shared(problem: OnlineProblem, moves: Array) -> tuple[str, ...]:
    """Return in words who spends more over all rounds than it may, where budgets are shared."""
    who = problem.stream.who
    if problem.shared is False or who is None:
        return ()
    lengths = np.linalg.norm(moves, ord=problem.everyone.allowance.norm.p, axis=1)
    allowed = problem.everyone.allowance.everyones(who.size)
    if problem.shared is not True:
        allowed = np.where(allowed > 0, problem.shared, 0.0)
    found = Offences()
    for person in np.unique(who[lengths > 0]):
        mine = who == person
        spent, most = float(lengths[mine].sum()), float(allowed[mine].max())
        if not spent <= most * (1 + LIMIT_SLACK):
            found.add(f"person {person} moves by {spent:.6g} over all rounds, limit {most:.6g}")
    return found.told


def _history(problem: OnlineProblem, moves: Array) -> tuple[str, ...]:
    """Return in words who moves that was there before the first round."""
    moving = np.flatnonzero((problem.stream.when == HISTORY) & moves.any(axis=1))
    found = Offences()
    found.add_all((f"row {row} moves, which is of the history and cannot act" for row in moving), moving.size)
    return found.told
