import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import random_world, seeds

import oar


@given(seeds)
@settings(max_examples=30)
def test_every_cell_is_what_collective_says(seed):
    world = random_world(seed)
    people = oar.Population(world.features, world.labels, world.weights)
    rng = np.random.default_rng(seed)
    queries = rng.normal(0, 2, (2, world.query.size))
    goals = [people.classes[0], people.classes[-1]]
    budgets, shares = [0.0, 0.4, 2.0], [0.9, 0.0, 0.3, 1.0]
    table = oar.solvers.sweep(people, queries, goals, budgets, shares, norm=world.norm, seed=5)
    for (row, (query, goal)), (column, share), (layer, budget) in (
        (a, b, c)
        for a in enumerate(zip(queries, goals, strict=True))
        for b in enumerate(shares)
        for c in enumerate(budgets)
    ):
        action = oar.Perturb(budget, world.norm, participants=share, seed=5)
        result = oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query(query, goal), action))
        assert table.losses[row, column, layer] == pytest.approx(result.loss, rel=1e-9, abs=1e-12)
        assert table.reached[row, column, layer] == result.success


def test_a_sweep_reads_the_data_once():
    people = oar.Population(np.arange(40.0).reshape(20, 2), np.arange(20) % 3)
    passes = []
    original = people.chunks
    people.chunks = lambda *args: passes.append(1) or original(*args)
    oar.solvers.sweep(people, np.zeros((3, 2)), [0, 1, 2], np.linspace(0, 1, 9), np.linspace(0, 1, 7))
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goals": [0]}, "goals: must be one for each of the 2 queries"),
        ({"goals": [0, 9]}, r"goals\[1\]: must be one of the classes"),
        ({"budgets": [-1.0]}, "budgets: must be"),
        ({"budgets": []}, "budgets: must be"),
        ({"shares": [1.5]}, "shares: must be"),
        ({"queries": [[0.0], [1.0]]}, r"queries\[0\]: must have 2 features"),
        ({"norm": 3}, "norm: must be"),
    ],
)
def test_bad_sweeps(change, message):
    people = oar.Population(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    arguments = {"queries": np.zeros((2, 2)), "goals": [0, 1], "budgets": [1.0], "shares": [1.0]} | change
    with pytest.raises(oar.errors.OARError, match=message):
        oar.solvers.sweep(people, **arguments)
