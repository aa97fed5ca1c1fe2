"""Claims about a black box whose regions are known exactly: the goal first, then the least loss.

Where three classes or more are about, the least loss and the goal are different aims: a place where the goal has 0.4
and another class 0.6 has a lower loss than one where the goal leads with 0.35. Whoever can be given the goal is given
it; a plan is called exact where it has the least loss besides.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context

import numpy as np
from numpy.typing import NDArray

from oar.estimators.black_box import LEAST
from oar.goals.wishes import TIE
from oar.models.training import Array
from oar.plans import MemberPlan, Proposal
from oar.plans.proof import Hints
from oar.problem import Problem

Flags = NDArray[np.bool_]
NO_HINTS = Hints()
EQUAL = 1e-12  # share of a loss by which two that are equal may differ
MORE = " more than a tie"  # which is no success, whatever an estimator makes of it
SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


def judged_outputs(problem: Problem, outputs: Array) -> tuple[Array, Flags]:
    """Return the goal loss (m,) of log-probabilities (m, k), or values (m, o), and whether each reaches the goal."""
    wish = problem.wishes[0]
    losses = np.array([wish.loss(row) for row in outputs], dtype=np.float64)
    return losses, np.array([wish.reached(row) for row in outputs], dtype=bool)


def outputs_of(counts: NDArray[np.intp]) -> Array:
    """Return log-probabilities (m, k) of neighbours counted by class: probabilities are shares of them."""
    return np.log(np.maximum(counts / counts.sum(axis=1, keepdims=True), LEAST))


def levels(problem: Problem, outputs: Array) -> bool:
    """Report whether any of these log-probabilities (m, k) give the goal as much as another class, and no more."""
    wish = problem.wishes[0]
    if problem.regresses or problem.query.probability is not None:
        return False
    return any(not wish.reached(row) and wish.lead(row) > -TIE * (1 + float(np.abs(row).max())) for row in outputs)


def proposal(
    problem: Problem,
    query_move: Array,
    moves: Array | float,
    *,
    loss: float,
    bound: float,
    suffices: str,
    steps: int,
    reached: bool,
    hints: Hints = NO_HINTS,
) -> Proposal:
    """Put moves and what is known of them together; `bound` is the least loss that cannot be ruled out."""
    exact = loss <= bound + EQUAL * abs(bound)
    aside = ""
    if reached and not exact:
        aside = f" The goal came first: a goal loss of {bound:.6g} may be had, where another class is predicted."
    everyone = (problem.people.size, problem.people.dimensions)
    return Proposal(
        plan=MemberPlan(problem, query_move + 0.0, np.zeros(everyone) + moves),
        solver="exact",
        claimed_loss=loss,
        gap=max(loss - bound, 0.0),
        exact=exact,
        finished=True,
        steps=steps,
        passes=1,
        suffices=suffices + aside,
        hints=hints,
    )


def at_least(length: float) -> str:
    """Return a length in six digits, rounded up, so that who takes it at its word has enough.

    >>> at_least(0.12345678), at_least(2.0)
    ('0.123457', '2')
    """
    return f"{float(SIX_DIGITS.create_decimal_from_float(length)):.6g}"


def own_way(problem: Problem, least: float, why_never: str, level: bool) -> str:
    """Say which budget of its own is enough for the query, or why none is (∞): maybe as the goal is level at best."""
    if least == np.inf:
        return f"No move of the query is enough: {why_never} {problem.goal_words}{MORE if level else ''}."
    return (
        f"The query reaches the goal by itself with any budget of at least {at_least(least)}, by the shortest move "
        "(oar.solvers.shortest_move), which need not be the move of least loss."
    )
