"""Retrain from scratch and check. The only place that may say "it worked".

The audit takes a plan, or moves that somebody else computed, has everyone make the very moves that are handed out,
refits the model on the moved data and looks at the query. It imports nothing of the solvers, measures every move again,
against its own mover's limit, and says of each refit how independent it was of the solvers (`Audit.independence`).

One skeleton (`_audited`), several witnesses: each reads what a plan hands in (`contributions`), refits the model
without it and with it, and returns both as a `Retrial`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oar.checks import with_near_names
from oar.errors import OptionError
from oar.estimators.black_box import Box
from oar.models import TestTimeBatchNorm
from oar.online import OnlineProblem
from oar.people.wording import counted
from oar.plans import Audit, Plan, Proposal, Result
from oar.plans.moves.submitted import given_plan
from oar.plans.proof import Proof
from oar.problem import Problem
from oar.referee.black_box import by_its_own_training
from oar.referee.centroids import UnmovedCentroids, by_class_averages
from oar.referee.individual.duels import UnmovedRefit
from oar.referee.parts import in_parts
from oar.referee.proofs.balls import of_centroids
from oar.referee.proofs.batch_norms import of_batch_norm
from oar.referee.proofs.black_boxes import of_black_box
from oar.referee.proofs.own_moves import above_tangent, beyond_half_spaces
from oar.referee.proofs.rounds import of_rounds
from oar.referee.rounds import by_rounds
from oar.referee.verdicts import AuditSummary, Retrial, broken_by
from oar.referee.witnesses.refits import WitnessRefit, by_training
from oar.typing import Features, FilePath, Label, Labels

__all__ = ["BOTH", "MEMBERS", "QUERY", "audit", "judged", "nobody_moves"]

MEMBERS, QUERY, BOTH = "members", "query", "both"  # who moves
STILL = "that nobody can move, or no move is felt"


@with_near_names
def audit(
    plan: Any,
    moves: Features | FilePath | None = None,
    *,
    after: Features | None = None,
    labels: Labels | Mapping[Label, Label] | None = None,
    leavers: ArrayLike | None = None,
    query_move: ArrayLike | None = None,
) -> Audit:
    """Refit before and after a plan's moves, or any other moves, and report the query's outcome; over time, each round.

    Args:
        plan: a plan; or a problem, with the moves in the other arguments.
        moves: by how much everyone moves: (n, d), a DataFrame with a column for each feature, a table of changes
            (person, column, before, after), or a Parquet file or folder of either kind, as `plan.write_moves` and
            `oar plan` write them.
        after: in place of moves, everyone's features afterwards: (n, d), or a DataFrame in the words of the table.
        labels: labels afterwards: one for each, or by name for some (a Series or a dict).
        leavers: the members who withhold their data: n booleans, or names.
        query_move: (d,), the query's own move.

    DataFrames are matched by index, and people who are missing in them do not move. Broken limits are listed in
    `violations`, and then there is no `success`.
    """
    given = {"moves": moves, "after": after, "labels": labels, "leavers": leavers, "query_move": query_move}
    if isinstance(plan, Problem):
        made = given_plan(plan, **given)
        return _held_to(plan, _audited(made)[0], None, made)
    for name, value in given.items():
        if value is not None:
            raise OptionError(f"{name}: a plan says itself who does what; give its problem to audit other moves.")
    if isinstance(plan, Plan):
        return _audited(plan)[0]
    kind = type(plan).__name__
    raise OptionError(f"plan: must be a plan, or an oar.Problem(…) with moves, got an object of type {kind}.")


def judged(proposal: Proposal, problem: Problem | None = None, who: str | None = None) -> Result:
    """Return a proposal with what a fresh refit says of it, and what is proved of all that could have been done.

    Args:
        proposal: the solver's proposal.
        problem: what was asked, where the plan is for some of those who could act; None if it is the plan's own.
        who: who may move: "members", "query" or "both"; None where that is not known, and nothing is proved.
    """
    (found, trial), asked = _audited(proposal.plan), proposal.plan.problem if problem is None else problem
    found = _held_to(asked, found, who, proposal.plan)
    proof = prove(asked, who, proposal, found, trial.unmoved)
    small = trial.unmoved if isinstance(trial.unmoved, UnmovedCentroids) else None  # others may hold everybody's data
    return trial.result(proposal.plan.problem, proposal, found, proof=proof, evidence=small)


def _held_to(asked: Problem, found: Audit, who: str | None, plan: Plan) -> Audit:
    """Return an audit held to what was asked: who may move, and how many of those who are still to be chosen."""
    broken = []
    if asked.best is not None and found.movers > asked.best.number:
        broken.append(f"{counted(found.movers, 'member moves', 'members move')}, limit {asked.best.number}")
    if who == MEMBERS and plan.query_move.any():
        broken.append("the query moves, and only members may")
    if who == QUERY and found.movers + found.relabelled + found.leavers:
        broken.append("members act, and only the query may")
    if not broken:
        return found
    each = tuple(replace(one, success=False) for one in found.queries)
    return replace(found, violations=(*found.violations, *broken), success=False, queries=each)


def _audited(plan: Plan) -> tuple[Audit, Retrial]:
    """Return what a fresh refit says, and the trial with the referee's own refit to unmoved people, for proofs."""
    problem, trial = plan.problem, _witness(plan.problem)(plan)
    olds, news, broken = [], [], [*trial.measured.violations, *trial.more]
    for old, new in trial.pairs:
        olds.append(old.verdicts(problem.asked.points))
        news.append(new.verdicts(trial.moved))
        if problem.kept is not None:
            broken += [one for one in broken_by(plan, old.predict, new.predict) if one not in broken]
    each = [AuditSummary(problem, *heard).reported(not broken) for heard in zip(olds, news, strict=True)]
    found: dict[str, Any] = {
        "movers": trial.measured.movers,
        "effort": trial.measured.effort,
        "violations": tuple(broken),
        "witness": new.witness,
        "residual": new.residual,
        "converged": old.converged and new.converged,
        "relabelled": trial.measured.relabelled,
        "leavers": trial.measured.leavers,
        "independence": new.independence,
        "measured_by": "" if problem.own_action is None else problem.own_action.name,
    }
    return trial.audit(**(found | trial.together(problem, olds, news, each, not broken))), trial


