"""The query's own best move against one decision tree: exact, because every leaf is a box (`tree_boxes`).

A tree says the same everywhere in a leaf, so the query need only choose a leaf: among those whose shortest move is
within its budget, the one that gives the goal with the least loss. The move that gets it there is the shortest one, and
lands in the leaf after all rounding; a leaf that is reached only in the limit is not reached.

A tree that comes out differently with another seed, as where two splits are equally good, is nobody's to reason about:
then there is no exact answer, and a rate over refits is the question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.estimators.tree_boxes import ScaledTree
from oar.plans import Proposal
from oar.problem import Problem
from oar.retraining.black_box import BlackBoxTraining, plain_black_box
from oar.solvers.black_box.exact.claims import Flags, judged_outputs, levels, own_way, proposal

Array = NDArray[np.float64]
SEEDS = 6  # trainings that must end in the same tree: one tie of two splits is overlooked once in 32 times
NO_LEAF = "no leaf of the tree gives"


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves that the query can get into at all, by the shortest move into each.

    Attributes:
        moves: (l, d). lengths: (l,), in the problem's norm.
        losses: (l,), the goal loss in each. reached: (l,), whether it gives the goal.
        level: whether any gives the goal as much as another class, and no more.
    """

    moves: Array
    lengths: Array
    losses: Array
    reached: Flags
    level: bool

    def nearest(self) -> int | None:
        """Return the leaf with the shortest move among those that give the goal; None if no leaf does."""
        return _first(self.reached, self.lengths, self.losses)

    def best(self, budget: float) -> int:
        """Return the best leaf within a budget: the goal first, then the least loss, then the shortest move."""
        near = self.lengths <= budget
        found = _first(near & self.reached, self.losses, self.lengths)
        if found is None:
            found = _first(near, self.losses, self.lengths)
        assert found is not None  # the query's own leaf is always within its budget
        return found


def _first(among: Flags, *keys: Array) -> int | None:
    """Return which of some comes first by these keys; None if there are none."""
    places = np.flatnonzero(among)
    return int(places[np.lexsort([key[places] for key in reversed(keys)])[0]]) if places.size else None


def propose(problem: Problem) -> Proposal | None:
    """Move the query into the best leaf within its budget; None where the model is not one tree of plain features."""
    leaves = leaves_of(problem)
    if leaves is None:
        return None
    budget = problem.query_budget
    best, nearest = leaves.best(budget), leaves.nearest()
    least = None if nearest is None else float(leaves.lengths[nearest])
    return proposal(
        problem,
        leaves.moves[best],
        None,
        loss=float(leaves.losses[best]),
        bound=float(leaves.losses[leaves.lengths <= budget].min()),
        suffices=own_way(problem, least, NO_LEAF, leaves.level),
        steps=len(leaves.losses),
        reached=bool(leaves.reached[best]),
    )


def leaves_of(problem: Problem) -> Leaves | None:
    """Train the tree and return its leaves; None where it is not one tree of plain features, the same for any seed."""
    model = plain_black_box(problem)
    if model is None or not type(model.estimator).__module__.startswith("sklearn."):
        return None
    if ScaledTree.of(model.estimator) is None:
        return None
    asking = BlackBoxTraining(problem)
    box = asking.unmoved(0)
    tree = ScaledTree.of(box.fitted)
    assert tree is not None
    for number in range(1, 1 if model.randomised is False else SEEDS):
        other = ScaledTree.of(asking.unmoved(number).fitted)
        if other is None or not tree.same_as(other):
            return None
    query = problem.query_features
    lows, highs = tree.boxes(query, box.black_box.handing(problem.people).rows)
    moves = np.clip(0.0, lows, highs)
    moves = moves[((lows <= highs) & np.isfinite(moves)).all(axis=1)]
    outputs = box.says(query + moves).outputs
    level = levels(problem, outputs)
    return Leaves(moves, problem.allowance.norm.length(moves), *judged_outputs(problem, outputs), level)
