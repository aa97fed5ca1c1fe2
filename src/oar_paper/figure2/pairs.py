"""The same comparison for every ordered pair of classes, because one pair can be a lucky one.

The collective's losses come from `solvers.sweep` (exact, one pass over the data), the individual's and the joint ones
from one batched search a budget. A sample of cells is then solved again by a harder search, and audited by a refit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions import Norm
from oar.solvers import ProjectedGradient, sweep
from oar.solvers.centroids.query_moves import QueryBatch, best_moves
from oar_paper.case import Case, Pair
from oar_paper.figure2.curves import WAYS
from oar_paper.figures.voronoi_cells import distance_to_cell

Array = NDArray[np.float64]
# The fixed starts alone, and few steps: measured against 2,000 steps from random starts too, no loss on these data
# differs by more than 1e-8. The audited sample says how well that holds in each run.
BATCH_SOLVER = ProjectedGradient(max_steps=40, random_starts=0)
AUDIT_SOLVER = ProjectedGradient(max_steps=200, random_starts=8)


@dataclass(frozen=True, eq=False)
class AuditedSample:
    """The differences between batched values and audited ones.

    Attributes:
        cells: (c, 2) positions (pair, budget) of the cells that were solved again and audited.
        of: how many cells there are.
        largest_difference: by way of recourse, max |batched − audited|.
    """

    cells: NDArray[np.intp]
    of: int
    largest_difference: dict[str, float]


@dataclass(frozen=True, eq=False)
class AllPairs:
    """Losses (pairs, budgets) by way of recourse, and both minimal budgets of each pair."""

    pairs: list[Pair]
    budgets: Array
    losses: dict[str, Array]
    collective_minimum: Array
    individual_minimum: Array
    sample: AuditedSample


def all_pairs(case: Case, pairs: list[Pair], budgets: Sequence[float], cells: int | None, seed: int) -> AllPairs:
    """Solve every pair at every budget, and audit a seeded sample of `cells` of them (None: all)."""
    grid = np.asarray(budgets)
    losses = {
        "individual": query_losses(case, pairs, grid, members=False),
        "collective": collective_losses(case, pairs, grid, (1.0,), seed)[:, 0],
        "joint": query_losses(case, pairs, grid, members=True),
    }
    positions = case.centroids.positions
    queries = [case.query(pair) for pair in pairs]
    return AllPairs(
        pairs=pairs,
        budgets=grid,
        losses=losses,
        collective_minimum=np.array(
            [collective_minimum(positions, query, pair.goal) for query, pair in zip(queries, pairs, strict=True)]
        ),
        individual_minimum=np.array(
            [distance_to_cell(positions, query, pair.goal) for query, pair in zip(queries, pairs, strict=True)]
        ),
        sample=_audit_sample(case, pairs, grid, losses, cells, seed),
    )


def choose_pairs(case: Case, count: int | None, seed: int) -> list[Pair]:
    """Return all ordered pairs, or a seeded choice of `count` that contains the paper's."""
    pairs = case.pairs
    if count is None or count >= len(pairs):
        return pairs
    others = [pair for pair in pairs if pair != case.pair]
    drawn = np.random.default_rng([seed, 1]).choice(len(others), count - 1, replace=False)
    return [case.pair, *(others[position] for position in np.sort(drawn))]


def collective_losses(
    case: Case, pairs: list[Pair], budgets: Array, shares: Sequence[float], seed: int
) -> NDArray[np.float64]:
    """Return the exact collective losses (pairs, shares, budgets)."""
    queries = np.array([case.query(pair) for pair in pairs])
    goals = [case.people.classes[pair.goal] for pair in pairs]
    return sweep(case.people, queries, goals, budgets, shares, seed=seed, centroids=case.centroids).losses


def query_losses(case: Case, pairs: list[Pair], budgets: Array, members: bool) -> Array:
    """Return the best losses found (pairs, budgets) where the query moves, with everyone else too if `members`."""
    positions = case.centroids.positions
    offsets = np.array([positions - case.query(pair) for pair in pairs])
    goals = np.array([pair.goal for pair in pairs], dtype=np.intp)
    columns = []
    # One batch a budget: together they would not fit into the processor's cache, and take far longer.
    for budget in budgets:
        radii = np.full(offsets.shape[:2], budget if members else 0.0)
        batch = QueryBatch(offsets, goals, radii, np.full(len(pairs), budget), Norm.of(2))
        columns.append(best_moves(batch, BATCH_SOLVER).values)
    return np.stack(columns, axis=1)


def collective_minimum(centroids: Array, query: Array, goal: int) -> float:
    """Return max(0, (d_g − min_{c≠g} d_c)/2): the collective's minimal budget for p = 2 if everyone takes part."""
    distances = np.linalg.norm(centroids - query, axis=1)
    return max(0.0, 0.5 * float(distances[goal] - np.delete(distances, goal).min()))


def _audit_sample(
    case: Case, pairs: list[Pair], budgets: Array, losses: dict[str, Array], cells: int | None, seed: int
) -> AuditedSample:
    count = len(pairs) * budgets.size
    drawn = np.arange(count)
    if cells is not None and cells < count:
        drawn = np.sort(np.random.default_rng([seed, 2]).choice(count, cells, replace=False))
    places = np.stack(np.unravel_index(drawn, (len(pairs), budgets.size)), axis=1)
    largest = dict.fromkeys(WAYS, 0.0)
    for row, column in places:
        problem = case.problem(float(budgets[column]), pairs[row])
        for name, way in WAYS.items():
            audited = way(problem, solver="exact" if name == "collective" else AUDIT_SOLVER).loss
            largest[name] = max(largest[name], abs(float(losses[name][row, column]) - audited))
    return AuditedSample(places, count, largest)
