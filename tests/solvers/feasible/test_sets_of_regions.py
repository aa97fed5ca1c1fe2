"""A region's best response and certificate, against linear programmes and against plain balls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from oar.actions.sets.norms import Norm
from oar.actions.sets.region import Levels, Region
from oar.solvers.feasible.sets import FeasibleBalls, FeasibleRegions

NORMS = [1.0, 2.0, np.inf]


@pytest.mark.parametrize("p", NORMS)
def test_without_limits_it_is_the_ball(p):
    rng = np.random.default_rng(3)
    radii, weights = rng.uniform(0, 1, 9), rng.uniform(0, 1, 9)
    free = np.full((9, 4), np.inf)
    ball, region = FeasibleBalls(Norm(p), radii, weights), FeasibleRegions(Region(Norm(p), radii, -free, free), weights)
    moves, slopes = rng.normal(size=(2, 9, 4))
    moves = ball.project(moves)
    np.testing.assert_allclose(region.project(3 * moves), ball.project(3 * moves), atol=1e-12)
    np.testing.assert_allclose(region.respond(slopes), ball.respond(slopes), atol=1e-5)
    assert ball.gap(moves, slopes) <= region.gap(moves, slopes) <= ball.gap(moves, slopes) * (1 + 1e-4)
    for one, other in zip(region.ahead(moves, slopes, 0.3), ball.ahead(moves, slopes, 0.3), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    later = ball.project(moves + 0.1)
    ours = region.compare((moves, slopes), (later, slopes + 0.2))
    np.testing.assert_allclose(ours[:2], ball.compare((moves, slopes), (later, slopes + 0.2))[:2], rtol=1e-12)


@pytest.mark.parametrize("p", [1.0, np.inf])
@pytest.mark.parametrize("seed", range(6))
def test_the_gap_is_never_below_and_hardly_above_the_true_one(p, seed):
    """With polyhedral norms a linear programme finds the best response."""
    rng = np.random.default_rng(seed)
    people, numbers, levels = 5, 2, 3
    width = numbers + levels
    lower, upper = -rng.uniform(0, 1, (people, width)), rng.uniform(0, 1, (people, width))
    category = Levels(slice(numbers, width), rng.integers(levels, size=people), 0.7)
    links, room = rng.normal(size=(1, width)), 0.2 * rng.uniform(size=(people, 1))
    radii, weights = rng.uniform(0.1, 1, people), rng.uniform(0, 1, people)
    limits = FeasibleRegions(Region(Norm(p), radii, lower, upper, (category,), links, room), weights)
    slopes = rng.normal(size=(people, width))
    moves = limits.project(rng.normal(size=(people, width)))
    true = 0.0
    for person in range(people):
        low, high = lower[person].copy(), upper[person].copy()
        low[category.place], high[category.place] = 0.0, category.size
        held = numbers + category.current[person]
        low[held], high[held] = -category.size, 0.0
        if p == np.inf:
            low, high = np.maximum(low, -radii[person]), np.minimum(high, radii[person])
        both = np.append(slopes[person], -slopes[person])
        rows = [np.append(links[0], -links[0])] + ([np.ones(2 * width)] if p == 1 else [])
        rights = [room[person, 0]] + ([radii[person]] if p == 1 else [])
        even = np.zeros(width)
        even[category.place] = 1.0
        found = linprog(
            both,
            A_ub=rows,
            b_ub=rights,
            A_eq=[np.append(even, -even)],
            b_eq=[0.0],
            bounds=[(0, value) for value in high] + [(0, -value) for value in low],
        )
        true += weights[person] * (slopes[person] @ moves[person] - found.fun)
    gap = limits.gap(moves, slopes)
    assert true - 1e-8 <= gap <= true * (1 + 1e-4) + 1e-5
    best = limits.respond(slopes)
    assert limits.slope(slopes, moves, best) == pytest.approx(-true, abs=1e-4)
    assert limits.smaller(0.5).radii == pytest.approx(0.5 * radii)
