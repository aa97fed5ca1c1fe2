"""Projections onto what people may do, against SciPy's SLSQP and against what projections promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from oar.actions.sets.norms import Norm
from oar.actions.sets.region import Levels, Region

NORMS = [1.0, 2.0, np.inf]


def random_region(rng, people, numbers, levels, p, links):
    """Boxes of which some sides are shut, one category of which some levels may not be taken, links of little room."""
    width = numbers + levels
    lower = -rng.uniform(0, 1, (people, width)) * (rng.random((people, width)) > 0.2)
    upper = rng.uniform(0, 1, (people, width)) * (rng.random((people, width)) > 0.2)
    radii = rng.uniform(0, 1.2, people) * (rng.random(people) > 0.1)
    category = Levels(slice(numbers, width), rng.integers(levels, size=people), rng.uniform(0.3, 1.5))
    normals = rng.normal(size=(links, width))
    room = 0.3 * np.maximum(rng.normal(size=(people, links)), 0)
    return Region(Norm(p), radii, lower, upper, (category,), normals, room)


def by_slsqp(region, points, person):
    """Project one person's point in the variables u = a − b with a, b ≥ 0."""
    [levels], width = region.levels, points.shape[1]
    lower, upper = region.lower[person].copy(), region.upper[person].copy()
    lower[levels.place], upper[levels.place] = 0.0, levels.size * (upper[levels.place] > 0)
    held = levels.place.start + levels.current[person]
    lower[held], upper[held] = -levels.size, 0.0
    radius = region.radii[person]

    def move(both):
        return both[:width] - both[width:]

    limits = [
        {"type": "eq", "fun": lambda both: move(both)[levels.place].sum()},
        {"type": "ineq", "fun": lambda both: np.append(region.room[person] - region.links @ move(both), 0.0)},
    ]
    if region.norm.p == 1:
        limits.append({"type": "ineq", "fun": lambda both: radius - both.sum()})
    elif region.norm.p == 2:
        limits.append({"type": "ineq", "fun": lambda both: radius**2 - (move(both) ** 2).sum()})
    else:
        lower, upper = np.maximum(lower, -radius), np.minimum(upper, radius)
    found = minimize(
        lambda both: ((move(both) - points[person]) ** 2).sum(),
        np.zeros(2 * width),
        bounds=[(0, high) for high in upper] + [(0, -low) for low in lower],
        constraints=limits,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return move(found.x)


def broken(region, moves):
    """By how much moves leave the region at the most."""
    [levels] = region.levels
    people = np.arange(len(moves))
    mixture = moves[:, levels.place].copy()
    uneven = float(np.abs(mixture.sum(axis=1)).max())
    mixture[people, levels.current] += levels.size
    held = np.zeros_like(mixture, dtype=bool)
    held[people, levels.current] = True
    shut = (region.upper[:, levels.place] <= 0) & ~held
    rest = np.delete(moves, range(levels.place.start, levels.place.stop), axis=1)
    low, high = (
        np.delete(each, range(levels.place.start, levels.place.stop), axis=1) for each in (region.lower, region.upper)
    )
    return max(
        uneven,
        float((region.norm.length(moves) - region.radii).max()),
        float((low - rest).max(initial=0.0)),
        float((rest - high).max(initial=0.0)),
        float(-mixture.min()),
        float(np.abs(mixture[shut]).max(initial=0.0)),
        float((moves @ region.links.T - region.room).max(initial=0.0)) if len(region.links) else 0.0,
    )


@pytest.mark.parametrize("links", [0, 1, 2, 3])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_nobody_else_gets_nearer(p, links, seed):
    rng = np.random.default_rng([seed, links, int(min(p, 3))])
    region = random_region(rng, 6, 3, int(rng.integers(1, 5)), p, links)
    points = rng.choice([0.1, 1.0, 5.0]) * rng.normal(size=region.lower.shape)
    moves = region.project(points)
    assert broken(region, moves) <= 1e-8
    compared = 0
    for person in range(6):
        other = by_slsqp(region, points, person)
        if broken(region.of(np.array([person])), other[None]) > 1e-6:
            continue  # now and then SLSQP ends outside its own limits
        ours, theirs = (((move - points[person]) ** 2).sum() for move in (moves[person], other))
        assert ours <= theirs + 1e-5 * (1 + theirs)
        compared += 1
    assert compared >= 4


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(NORMS), st.integers(0, 2))
def test_projections_are_projections(seed, p, links):
    """Once is enough; nobody is pushed apart; who may stay where it is does; one's place does not depend on others."""
    rng = np.random.default_rng(seed)
    region = random_region(rng, 8, 2, 3, p, links)
    one, other = rng.normal(size=(2, *region.lower.shape))
    here, there = region.project(one), region.project(other)
    np.testing.assert_allclose(region.project(here), here, atol=1e-7)
    assert (np.linalg.norm(here - there, axis=1) <= np.linalg.norm(one - other, axis=1) + 1e-7).all()
    assert not region.project(np.zeros_like(one)).any()
    some = np.array([5, 2])
    np.testing.assert_allclose(region.of(some).project(one[some]), here[some], atol=1e-9)
    assert (np.linalg.norm(here - there, axis=1) <= region.widest() + 1e-9).all()
