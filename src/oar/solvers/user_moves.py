"""Moves that a user's solver found, as a proposal: it claims the loss of one refit, and proves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.online import OnlineProblem, Rollout
from oar.plans import MemberPlan, Proposal
from oar.plans.refits import Refits
from oar.plans.rounds.plan import OnlinePlan
from oar.plans.rounds.result import OnlineProposal
from oar.problem import Problem

Array = NDArray[np.float64]


def proposal_of(name: str, problem: Problem | OnlineProblem, found: Any) -> Proposal | OnlineProposal:
    """Return the proposal that moves (n, d) are, or a pair of them and the query's own (d,)."""
    if isinstance(problem, OnlineProblem):
        return _over_rounds(name, problem, found)
    size, width = problem.people.size, problem.people.dimensions
    moves, own = found if isinstance(found, tuple) and len(found) == 2 else (found, np.zeros(width))
    moves, own = _numbers(name, "moves", moves, (size, width)), _numbers(name, "query move", own, (width,))
    plan = MemberPlan(problem, own, moves)
    refits = Refits(plan)
    return Proposal(
        plan=plan,
        solver=name,
        claimed_loss=float(refits.verdict(refits.planned).loss),
        passes=1,
        promised=False,
        **NOTHING_PROVED,
    )


def _over_rounds(name: str, problem: OnlineProblem, found: Any) -> OnlineProposal:
    """Return moves of everybody in every round as a proposal."""
    people = problem.stream.people
    moves, rollout = _numbers(name, "moves", found, (people.size, people.dimensions)), Rollout(problem)
    losses, unknown = rollout.forward(moves).losses, np.zeros(problem.rounds)
    return OnlineProposal(
        plan=OnlinePlan(problem, moves, ()),
        solver=name,
        claimed_loss=float(problem.weights @ losses),
        leverage=unknown,
        leverage_left=unknown,
        walks=1,
        passes=rollout.passes,
        **NOTHING_PROVED,
    )


NOTHING_PROVED: dict[str, Any] = {"gap": np.inf, "exact": False, "finished": True, "steps": 0}


def _numbers(name: str, what: str, given: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of this shape, without negative zeros; raise where a solver returned something else."""
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != shape:
        raise DataError(
            f"solver: {name!r} must propose {what} of shape {shape}, got {np.shape(given)} of "
            f"type {type(given).__name__}; return an array, or a pair of the "
            "members' moves and the query's own."
        )
    return numbers + 0.0
