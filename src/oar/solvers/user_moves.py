"""Moves that a user's solver found, as a proposal: it claims the loss of one refit, and proves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.checks import real_numbers
from oar.errors import DataError
from oar.models.training import Array
from oar.plans import Proposal
from oar.plans.refits import Refits
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem


def proposal_of(name: str, problem: Problem, found: Any) -> Proposal:
    """Return the proposal that moves (n, d) are, or a pair of them and the query's own (d,)."""
    size, width = problem.people.size, problem.people.dimensions
    moves, own = found if isinstance(found, tuple) and len(found) == 2 else (found, np.zeros(width))
    moves, own = _numbers(name, "moves", moves, (size, width)), _numbers(name, "query move", own, (width,))
    plan = member_plan(problem, own, moves)
    refits = Refits(plan)
    return Proposal(
        plan=plan,
        solver=name,
        claimed_loss=float(refits.verdict(refits.planned).loss),
        gap=np.inf,
        exact=False,
        finished=True,
        steps=0,
        passes=1,
        promised=False,
    )


def _numbers(name: str, what: str, given: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of this shape, without negative zeros; raise where a solver returned something else."""
    try:
        numbers, got = real_numbers(given), f"{np.shape(given)} of type {type(given).__name__}"
    except (TypeError, ValueError) as error:
        numbers, got = np.empty(0), f"something else of type {type(given).__name__} ({error})"
    if numbers.shape != shape:
        raise DataError(
            f"solver: {name!r} must propose {what} of shape {shape}, got {got}; return an array, or a tuple of "
            "the members' moves and the query's own."
        )
    return numbers + 0.0
