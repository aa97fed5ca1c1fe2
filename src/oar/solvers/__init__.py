"""HOW IT IS SOLVED: solvers propose, the audit decides.

`propose_collective`, `propose_individual` and `propose_joint` ask the registry for the first solver that does not
refuse the problem, or for the one that is named; `register` adds one of your own.
"""

from oar.solvers.black_box.settings import DirectSearch, Surrogate
from oar.solvers.builtin import FEW as FEW
from oar.solvers.centroids.sweep import Sweep, sweep
from oar.solvers.query.shortest_move import shortest_move
from oar.solvers.registry import (
    NEEDS,
    Solver,
    Task,
    propose_collective,
    propose_individual,
    propose_joint,
    register,
    registered,
    unregister,
)
from oar.solvers.settings import (
    EFFORTS,
    EffortLevel,
    Exact,
    FrankWolfe,
    OneShot,
    Paper,
    ProjectedGradient,
    default_effort,
)

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
