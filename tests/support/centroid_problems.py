"""Random problems for tests, and an oracle that shares no code with the package."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import oar

NORMS = (1, 2, math.inf)


@dataclass
class World:
    """Plain arrays from which both the package and the oracle start."""

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    budgets: np.ndarray
    mask: np.ndarray
    query: np.ndarray
    goal: int
    norm: float

    def problem(self, **changes) -> oar.Problem:
        action = {"budget": self.budgets, "norm": self.norm, "participants": self.mask} | changes
        return oar.Problem(
            oar.Population(self.features, self.labels, self.weights),
            oar.NearestCentroid(),
            oar.Query(self.query, self.goal, budget=float(self.budgets.max())),
            oar.Perturb(**action),
        )

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.labels)


def random_world(seed: int, people: int | None = None, norm: float | None = None, spread: float = 1.0) -> World:
    """Draw everything at random: sizes, weights (some zero), budgets (some zero), participants, norm."""
    rng = np.random.default_rng(seed)
    classes, dimensions = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    size = people or int(rng.integers(classes, 40))
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, max(0, size - classes))])
    labels = rng.permutation(labels[: max(size, classes)])
    size = labels.size
    centres = rng.normal(0, 2, (classes, dimensions))
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], size, p=[0.1, 0.3, 0.4, 0.2])
    for code in range(classes):
        weights[np.flatnonzero(labels == code)[0]] = 1.0
    return World(
        features=centres[labels] + spread * rng.normal(size=(size, dimensions)),
        labels=labels,
        weights=weights,
        budgets=rng.choice([0.0, 0.3, 1.0, 2.5], size, p=[0.1, 0.3, 0.4, 0.2]),
        mask=rng.random(size) < 0.7,
        query=rng.normal(0, 2, dimensions),
        goal=int(rng.integers(0, classes)),
        norm=norm or float(rng.choice(NORMS)),
    )


seeds = st.integers(0, 2**32 - 1)


def oracle_radii(world: World) -> np.ndarray:
    return np.array(
        [
            sum(w * e for w, e, m in zip(world.weights[rows], world.budgets[rows], world.mask[rows], strict=True) if m)
            / world.weights[rows].sum()
            for rows in (world.labels == code for code in world.classes)
        ]
    )


def oracle_centroids(world: World) -> np.ndarray:
    return np.array(
        [
            np.average(world.features[world.labels == code], axis=0, weights=world.weights[world.labels == code])
            for code in world.classes
        ]
    )


def oracle_distances(world: World, radii: np.ndarray) -> np.ndarray:
    """Best distances, the goal's by convex optimisation, the others' by looking at every extreme point."""
    distances = []
    for code, (centroid, radius) in enumerate(zip(oracle_centroids(world), radii, strict=True)):
        away = centroid - world.query
        if code == world.goal:
            distances.append(_nearest(away, radius, world.norm))
        elif world.norm == 2:
            distances.append(float(np.linalg.norm(away)) + radius)
        else:
            distances.append(max(float(np.linalg.norm(away + radius * corner)) for corner in _corners(world)))
    return np.array(distances)


def _corners(world: World) -> list[np.ndarray]:
    dimensions = world.query.size
    if world.norm == 1:
        return [sign * np.eye(dimensions)[axis] for axis in range(dimensions) for sign in (-1, 1)]
    return [np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=dimensions)]


def _nearest(away: np.ndarray, radius: float, norm: float) -> float:
    """Least ‖away + s‖ over the p-ball: bisect the threshold of the optimality conditions."""
    size = np.abs(away)
    if norm == 2:
        return max(float(np.linalg.norm(away)) - radius, 0.0)
    if norm == math.inf:
        return float(np.linalg.norm(np.maximum(size - radius, 0)))
    if size.sum() <= radius:
        return 0.0
    low, high = 0.0, float(size.max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(size - middle, 0).sum() > radius else (low, middle)
    return float(np.linalg.norm(np.minimum(size, low)))


def oracle_loss(distances: np.ndarray, goal: int) -> float:
    return math.log(sum(math.exp(distances[goal] - distance) for distance in distances))


def oracle_margin(distances: np.ndarray, goal: int) -> float:
    return min(distance for code, distance in enumerate(distances) if code != goal) - distances[goal]


def brute_coalition(world):
    """Return the least number of members over all subsets, by the oracle."""
    able = np.flatnonzero(world.mask & (world.budgets > 0) & (world.weights > 0))
    for size in range(len(able) + 1):
        for chosen in itertools.combinations(able, size):
            mask = np.zeros_like(world.mask)
            mask[list(chosen)] = True
            some = type(world)(**{**vars(world), "mask": mask})
            if oracle_margin(oracle_distances(some, oracle_radii(some)), world.goal) > 1e-12:
                return size
    return None
