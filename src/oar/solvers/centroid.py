"""The exact global optimum for nearest centroid: one pass for the means, then O(k·d)."""

from __future__ import annotations

import numpy as np

from oar.actions.norms import euclidean
from oar.models.nearest_centroid import goal_loss
from oar.plans import ClassPlan, Proposal
from oar.problem import Problem
from oar.solvers.reach import Array, Reach, reach_of, smallest_scale


def solve(problem: Problem) -> Proposal:
    """Return the moves with the least possible goal loss after the refit (`reach` says why)."""
    reach = reach_of(problem)
    stay = np.zeros(problem.people.dimensions)
    return propose(problem, reach, reach.directions(), stay, solver="exact", exact=True)


def propose(
    problem: Problem,
    reach: Reach,
    directions: Array,
    query_move: Array,
    *,
    solver: str,
    exact: bool = False,
    tolerance: float = np.inf,
    steps: int = 1,
    passes: int = 1,
) -> Proposal:
    """Put moves, their claims and their certificates together.

    A plan of any solver whose loss meets the proved lower bound is the global optimum, and is called exact.
    The solver is said to have finished if the gap is at most `tolerance` times the loss.
    """
    loss = float(goal_loss(euclidean(reach.after(directions, query_move)), reach.goal))
    bound = float(reach.loss(reach.relaxed))
    gap = reach.gap(directions, query_move)
    impossible = bool(reach.margin(reach.relaxed) <= reach.tie)
    return Proposal(
        plan=ClassPlan(problem, query_move, directions),
        solver=solver,
        claimed_loss=loss,
        gap=gap,
        bound=bound,
        exact=exact or loss <= bound * (1 + 1e-12 + 10 * reach.tie),
        impossible=impossible,
        finished=gap <= tolerance * loss,
        steps=steps,
        passes=passes,
        suffices=what_suffices(problem, reach) if reach.query_budget == 0 else "",
    )


def what_suffices(problem: Problem, reach: Reach) -> str:
    """Say which budget of the members would be enough, or why none is."""
    scale, blocker = smallest_scale(reach)
    if scale == np.inf:
        return f"No budget is enough with these participants: {why_never(problem, reach, blocker)}"
    binding = f"(class {problem.people.classes[blocker]!r} binds)" if blocker is not None else ""
    if not problem.allowance.single:
        return f"Budgets more than {scale:.6g} times as large would be enough {binding}."
    return f"Any budget above {scale:.6g} would be enough {binding}."


def why_never(problem: Problem, reach: Reach, blocker: int | None) -> str:
    """Say why no budget lets the goal win against the class `blocker`."""
    other, goal = problem.people.classes[blocker or 0], problem.people.classes[reach.goal]
    if reach.unit[reach.goal] == 0:
        return (
            f"nobody of the goal class {goal!r} or of class {other!r} can move, and {other!r} is at least as near; "
            "let members of one of them take part."
        )
    return f"the query lies on the centroid of class {other!r}, and nobody of that class can move; let one take part."
