"""The paper's own heuristic: one gradient, normalised to the budget.

The appendix takes the gradient of the objective with respect to the perturbation and rescales it to norm ε.
For p = 2 that is exactly optimal for the members as long as ε ≤ d_g; past that the goal's centroid
overshoots the query. It is here to be compared with, so it is neither safeguarded nor warm-started.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.plans import Proposal
from oar.solvers.centroids.exact import no_signal, propose, reach_of
from oar.solvers.registry import OfCentroids, Task
from oar.solvers.settings import Paper


def normalised(vectors: NDArray[np.float64], norm: Norm) -> NDArray[np.float64]:
    """Return v/‖v‖_p, and 0 for 0."""
    length = norm.length(vectors)[..., None]
    return vectors / np.where(length > 0, length, 1.0)


class PaperAmongCentroids(OfCentroids):
    """The paper's heuristic: one gradient, normalised to the budget."""

    name, settings, verbs, auto = "paper", Paper, ("individual", "collective", "joint"), False

    def propose(self, task: Task, settings: Paper) -> Proposal:
        """Move members, query or both by one normalised gradient step from where they are."""
        no_signal(task.signal)
        reach = reach_of(task.problem, task.verb != "individual", task.query)
        gradients = reach.gradients(reach.offsets)
        directions = normalised(-gradients, reach.norm)
        directions[reach.radii == 0] = 0.0
        # The query's move by δ moves every offset by −δ, so its descent direction is +Σ_c ∂L/∂μ_c.
        query_move = reach.query_budget * normalised(gradients.sum(axis=0), reach.norm)
        return propose(task.problem, reach, directions + 0.0, query_move + 0.0, solver=self.name)
