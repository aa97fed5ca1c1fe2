"""Small training problems for the tests of signals, and derivatives by finite differences through true refits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.models.linear.losses import SoftmaxRegression
from oar.models.linear.training import LinearTraining
from oar.signals import Memory, refit

TIGHT = 1e-12


@dataclass
class World:
    """A model bound to a few people, the query, and moves that have already begun."""

    training: Any
    labels: np.ndarray
    query: np.ndarray
    target: np.ndarray
    moves: np.ndarray

    def loss(self, moves: np.ndarray, memory: Memory | None) -> float:
        return refit(self.training, moves, self.query, self.target, memory, TIGHT).loss

    def step(self, signal: Any, memory: Memory | None = None, tolerance: float = TIGHT) -> Any:
        return signal.at(self.training, self.moves, self.query, self.target, memory, tolerance)


def random_data(seed: int, people: int = 40, dimensions: int = 3, classes: int = 3) -> tuple[np.ndarray, ...]:
    """Draw overlapping classes and unequal weights; the query lies between two of the classes."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, people - classes)])
    centres = 1.5 * rng.normal(size=(classes, dimensions))
    features = centres[labels] + rng.normal(size=(people, dimensions))
    weights = rng.uniform(0.5, 2.0, people)
    query = 0.3 * centres[0] + 0.7 * centres[1]
    return features, labels, weights / weights.sum(), query, 0.2 * rng.normal(size=features.shape)


def softmax_world(seed: int, l2: float = 0.05, **sizes: int) -> World:
    """Softmax regression through `LinearTraining`; the goal is class 0."""
    features, labels, weights, query, moves = random_data(seed, **sizes)
    targets = np.eye(labels.max() + 1)[labels]
    training = LinearTraining(SoftmaxRegression(l2), features, targets, weights)
    return World(training, labels, query, targets[0], moves)


def finite_differences(world: World, people: list[int], size: float = 1e-3) -> np.ndarray:
    """Return (dL/dδ_i) / w̄_i for some people, (len(people), d): fourth order, by true refits only."""
    memory = Memory(refit(world.training, world.moves, world.query, world.target, None, TIGHT).fit.parameters)
    rows = []
    for person in people:
        for axis in range(world.training.dimensions):
            bump = np.zeros_like(world.moves)
            bump[person, axis] = size

            def rise(times: float, bump: np.ndarray = bump) -> float:
                ahead, behind = world.moves + times * bump, world.moves - times * bump
                return (world.loss(ahead, memory) - world.loss(behind, memory)) / (2 * times * size)

            rows.append((4 * rise(1.0) - rise(2.0)) / 3 / world.training.weights[person])
    return np.array(rows).reshape(len(people), -1)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float((one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other))
