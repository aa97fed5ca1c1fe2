"""Many budgets, participation shares and queries from one pass over the data.

The centroids and the classes of the people drawn for each share are all that a nearest-centroid answer
depends on, so a cell (query, share, budget) costs O(k·d) arithmetic and reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.actions.participation import members_in_share, random_order
from oar.actions.sets.norms import Norm
from oar.checks import check_kind, check_that, is_listing, with_near_names
from oar.errors import DataError
from oar.models import Centroids, NearestCentroid
from oar.models.centroid.nearest_centroid import FITTED_MEANS, loss_and_margin, rival_ties
from oar.models.training import Array
from oar.people import Population
from oar.people.tables.arrays import as_floats, as_vector, check_finite, is_frame
from oar.solvers.centroids.exact import Reach
from oar.typing import NormLike


@dataclass(frozen=True)
class Sweep:
    """The minimal goal loss in every cell; axes are queries × shares × budgets.

    These are the exact solver's values. `oar.collective` at any cell audits that cell.
    """

    budgets: Array
    shares: Array
    losses: Array
    reached: NDArray[np.bool_]


@with_near_names
def sweep(
    people: Population,
    queries: ArrayLike,
    goals: Sequence[Any],
    budgets: ArrayLike,
    shares: ArrayLike = (1.0,),
    norm: NormLike = 2,
    seed: int = 0,
    centroids: Centroids | None = None,
) -> Sweep:
    """Solve every combination of query (with its goal), participation share and common budget.

    Args:
        people: the data subjects.
        queries: (m, d) features.
        goals: m labels.
        budgets: the common budgets.
        shares: participation shares, drawn (nested) as by `Perturb(budget, participants=share, seed=seed)`.
        norm: 1, 2 or numpy.inf.
        seed: the seed of the draws.
        centroids: of these people, where they are known already; saves the pass.
    """
    points = _points(queries, people)
    budgets, shares = as_floats(budgets, "budgets"), as_floats(shares, "shares")
    _check(points, goals, budgets, shares, people.dimensions)
    ball, everyone = Norm.of(norm), np.ones(len(people.classes))
    model = NearestCentroid()
    model.check(people)
    centroids = model.fit(people) if centroids is None else check_kind("centroids", centroids, Centroids, FITTED_MEANS)
    # Participating share of each class's weight, times budgets: the radii (shares, budgets, k) of every cell. They
    # lie class by class in memory, because sums over the few classes then run along whole rows of cells.
    unit = np.ascontiguousarray(class_participation(people, centroids, shares, seed).T)
    radii = np.moveaxis(unit[:, :, None] * budgets, 0, -1)
    losses = np.empty((len(points), shares.size, budgets.size))
    reached = np.empty(losses.shape, dtype=bool)
    for position, (point, goal) in enumerate(zip(points, goals, strict=True)):
        code = people.coding.position(goal, f"goals[{position}]")
        ties = rival_ties(centroids, point, code)
        reach = Reach(centroids.positions - point, code, everyone, 1.0, ball, ties)
        distances = reach.distances(radii)
        losses[position], margins = loss_and_margin(distances, code)
        np.greater(margins, ties.max(), out=reached[position])
        close = (margins > 0) & ~reached[position]
        if close.any():  # within the widest tie of all duels: look at each duel's own
            reached[position][close] = loss_and_margin(distances[close] - ties, code)[1] > 0
    return Sweep(budgets, shares, losses, reached)


def class_participation(people: Population, centroids: Centroids, shares: Array, seed: int) -> Array:
    """Return (shares, k): how much of each class's weight the random members of each share hold.

    The draws are nested, so each person enters at one share: count people by (share, class), then add up.
    """
    classes = len(people.classes)
    drawn = [members_in_share(people.size, share) for share in shares]
    if all(number == people.size for number in drawn):
        return np.ones((shares.size, classes))
    order = random_order(people.size, seed)
    rising = np.argsort(drawn, kind="stable")
    codes, weights = people.codes(0, people.size), people.row_weights
    held, total, before = np.empty((shares.size, classes)), np.zeros(classes), 0
    for position in rising:
        joining = order[before : drawn[position]]
        total = total + np.bincount(codes[joining], weights=weights[joining], minlength=classes)
        held[position], before = total, drawn[position]
    return held / centroids.class_weights


def _points(queries: Any, people: Population) -> Array:
    """Return queries (m, d); a frame's columns are matched to the population's by name."""
    if is_frame(queries):
        rows = [queries.iloc[[row]] for row in range(len(queries))]
        found = [as_vector(row, people.names, people.dimensions, f"queries[{at}]") for at, row in enumerate(rows)]
        return np.stack(found) if found else np.empty((0, people.dimensions))
    return np.atleast_2d(as_floats(queries, "queries"))


def _check(points: Array, goals: Sequence[Any], budgets: Array, shares: Array, dimensions: int) -> None:
    if points.ndim != 2 or points.shape[1] != dimensions:
        raise DataError(
            f"queries[0]: must have {dimensions} features like the population, got shape {points[0].shape}."
        )
    check_finite(points, "queries")
    check_that(is_listing(goals), "goals", "a list of labels, one for each query", goals)
    check_that(len(points) == len(goals), "goals", f"one for each of the {len(points)} queries", len(goals))
    if budgets.ndim != 1 or not budgets.size or not ((budgets >= 0) & np.isfinite(budgets)).all():
        raise DataError(f"budgets: must be a list of finite numbers ≥ 0, got {budgets}.")
    if shares.ndim != 1 or not shares.size or not ((shares >= 0) & (shares <= 1)).all():
        raise DataError(f"shares: must be a list of numbers between 0 and 1, got {shares}.")
