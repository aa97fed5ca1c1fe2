"""The solvers of the package, in the order in which they are asked; each stands beside what it computes with.

Here are those that choose among themselves: over rounds by the rule, for black boxes by what is known of them.
"""

from __future__ import annotations

from typing import Any

from oar.plans import Proposal
from oar.solvers import registry
from oar.solvers.batch_norm import planning as batch_norm
from oar.solvers.black_box.planning import ExactOfBlackBox, SearchOfBlackBox, SurrogateOfBlackBox
from oar.solvers.centroids.exact import ExactCentroids
from oar.solvers.centroids.paper import PaperAmongCentroids
from oar.solvers.centroids.projected_gradient import CentroidsByGradient
from oar.solvers.centroids.query_moves import QueryAmongCentroids
from oar.solvers.descent.parts import InParts
from oar.solvers.descent.retrained import FrankWolfeDescent, GradientDescent, OneShotDescent
from oar.solvers.discrete.levers import OtherLevers
from oar.solvers.outer.best_members import BestMembers
from oar.solvers.outer.several_queries import SeveralQueries
from oar.solvers.outer.side_effects import WithoutSideEffects
from oar.solvers.query.individual import JointOnTable, QuerysOwnMove
from oar.solvers.registry import IN_MEMORY, Solver, Task, Thorough, Wrapper
from oar.solvers.rounds.planning import ExactOverRounds, FrankWolfeOverRounds, GradientOverRounds, OneShotOverRounds


class ThroughBatchNorm(Wrapper):
    """Test-time batch norm: exact for one layer, and with proofs about what the descent finds."""

    name, requires = "batch norm", frozenset({"batch norm"})
    serves = IN_MEMORY - {"best", "levers", "side effects", "own set"}

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Solve exactly, or ask for a descent."""
        within = self.inside(task)
        return batch_norm.solve(
            task.problem, task.solver, task.signal, lambda solver: task.ask(solver=solver, within=within)
        )


OURS: tuple[type[Solver], ...] = (
    Thorough,
    InParts,
    ExactOfBlackBox,
    SurrogateOfBlackBox,
    SearchOfBlackBox,
    BestMembers,
    OtherLevers,
    WithoutSideEffects,
    ThroughBatchNorm,
    JointOnTable,
    SeveralQueries,
    ExactOverRounds,
    GradientOverRounds,
    FrankWolfeOverRounds,
    OneShotOverRounds,
    ExactCentroids,
    FrankWolfeDescent,
    GradientDescent,
    CentroidsByGradient,
    QuerysOwnMove,
    QueryAmongCentroids,
    OneShotDescent,
    PaperAmongCentroids,
)
registry.fill(OURS)
