"""The solvers of the package, in the order in which they are asked; each stands beside what it computes with."""

from __future__ import annotations

from oar.solvers import registry
from oar.solvers.batch_norm.planning import ThroughBatchNorm
from oar.solvers.black_box.planning import ExactOfBlackBox, SearchOfBlackBox, SurrogateOfBlackBox
from oar.solvers.centroids.exact import ExactCentroids, PaperAmongCentroids
from oar.solvers.centroids.projected_gradient import CentroidsByGradient
from oar.solvers.centroids.query_moves import QueryAmongCentroids, WidestLead
from oar.solvers.descent.parts import InParts
from oar.solvers.descent.retrained import FrankWolfeDescent, GradientDescent, OneShotDescent
from oar.solvers.discrete.levers import OtherLevers
from oar.solvers.outer.best_members import BestMembers
from oar.solvers.outer.own_moves import EachAlone, InTurns
from oar.solvers.outer.several_queries import SeveralQueries
from oar.solvers.outer.side_effects import WithoutSideEffects
from oar.solvers.query.individual import JointOnTable, QuerysOwnMove
from oar.solvers.registry import Solver, Thorough
from oar.solvers.rounds.planning import (
    ExactOverRounds,
    FrankWolfeOverRounds,
    GradientOverRounds,
    OneShotOverRounds,
    QueryOverRounds,
)

OURS: tuple[type[Solver], ...] = (
    Thorough,
    EachAlone,
    InTurns,
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
    QueryOverRounds,
    ExactCentroids,
    FrankWolfeDescent,
    GradientDescent,
    CentroidsByGradient,
    QuerysOwnMove,
    QueryAmongCentroids,
    OneShotDescent,
    PaperAmongCentroids,
    WidestLead,
)
registry.fill(OURS)
