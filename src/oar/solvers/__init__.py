"""Optimisation of plans: solvers propose, the audit decides.

`propose_collective`, `propose_individual` and `propose_joint` ask the registry for the first solver that does not
refuse the problem, or for the one that is named; `register` adds one of your own.
"""

from oar.solvers import builtin as builtin
from oar.solvers.black_box.direct_search import DirectSearch
from oar.solvers.black_box.surrogate import Surrogate
from oar.solvers.centroids.sweep import Sweep, sweep
from oar.solvers.descent.retrained import FEW as FEW
from oar.solvers.query.shortest_move import shortest_move
from oar.solvers.registry import (
    NEEDS,
    Solver,
    Task,
    default_effort,
    propose_collective,
    propose_individual,
    propose_joint,
    register,
    registered,
    unregister,
)
from oar.solvers.settings import EFFORTS, EffortLevel, Exact, FrankWolfe, OneShot, Paper, ProjectedGradient

__all__ = [
    "EFFORTS",
    "NEEDS",
    "DirectSearch",
    "EffortLevel",
    "Exact",
    "FrankWolfe",
    "OneShot",
    "Paper",
    "ProjectedGradient",
    "Solver",
    "Surrogate",
    "Sweep",
    "Task",
    "default_effort",
    "propose_collective",
    "propose_individual",
    "propose_joint",
    "register",
    "registered",
    "shortest_move",
    "sweep",
    "unregister",
]
