"""Decision regions against brute force: dense grids, and points thrown at random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oar_paper.figures.voronoi_cells import cell_boundaries, cell_polygons, distance_to_cell, nearest_in_cell

LOW, HIGH = np.array([-3.0, -2.0]), np.array([3.0, 4.0])


def nearest(centroids, points):
    return ((centroids**2).sum(axis=1) - 2 * points @ centroids.T).argmin(axis=1)  # less |point|², the same for all


def area(polygon):
    x, y = polygon.T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) if len(polygon) else 0.0


@pytest.mark.parametrize("seed", range(8))
def test_distance_agrees_with_a_dense_grid(seed):
    rng = np.random.default_rng(seed)
    centroids, point, goal = rng.normal(size=(4, 2)), rng.normal(size=2), int(rng.integers(4))
    distance = distance_to_cell(centroids, point, goal)
    # All places up to 1.2 times that far, in rings: those of the goal's cell must begin at that distance.
    step = 2e-3
    radii = np.arange(0.0, max(1.2 * distance, 0.1), step)
    angles = np.linspace(0, 2 * np.pi, 2_000, endpoint=False)
    rings = point + radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inside = nearest(centroids, rings.reshape(-1, 2)).reshape(len(radii), -1) == goal
    first = radii[inside.any(axis=1)].min()
    assert distance <= first + 1e-12
    assert first <= distance + 2 * step


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 10))
def test_nearest_point_is_in_the_cell_and_no_other_is_nearer(seed, classes, dimensions):
    rng = np.random.default_rng(seed)
    centroids, point, goal = rng.normal(size=(classes, dimensions)), 2 * rng.normal(size=dimensions), 0
    found = nearest_in_cell(centroids, point, goal)
    distances = np.linalg.norm(centroids - found, axis=1)
    assert distances[goal] <= distances.min() + 1e-9
    # The variational inequality of a projection: (z − found)·(point − found) ≤ 0 for every z of the cell.
    others = np.concatenate(
        [rng.normal(size=(300, dimensions)), centroids[goal] + 0.1 * rng.normal(size=(300, dimensions))]
    )
    others = others[nearest(centroids, others) == goal]
    assert ((others - found) @ (point - found) <= 1e-9).all()


def test_a_point_inside_needs_no_move():
    centroids = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    assert distance_to_cell(centroids, np.array([0.5, 1.0]), goal=0) == 0.0


def test_a_class_in_between_makes_the_way_longer():
    line = np.array([[0.0, 0.0], [10.0, 0.0]])
    with_third = np.vstack([line, [5.0, 0.5]])
    query = np.array([2.5, 0.0])
    assert distance_to_cell(line, query, goal=1) == pytest.approx(2.5)
    assert distance_to_cell(with_third, query, goal=1) > 3.0


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_polygons_tile_the_box(seed, classes):
    rng = np.random.default_rng(seed)
    centroids = rng.normal(0, 2, (classes, 2))
    polygons = cell_polygons(centroids, LOW, HIGH)
    assert sum(area(polygon) for polygon in polygons) == pytest.approx(np.prod(HIGH - LOW))
    for code, polygon in enumerate(polygons):
        if area(polygon) > 1e-6:
            weights = rng.dirichlet(np.ones(len(polygon)), 20)
            assert (nearest(centroids, weights @ polygon) == code).all()


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_boundaries_are_where_two_are_nearest(seed, classes):
    centroids = np.random.default_rng(seed).normal(0, 2, (classes, 2))
    segments = cell_boundaries(centroids, LOW, HIGH)
    for segment in segments:
        for part in (0.02, 0.5, 0.98):
            place = segment[0] + part * (segment[1] - segment[0])
            distances = np.sort(np.linalg.norm(centroids - place, axis=1))
            assert distances[0] == pytest.approx(distances[1], abs=1e-9)
            assert (place >= LOW - 1e-9).all()
            assert (place <= HIGH + 1e-9).all()
    # Their total length is half of the polygons' edges that are not the box's own.
    inner = 0.0
    for polygon in cell_polygons(centroids, LOW, HIGH):
        for here, there in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            on_box = np.isclose(here, there) & (np.isclose(here, LOW) | np.isclose(here, HIGH))
            inner += 0.0 if on_box.any() else float(np.linalg.norm(there - here))
    assert sum(np.linalg.norm(b - a) for a, b in segments) == pytest.approx(inner / 2, abs=1e-6)
