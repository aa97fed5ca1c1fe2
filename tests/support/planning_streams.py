"""Small streams that plans over time are made for."""

import numpy as np

import oar
from oar.online import FullRefit, OnlineProblem, Stream, Window

BUDGET = 0.4


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
