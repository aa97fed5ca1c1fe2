"""Black boxes whose regions are known: the leaves of one tree, and nearest neighbours with a vote each.

**A tree.** Every leaf is a box of moves, found through the tree's own rounding (`oar.estimators.tree_boxes`). Whatever
the query does, it ends in a leaf whose box is within its budget; the referee asks its own tree what each says.

**Members among neighbours.** Member i can be at distances in [lo_i, hi_i] from the query. If S are the k nearest and
r = max_{i∈S} lo_i, then all with hi < r are in S and all of S have lo ≤ r. With m_c people of class c who must be in
and M_c who may, the goal has at most min(M_g, k − Σ_{c≠g} m_c) votes, and it leads only if m_c is less than that for
every other class, and the rest of the votes can be spread with fewer for each: all r are looked at.

**The query among neighbours.** For S to be the k nearest, (a_j − a_i)·δ ≤ (‖a_j‖² − ‖a_i‖²)/2 for all i in S and j
outside. One of these, or multipliers for all of them, show that S is too far away; all S are looked at.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.estimators.black_box import LEAST, Box
from oar.estimators.tree_boxes import ScaledTree
from oar.plans.proof import Hints, Proof
from oar.problem import Problem
from oar.referee.black_box import heard_at, judged_outputs
from oar.referee.contributions import ALLOWED, Array
from oar.referee.verdicts import UNIT, proved
from oar.retraining.black_box import ROUNDED, neighbours_of

Counts = NDArray[np.intp]
LEAVES = "all leaves within the budget, as boxes"
VOTES = "all votes that can be had, by the distances that members can be at"
SETS = "all neighbourhoods, each too far away by its half-spaces"
MOST_SETS = 20_000


def of_black_box(problem: Problem, box: Box, hints: Hints, members: bool, query: bool) -> Proof:
    """Return what is proved of moves of members, or of the query, before a box that was trained on unmoved people."""
    if problem.limits is not None or problem.levers.given or members == query:
        return Proof()
    votes = neighbours_of(problem)
    if votes is None:
        return _of_tree(problem, box) if query else Proof()
    if members:
        return _of_members(problem, votes) if problem.plain and problem.best is None else Proof()
    return _of_sets(problem, votes, hints)


# -- a tree ----------------------------------------------------------------------------------------------------------


def _of_tree(problem: Problem, box: Box) -> Proof:
    tree = ScaledTree.of(box.fitted)
    if tree is None:
        return Proof()
    query = problem.query_features
    lows, highs = tree.boxes(query, box.black_box.handing(problem.people).rows)
    moves = np.clip(0.0, lows, highs)
    lengths = np.where((lows <= highs).all(axis=1), problem.allowance.norm.length(moves), np.inf)
    within = moves[lengths <= problem.query_budget * ALLOWED * (1 + 8 * query.size * UNIT)]
    told = heard_at(problem, box, query + within)
    return Proof(min(one.loss for one in told), not any(one.reached for one in told), LEAVES)


# -- members among neighbours ----------------------------------------------------------------------------------------


def _of_members(problem: Problem, votes: int) -> Proof:
    people, goal, norm = problem.people, problem.goal, problem.allowance.norm
    offsets = np.asarray(people.features, dtype=np.float64) - problem.query_features
    radii, codes = problem.allowance.everyones(people.size) * ALLOWED, people.codes(0, people.size)
    low, high = norm.nearest_distance(offsets, radii) ** 2, norm.farthest_distance(offsets, radii) ** 2
    # Who is nearer by less than rounding may be counted or not.
    size = float(np.abs(offsets).max(initial=0.0) + np.abs(problem.query_features).max(initial=0.0) + radii.max())
    blur = 4 * ROUNDED * offsets.shape[1] * size**2
    levels = np.unique(low)
    classes = len(people.classes)
    must = _counted(high, codes, classes, levels - blur, "left")
    may = _counted(low, codes, classes, levels + blur, "right")
    others = np.delete(np.arange(len(people.classes)), goal)
    most = np.minimum(may[:, goal], votes - must[:, others].sum(axis=1))
    possible = (most >= must[:, goal]) & (may.sum(axis=1) >= votes)
    best = int(most[possible].max(initial=0))
    silent = max(int((may[:, others] == 0).sum(axis=1).min(initial=0)), len(others) - (votes - best), 0) + (best == 0)
    share = max(best / votes, LEAST)
    bound = (-np.log(share) + np.log1p(silent * LEAST)) * (1 - 16 * UNIT)
    fewer = np.minimum(may[:, others], most[:, None] - 1)
    leads = possible & (must[:, others] < most[:, None]).all(axis=1) & (fewer.sum(axis=1) >= votes - most)
    return proved(problem, bound, not leads.any(), VOTES)


def _counted(ends: Array, codes: NDArray[Any], classes: int, levels: Array, side: Any) -> Counts:
    """Return how many of each class have ends up to each level (l, c); below it, if `side` is "left"."""
    return np.column_stack([np.searchsorted(np.sort(ends[codes == code]), levels, side) for code in range(classes)])


# -- the query among neighbours --------------------------------------------------------------------------------------


def _of_sets(problem: Problem, votes: int, hints: Hints) -> Proof:
    """Look at every neighbourhood that is not shown to be too far away."""
    people, norm = problem.people, problem.allowance.norm
    if comb(people.size, votes) > MOST_SETS or problem.several:
        return Proof()
    offsets = np.asarray(people.features, dtype=np.float64) - problem.query_features
    size = float(np.abs(offsets).max(initial=0.0) + np.abs(problem.query_features).max(initial=0.0))
    budget, blur = problem.query_budget * ALLOWED, 4 * ROUNDED * offsets.shape[1] * size**2
    squares = np.einsum("nd,nd->n", offsets, offsets)
    needed = (squares[:, None] - squares[None] - blur) / 2  # for i to be nearer than j
    apart = norm.dual.length(offsets[:, None] - offsets[None]) * (1 + 1e-12)
    beyond = needed > budget * apart  # (i, j): the query cannot come nearer to i than to j
    eye, codes = np.eye(len(people.classes)), people.codes(0, people.size)
    losses, reached, known = [], False, hints.excluded or {}
    judged: dict[tuple[float, ...], tuple[float, bool]] = {}
    for some in combinations(range(people.size), votes):
        inside = np.zeros(people.size, dtype=bool)
        inside[list(some)] = True
        if beyond[inside][:, ~inside].any() or _excluded(offsets, inside, blur, norm, budget, known.get(some)):
            continue
        counts = tuple(eye[codes[inside]].sum(axis=0))
        if counts not in judged:
            judged[counts] = _judged(problem, np.array(counts))
        losses.append(judged[counts][0])
        reached = reached or judged[counts][1]
    return Proof(min(losses, default=np.inf), not reached, SETS)


def _excluded(
    offsets: Array, inside: NDArray[np.bool_], blur: float, norm: Norm, budget: float, multipliers: Array | None
) -> bool:
    """Check multipliers λ ≥ 0 of all inequalities (i, j): λᵀNδ ≥ −ε‖Nᵀλ‖_q must be more than they leave."""
    if multipliers is None:
        return False
    near, far = offsets[inside], offsets[~inside]
    normals = (far[None] - near[:, None]).reshape(-1, offsets.shape[1])
    sums = (far[None] + near[:, None]).reshape(normals.shape)
    if multipliers.shape != (len(normals),) or not np.isfinite(multipliers).all() or (multipliers < 0).any():
        return False
    slack = (np.einsum("cd,cd->c", normals, sums) + blur) / 2
    sizes = (normals.shape[1] + 8) * UNIT * np.einsum("cd,cd->c", np.abs(normals), np.abs(sums))
    room = float(multipliers @ (slack + sizes))
    pull = float(norm.dual.length(normals.T @ multipliers))
    unsure = (
        (multipliers.size + 16) * UNIT * float(multipliers @ (np.abs(slack) + budget * np.abs(normals).sum(axis=1)))
    )
    return bool(-room - unsure > budget * pull)


def _judged(problem: Problem, counts: Array) -> tuple[float, bool]:
    """Return the goal loss of neighbours counted by class, and whether they give the goal."""
    told = judged_outputs(problem, problem.wishes[0], np.log(np.maximum(counts / counts.sum(), LEAST)))
    return told.loss, told.reached
