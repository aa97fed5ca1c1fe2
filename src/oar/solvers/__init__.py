"""HOW IT IS SOLVED: solvers propose, the audit decides.

`propose_collective`, `propose_individual` and `propose_joint` choose by name or settings.
"""

from typing import Any

from oar.plans import Proposal
from oar.problem import Problem
from oar.solvers import centroid, paper, projected_gradient, query_moves
from oar.solvers.own_region import shortest_move
from oar.solvers.settings import Exact, Paper, ProjectedGradient, as_solver
from oar.solvers.sweep import Sweep, sweep

__all__ = [
    "Exact",
    "Paper",
    "ProjectedGradient",
    "Sweep",
    "propose_collective",
    "propose_individual",
    "propose_joint",
    "shortest_move",
    "sweep",
]


def propose_collective(problem: Problem, solver: Any = "auto") -> Proposal:
    """Members move, the model is refitted. Not audited: use `oar.collective` for that."""
    chosen = as_solver(solver, Exact(), (Exact, ProjectedGradient, Paper))
    if isinstance(chosen, Exact):
        return centroid.solve(problem)
    if isinstance(chosen, Paper):
        return paper.solve(problem, members=True, query=False)
    return projected_gradient.solve(problem, chosen)


def propose_individual(problem: Problem, solver: Any = "auto") -> Proposal:
    """The query moves, the model stays. Not audited: use `oar.individual` for that."""
    return _propose_query_move(problem, solver, members=False)


def propose_joint(problem: Problem, solver: Any = "auto") -> Proposal:
    """Members and query move. Not audited: use `oar.joint` for that."""
    return _propose_query_move(problem, solver, members=True)


def _propose_query_move(problem: Problem, solver: Any, members: bool) -> Proposal:
    chosen = as_solver(solver, ProjectedGradient(), (ProjectedGradient, Paper))
    if isinstance(chosen, ProjectedGradient):
        return query_moves.solve(problem, members, chosen)
    return paper.solve(problem, members, query=True)
