"""Decision regions of nearest centroid (Voronoi cells), as polygons and as distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.actions import Norm
from oar.errors import DataError
from oar.solvers.query.shortest_move import shortest_move_into

Array = NDArray[np.float64]


def nearest_in_cell(centroids: Array, point: Array, goal: int) -> Array:
    """Return the point of the goal's closed cell that is nearest to `point`.

    >>> nearest_in_cell(np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([1.0, 3.0]), goal=1)
    array([2., 3.])
    """
    move = shortest_move_into(centroids - point, goal, Norm(2.0))
    if move is None:
        raise DataError("centroids: the goal's cell is empty, because another class has the same centroid.")
    return point + move


def distance_to_cell(centroids: Array, point: Array, goal: int) -> float:
    """Return how far (p = 2) a query must at least move to be nearest to the goal's centroid.

    Any larger move can do it; this very one ends in a tie. It is the individual's minimal budget.

    >>> distance_to_cell(np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([1.0, 3.0]), goal=1)
    1.0
    """
    return float(np.linalg.norm(nearest_in_cell(centroids, point, goal) - point))


def cell_polygons(centroids: Array, low: Array, high: Array) -> list[Array]:
    """Return the part of each class's cell that lies in the box from `low` to `high`, as corners (m, 2).

    A cell outside the box has no corners.
    """
    (left, bottom), (right, top) = low, high
    box = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
    polygons = []
    for own, centroid in enumerate(centroids):
        polygon = box
        for other, rival in enumerate(centroids):
            if other != own:
                polygon = _clip(polygon, rival - centroid, 0.5 * (rival + centroid))
        polygons.append(polygon)
    return polygons


def _clip(polygon: Array, normal: Array, middle: Array) -> Array:
    """Cut away what lies beyond the line through `middle` (Sutherland & Hodgman)."""
    if not len(polygon):
        return polygon
    beyond = (polygon - middle) @ normal
    kept = []
    for here, there, side, next_side in zip(
        polygon, np.roll(polygon, -1, axis=0), beyond, np.roll(beyond, -1), strict=True
    ):
        if side <= 0:
            kept.append(here)
        if (side < 0 < next_side) or (next_side < 0 < side):
            kept.append(here + side / (side - next_side) * (there - here))
    return np.array(kept).reshape(-1, 2)


def cell_boundaries(centroids: Array, low: Array, high: Array) -> list[Array]:
    """Return the boundary between each two neighbouring cells inside the box, as segments (2, 2), each once."""
    segments = []
    reach = 2 * float(np.linalg.norm(high - low) + np.abs(centroids - low).max())
    for first in range(len(centroids)):
        for second in range(first + 1, len(centroids)):
            normal = centroids[second] - centroids[first]
            middle = 0.5 * (centroids[second] + centroids[first])
            along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
            third = [other for other in range(len(centroids)) if other not in (first, second)]
            # Every limit has the form (middle + t·along − place)·outwards ≤ 0, and so bounds t from one side.
            outwards = np.vstack([np.eye(2), -np.eye(2), *(centroids[other] - centroids[first] for other in third)])
            places = np.vstack(
                [high, high, low, low, *(0.5 * (centroids[other] + centroids[first]) for other in third)]
            )
            slope, level = outwards @ along, np.einsum("ld,ld->l", outwards, middle - places)
            if np.any((slope == 0) & (level > 0)):
                continue
            start = max((-level[slope < 0] / slope[slope < 0]).max(initial=-reach), -reach)
            end = min((-level[slope > 0] / slope[slope > 0]).min(initial=reach), reach)
            if start < end:
                segments.append(middle + np.outer([start, end], along))
    return segments
