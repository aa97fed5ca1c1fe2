"""The exact global optimum for nearest centroid: one pass for the means, then O(k·d)."""

from __future__ import annotations

import numpy as np

from oar.actions.sets.norms import euclidean
from oar.models.centroid.nearest_centroid import goal_loss
from oar.plans import ClassPlan, Proposal
from oar.plans.proof import Hints
from oar.problem import Problem
from oar.solvers.centroids.reach import Array, Reach, reach_of, smallest_scale, smallest_scale_for, unrounded
from oar.solvers.query.shortest_move import multipliers_against, shortest_move_into


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
    bound = unrounded(float(reach.loss(reach.relaxed)), loss)
    gap = reach.gap(directions, query_move)
    reachable, suffices = prospects(problem, reach)
    return Proposal(
        plan=ClassPlan(problem, query_move, directions),
        solver=solver,
        claimed_loss=loss,
        gap=gap,
        exact=exact or loss <= bound * (1 + 1e-12),
        finished=gap <= tolerance * loss,
        steps=steps,
        passes=passes,
        suffices=suffices,
        reachable=reachable,
        ended=f"It took {steps} steps; allow more with max_steps, or accept a larger tolerance.",
        hints=Hints() if reach.members else Hints(multipliers=_against_rivals(reach)),
    )


def _against_rivals(reach: Reach) -> Array | None:
    """Return multipliers (k − 1,) for (μ_c − μ_g)·δ ≤ (‖a_c‖² − ‖a_g‖²)/2: what the query must keep to be nearest."""
    rivals, goal = reach.offsets[reach.others], reach.offsets[reach.goal]
    normals = rivals - goal
    slack = 0.5 * np.einsum("cd,cd->c", normals, rivals + goal)
    return multipliers_against(normals, slack, reach.norm, reach.query_budget)


def prospects(problem: Problem, reach: Reach) -> tuple[bool, str]:
    """Say whether a query that moves alone can reach the goal within its budget, and what would suffice."""
    if not reach.members:
        return own_prospects(reach) if problem.query.probability is None else (False, "")
    enough = what_suffices(problem, reach)
    return False, f"Even if the query stays where it is, {enough}" if reach.query else enough[0].upper() + enough[1:]


def own_prospects(reach: Reach) -> tuple[bool, str]:
    """Say the same for a query that moves alone: the distance to the goal's region decides."""
    move = shortest_move_into(reach.offsets, reach.goal, reach.norm)
    if move is None:
        return False, "No move of the query is enough: another class has the same centroid as the goal."
    least = float(reach.norm.length(move))
    there = bool(reach.lead(np.zeros(len(reach.offsets))) > 0)
    return there or bool(least < reach.query_budget * (1 - 1e-12)), (
        f"The query can reach the goal with any budget above {least:.6g}, by the shortest move into its region "
        "(oar.solvers.shortest_move), which need not be the move of least loss."
    )


def what_suffices(problem: Problem, reach: Reach) -> str:
    """Say which budget of the members would be enough (at optimal moves), or why none is."""
    if problem.query.probability is not None:
        return _what_makes_probable(problem, reach, problem.query.probability)
    scale, blocker = smallest_scale(reach)
    if scale == np.inf:
        return f"no budget is enough with these participants: {why_never(problem, reach, blocker)}"
    binding = "" if blocker is None else f" (class {problem.people.classes[blocker]!r} binds)"
    if not problem.allowance.single:
        return f"optimal moves reach the goal with budgets more than {scale:.6g} times as large{binding}."
    return f"optimal moves reach the goal with any budget above {scale:.6g}{binding}."


def _what_makes_probable(problem: Problem, reach: Reach, probability: float) -> str:
    """Say which budget of the members makes the goal as probable as it must be, or how far none gets."""
    scale, least = smallest_scale_for(reach, -float(np.log(probability)))
    if scale == np.inf:
        return (
            f"no budget is enough with these participants: however far they move, the goal is no more than "
            f"{np.exp(-least):.6g} probable; let members of more classes take part."
        )
    said = f"optimal moves make the goal {probability:g} probable with"
    if not problem.allowance.single:
        return f"{said} budgets more than {scale:.6g} times as large."
    return f"{said} any budget above {scale:.6g}."


def why_never(problem: Problem, reach: Reach, blocker: int | None) -> str:
    """Say why no budget lets the goal win against the class `blocker`."""
    other, goal = problem.people.classes[blocker or 0], problem.people.classes[reach.goal]
    if reach.unit[reach.goal] == 0:
        return (
            f"nobody of the goal class {goal!r} or of class {other!r} can move, and {other!r} is at least as near; "
            "let members of one of them take part."
        )
    return f"the query lies on the centroid of class {other!r}, and nobody of that class can move; let one take part."
