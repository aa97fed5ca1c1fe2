"""Small streams, problems over time, and loops that share no code with the package."""

from __future__ import annotations

from typing import Any

import numpy as np

import oar
from oar import online
from oar.online import FullRefit, OnlineProblem, Stream, Window

BUDGET = 0.4
RULES = {
    "full": online.FullRefit(),
    "window": online.Window(2),
    "means": online.ExponentialMeans(0.3),
    "steps": online.GradientSteps(0.1, 3),
    "tune": online.FineTune(0.5),
}


def batch(seed: int, size: int = 9, dimensions: int = 2, classes: int = 3) -> oar.Population:
    """Draw people of overlapping classes, all of them there, with unlike weights."""
    rng = np.random.default_rng([7, seed])
    codes = np.arange(size) % classes
    centres = np.random.default_rng(1).normal(0, 1.5, (classes, dimensions))
    return oar.Population(centres[codes] + rng.normal(size=(size, dimensions)), codes, rng.uniform(0.5, 1.5, size))


def stream(rounds: int = 3, history: bool = True, seed: int = 0, **options: Any) -> online.Stream:
    """Return a few rounds, and a history."""
    before = batch(seed + 99) if history else None
    return online.Stream.of_batches([batch(seed + number) for number in range(rounds)], history=before, **options)


def valued(given: online.Stream) -> online.Stream:
    """Return the same stream with values instead of classes."""
    people = given.people
    values = people.features @ np.array([1.0, -0.5]) + 0.2 * people.labels
    return online.Stream(oar.Population(people.features, values, people.weights), given.when, given.who)


def problem(rule: Any, model: Any = None, given: online.Stream | None = None, **changes: Any) -> online.OnlineProblem:
    """Ask for class 0 (or a value) in the middle of everybody."""
    model = oar.NearestCentroid() if model is None else model
    given = stream() if given is None else given
    query = oar.Query([0.4, 0.2], 1.5, within=0.1) if getattr(model, "regresses", False) else oar.Query([0.4, 0.2], 0)
    options = {"query": query, "action": oar.Perturb(0.5)} | changes
    return online.OnlineProblem(given, model, rule, **options)


def some_moves(given: online.Stream, seed: int = 0, size: float = 0.3) -> np.ndarray:
    """Draw moves of everyone who acts."""
    shape = (given.people.size, given.people.dimensions)
    return size * np.random.default_rng([3, seed]).normal(size=shape) * (given.when >= 0)[:, None]


def slope_by_differences(walk: online.Rollout, moves: np.ndarray, along: np.ndarray, counts: np.ndarray) -> float:
    """Return how Σ counts · losses changes along a direction of moves, by central differences."""
    step = 1e-5
    up, down = (counts @ walk.forward(moves + sign * step * along).losses for sign in (1, -1))
    return float(up - down) / (2 * step)


def four_in_two_rounds(model, rule, shared, goal_for="last"):
    """Four people on a line, twice, after two who were there before."""
    rng = np.random.default_rng(8)
    rounds = [np.array([[0.0], [0.3], [2.0], [2.4]]) + rng.normal(0, 0.1, (4, 1)) for _ in range(2)]
    history = ([[0.1], [0.2], [2.1], [2.2]], ["no", "no", "yes", "yes"])
    stream = Stream.of_batches([(rows, ["no", "no", "yes", "yes"]) for rows in rounds], history=history, who=True)
    action = oar.Perturb(BUDGET)
    return OnlineProblem(stream, model, rule, oar.Query([0.9], "yes"), action, goal_for, shared), rounds


def three_rounds(model, rule, shared=False, goal_for="last", query=(0.7, 0.4), budget=BUDGET, norm=2):
    """Six people in the plane, three times; with history where the rule needs some to begin with."""
    rng = np.random.default_rng(3)
    places = np.repeat([[0.0, 0.0], [2.0, 1.0]], 3, axis=0)
    labels = ["no"] * 3 + ["yes"] * 3
    batches = [(places + rng.normal(0, 0.4, places.shape), labels) for _ in range(3)]
    history = None if isinstance(rule, FullRefit | Window) else (places + rng.normal(0, 0.4, places.shape), labels)
    history = None if isinstance(model, oar.NearestCentroid) else history
    stream = Stream.of_batches(batches, history=history, who=True)
    asked = query if isinstance(query, oar.Members) else list(query)
    action = oar.Perturb(budget, norm=norm)
    return OnlineProblem(stream, model, rule, oar.Query(asked, "yes"), action, goal_for, shared)
