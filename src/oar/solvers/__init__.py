"""HOW IT IS SOLVED: solvers propose, the audit decides.

`propose_collective`, `propose_individual` and `propose_joint` choose by name or settings.
"""

import dataclasses
from typing import Any

from oar.errors import OptionError
from oar.models import NearestCentroid
from oar.models.linear import Linear
from oar.plans import Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers import centroid, own_move, paper, projected_gradient, query_moves, retrained
from oar.solvers.own_region import shortest_move
from oar.solvers.settings import Exact, FrankWolfe, OneShot, Paper, ProjectedGradient, as_solver
from oar.solvers.sweep import Sweep, sweep

__all__ = [
    "Exact",
    "FrankWolfe",
    "OneShot",
    "Paper",
    "ProjectedGradient",
    "Sweep",
    "propose_collective",
    "propose_individual",
    "propose_joint",
    "shortest_move",
    "sweep",
]


SMALL = 2_000  # members' moves, as numbers
RESTARTS, MORE_RESTARTS = 8, 24


def propose_collective(
    problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep | None = None
) -> Proposal:
    """Members move, the model is refitted. Not audited: use `oar.collective` for that."""
    if not isinstance(problem.model, NearestCentroid):
        return _propose_retrained(problem, solver, signal, False, on_step)
    _no_signal(signal)
    chosen = as_solver(solver, Exact(), (Exact, ProjectedGradient, Paper))
    if isinstance(chosen, Exact):
        return centroid.solve(problem)
    if isinstance(chosen, Paper):
        return paper.solve(problem, members=True, query=False)
    _no_restarts(chosen)
    return projected_gradient.solve(problem, chosen)


def propose_individual(problem: Problem, solver: Any = "auto") -> Proposal:
    """The query moves, the model stays. Not audited: use `oar.individual` for that."""
    if not isinstance(problem.model, NearestCentroid):
        chosen = as_solver(solver, ProjectedGradient(), (ProjectedGradient,))
        _no_restarts(chosen)
        return own_move.solve(problem, chosen)
    return _propose_query_move(problem, solver, members=False)


def propose_joint(
    problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep | None = None
) -> Proposal:
    """Members and query move. Not audited: use `oar.joint` for that."""
    if not isinstance(problem.model, NearestCentroid):
        return _propose_retrained(problem, solver, signal, True, on_step)
    _no_signal(signal)
    return _propose_query_move(problem, solver, members=True)


def _propose_query_move(problem: Problem, solver: Any, members: bool) -> Proposal:
    chosen = as_solver(solver, ProjectedGradient(), (ProjectedGradient, Paper))
    if isinstance(chosen, ProjectedGradient):
        _no_restarts(chosen)
        return query_moves.solve(problem, members, chosen)
    return paper.solve(problem, members, query=True)


def _propose_retrained(problem: Problem, solver: Any, signal: Any, query: bool, on_step: OnStep | None) -> Proposal:
    # The loss has several local minima at large budgets. Where a step costs a millisecond, look at some, and closely.
    small = problem.people.size * problem.people.dimensions <= SMALL
    convex: bool = problem.model.convex  # type: ignore[union-attr]
    default = ProjectedGradient(2_000, 1e-7) if small else ProjectedGradient(500, 1e-6)
    if not convex:
        default = ProjectedGradient(30, 1e-5)  # every step trains a network from scratch
    chosen = as_solver(solver, default, (ProjectedGradient, FrankWolfe, OneShot))
    if not isinstance(chosen, OneShot) and chosen.restarts is None:
        restarts = MORE_RESTARTS if isinstance(problem.model, Linear) else RESTARTS  # whose refits are the quickest
        chosen = dataclasses.replace(chosen, restarts=restarts if small and convex else 0)
    return retrained.solve(problem, chosen, signal, query, on_step)


def _no_restarts(settings: ProjectedGradient) -> None:
    if settings.restarts or settings.time_limit < float("inf"):
        raise OptionError(
            "restarts and time_limit: are for refits in a loop, and nothing is refitted in a loop here; leave them out."
        )


def _no_signal(signal: Any) -> None:
    if signal != "auto":
        raise OptionError(f"signal: nearest centroid is solved without one; leave it out, got {signal!r}.")
