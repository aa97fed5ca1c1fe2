"""The referee's proofs about all feasible plans, computed again from the data and the audit's own refits.

A solver proposes; what it takes for optimal or impossible is its own affair. Here every theorem that applies to the
problem is evaluated again, without the solvers, for everything that an audit would accept. At most a solver's
multipliers are used, which prove something or do not. What nothing here proves is called found.

Shared with the solvers are facts below both: lengths in a norm, the boxes of a tree's leaves, a network's halves around
its batch norm, and what rows weigh under gradient steps and fine-tuning. Tests hold these to brute force.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.estimators.black_box import Box
from oar.models import TestTimeBatchNorm
from oar.online import OnlineProblem
from oar.plans import Audit, Proposal
from oar.plans.proof import Proof
from oar.problem import Problem
from oar.referee.centroids import UnmovedCentroids
from oar.referee.proofs.balls import fewest_members, never, of_centroids, within_radii
from oar.referee.proofs.batch_norms import of_batch_norm
from oar.referee.proofs.black_boxes import of_black_box
from oar.referee.proofs.own_moves import UnmovedRefit, above_tangent, beyond_half_spaces, seen_centroids
from oar.referee.proofs.rounds import of_rounds
from oar.referee.witnesses.refits import WitnessRefit

__all__ = [
    "BOTH",
    "MEMBERS",
    "QUERY",
    "fewest_members",
    "never",
    "nobody_moves",
    "prove",
    "within_radii",
]

MEMBERS, QUERY, BOTH = "members", "query", "both"  # who moves
STILL = "that nobody can move, or no move is felt"


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
    if who is None or problem.levers is not None or not audit.converged:
        return found
    moving = audit.movers or proposal.plan.query_move.any()
    if not moving and nobody_moves(problem, who):
        return found.with_other(Proof(audit.loss_before, not audit.success_before, STILL))
    if problem.asked.members is not None:
        return found
    if isinstance(problem, OnlineProblem):
        return found.with_other(of_rounds(problem)) if problem.model.plain_means else found
    members, query, hints = who != QUERY, who != MEMBERS, proposal.hints
    if isinstance(evidence, Box):
        return found.with_other(of_black_box(problem, evidence, hints, members, query))
    if not problem.plain or problem.limits is not None:
        return found
    if isinstance(evidence, UnmovedCentroids):
        seen = Proof() if members else beyond_half_spaces(problem, seen_centroids(problem, evidence), hints)
        return found.with_other(of_centroids(problem, evidence, members, query)).with_other(seen)
    if problem.model.fixed:
        return found if query else found.with_other(of_batch_norm(problem))
    if isinstance(evidence, WitnessRefit) and not members and problem.model.linear:
        return found.with_other(_of_own_move(problem, evidence, proposal))
    return found


def _of_own_move(problem: Problem, evidence: WitnessRefit, proposal: Proposal) -> Proof:
    """Return what is proved of the query's own moves where a linear model stays."""
    seen = UnmovedRefit(problem.model, None, evidence.outputs)
    proof = above_tangent(problem, seen, proposal.hints, proposal.plan.query_move)
    return proof.with_other(beyond_half_spaces(problem, seen, proposal.hints))


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