def _witness(problem: Problem) -> Callable[[Plan], Retrial]:
    """Return who refits for this problem."""
    if isinstance(problem, OnlineProblem):
        return by_rounds
    if problem.people.streamed:
        return in_parts
    if problem.model.plain_means:
        return by_class_averages
    return by_its_own_training if problem.model.only_asked else by_training


def prove(problem: Problem, who: str | None, proposal: Proposal, audit: Audit, evidence: Any) -> Proof:
    """Return what is proved of all moves within a problem's limits.

    Args:
        problem: what was asked, with those whom `oar.Best` would choose from.
        who: who may move: MEMBERS, QUERY or BOTH; None where that is not known.
        proposal: what a solver proposes, with its hints.
        audit: the outcome of a fresh refit.
        evidence: the audit's own refit to unmoved people: `UnmovedCentroids`, a `WitnessRefit`, a `Box`, or None.
    """
    # What no loss of this model is below: nothing has to be computed to know it.
    found = Proof(0.0 if problem.query.several == "share" else problem.model.least_loss)
    if who is None or problem.levers.given or not audit.converged:
        return found
    moving = audit.movers or proposal.plan.query_move.any()
    if not moving and nobody_moves(problem, who):
        return together(found, Proof(audit.loss_before, not audit.success_before, STILL))
    if problem.asked.members is not None:
        return found
    if isinstance(problem, OnlineProblem):
        return together(found, of_rounds(problem)) if problem.model.plain_means and who == MEMBERS else found
    members, query, hints = who != QUERY, who != MEMBERS, proposal.hints
    if isinstance(evidence, Box):
        return together(found, of_black_box(problem, evidence, hints, members, query))
    if not problem.plain or problem.limits is not None:
        return found
    if isinstance(evidence, UnmovedCentroids):
        seen = UnmovedRefit(problem.model, (evidence.positions, evidence.scales), None)
        apart = Proof() if members else beyond_half_spaces(problem, seen, hints)
        return together(found, of_centroids(problem, evidence, members, query), apart)
    if problem.model.fixed:
        return found if query else together(found, of_batch_norm(problem))
    if isinstance(evidence, WitnessRefit) and not members and problem.model.linear:
        seen = UnmovedRefit(problem.model, None, evidence.outputs)
        tangent = above_tangent(problem, seen, hints, proposal.plan.query_move)
        return together(found, tangent, beyond_half_spaces(problem, seen, hints))
    return found


def together(*proofs: Proof) -> Proof:
    """Return what several proofs say together."""
    said = " and ".join(dict.fromkeys(one.by for one in proofs if one.by))
    return Proof(max(one.bound for one in proofs), any(one.impossible for one in proofs), said)


def nobody_moves(problem: Problem, who: str) -> bool:
    """Report whether limits leave nobody a move, or the model feels none."""
    if isinstance(problem.model, TestTimeBatchNorm) and problem.model.momentum == 0:
        return who == MEMBERS and problem.asked.members is None
    if problem.people.streamed:
        return False
    if problem.limits is None:
        own = who != MEMBERS and problem.query_budget > 0
        return not own and (who == QUERY or not problem.allowance.everyones(problem.people.size).any())
    region = problem.measured(who != MEMBERS).unruled
    still = (region.lower == 0).all(axis=1) & (region.upper == 0).all(axis=1)
    still |= np.asarray(region.radii) == 0
    return bool(still[-1] if who == QUERY else still.all())
