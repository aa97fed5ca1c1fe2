"""Small problems for the tests of questions."""

from __future__ import annotations

import numpy as np
import pandas as pd

import oar
from oar.models import PrototypeNetwork

QUICK = oar.solvers.ProjectedGradient(restarts=0, max_steps=60)


def two_groups(seed=0, model=None, size=16, budget=0.5, **action):
    """Return a problem of two groups on a plane, with the query on the wrong side."""
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 2
    features = rng.normal(0, 0.6, size=(size, 2)) + 2.0 * labels[:, None]
    people = oar.Population(features, np.array(["no", "yes"])[labels])
    query = oar.Query([0.7, 0.6], "yes")
    return oar.Problem(people, model or PrototypeNetwork(), query, oar.Perturb(budget, **action))


def as_centroids(problem):
    return oar.Problem(problem.people, oar.NearestCentroid(), problem.query, problem.action)


def small_table(seed=0, model=None, budget=1.0, limits=None):
    rng = np.random.default_rng(seed)
    size = 14
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, 6, size),
            "kind": rng.choice(["a", "b", "c"], size),
            "share": rng.normal(size=size),
            "outcome": np.array(["no", "yes"])[np.arange(size) % 2],
        }
    )
    frame["share"] += np.arange(size) % 2
    people = oar.Population.from_frame(frame, "outcome")
    query = oar.Query({"count": 2, "kind": "a", "share": -0.3}, "yes")
    return oar.Problem(people, model or oar.SoftmaxRegression(0.1), query, oar.Perturb(budget, limits=limits))
