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

from oar.estimators.tree_boxes import ScaledTree
from oar.models.training import Array
from oar.plans import Proposal
from oar.problem import Problem
from oar.retraining.black_box import BlackBoxTraining, plain_black_box
from oar.solvers.black_box.exact.claims import Flags, judged_outputs, levels, own_way, proposal

SEEDS = 6  # trainings that must end in the same tree: one tie of two splits is overlooked once in 32 times
NO_LEAF = "no leaf of the tree gives"


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves that the query can get into: shortest moves (l, d), lengths, losses and whether each has the goal (l,)."""

    moves: Array
    lengths: Array
    losses: Array
    reached: Flags
    level: bool  # whether any gives the goal as much as another class, and no more

    def nearest(self) -> int:
        """Return the leaf with the shortest move, among those that give the goal if there are any."""
        return int(np.lexsort([self.losses, self.lengths, ~self.reached])[0])


def propose(problem: Problem) -> Proposal | None:
    """Move the query into the best leaf within its budget; None where the model is not one tree of plain features."""
    leaves = leaves_of(problem)
    if leaves is None:
        return None
    near = np.flatnonzero(leaves.lengths <= problem.query_budget)  # the query's own leaf always is
    # The goal first, then the least loss, then the shortest move: the last key counts first
    keys = leaves.lengths, leaves.losses, ~leaves.reached
    best = near[np.lexsort([key[near] for key in keys])[0]]
    shortest = float(leaves.lengths[leaves.reached].min(initial=np.inf))
    return proposal(
        problem,
        leaves.moves[best],
        0.0,
        loss=float(leaves.losses[best]),
        bound=float(leaves.losses[near].min()),
        suffices=own_way(problem, shortest, NO_LEAF, leaves.level),
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
