"""Black boxes that can be reasoned about after all: one decision tree, and nearest neighbours.

Each answers for a problem, or returns None where the problem is not one of theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.plans import Proposal
from oar.problem import Problem
from oar.solvers.black_box.exact import neighbours as outside_neighbours
from oar.solvers.black_box.exact import neighbours_collective as outside_neighbours_collective
from oar.solvers.black_box.exact import tree as outside_tree

Array = NDArray[np.float64]


def propose_individual(problem: Problem) -> Proposal | None:
    """Move the query alone; None where nothing exact is known."""
    if problem.levers is not None:
        return None
    found = outside_tree.propose(problem)
    return outside_neighbours.propose(problem) if found is None else found


def propose_collective(problem: Problem) -> Proposal | None:
    """Move the members; None where nothing exact is known."""
    return outside_neighbours_collective.propose(problem)


def shortest_move(problem: Problem) -> Array | None:
    """Return the query's shortest move (d,) that gets it the goal; None if there is none.

    Raises:
        OptionError: where the black box is not one of those that are known exactly.
    """
    leaves = outside_tree.leaves_of(problem)
    if leaves is not None:
        nearest = leaves.nearest()
        return None if nearest is None else leaves.moves[nearest] + 0.0
    regions = outside_neighbours.regions_of(problem)
    if regions is not None:
        try:
            return regions.shortest()
        except outside_neighbours.TooMany:
            pass
    raise OptionError(
        f"model: must be known exactly for the shortest move, as one decision tree and small nearest neighbours are, "
        f"got {problem.model.name}; oar.individual looks for the move of least loss."
    )
