"""Moves are read in blocks; what comes out must not show it."""

from __future__ import annotations

import numpy as np
import pytest

from oar.actions.sets.norms import Norm
from oar.solvers.feasible.sets import BLOCK, FeasibleBalls


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 2 * BLOCK + 17])
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_blocks_add_up(p, size):
    generator = np.random.default_rng(size)
    radii, weights = generator.uniform(0, 1, size), generator.uniform(0, 1, size)
    limits = FeasibleBalls(Norm(p), radii, weights)
    early, late, before, after = generator.normal(size=(4, size, 3))
    early, late = limits.project(early), limits.project(late)

    def inner(left, right):
        return (weights[:, None] * left * right).sum()

    aim, slope = limits.ahead(early, before, 0.7)
    np.testing.assert_array_equal(aim, Norm(p).project(early - 0.7 * before, radii))
    assert slope == pytest.approx(inner(before, aim - early), rel=1e-12)
    assert limits.slope(before, early, aim) == pytest.approx(slope, rel=1e-12)
    best = Norm(p).maximise(-after, radii)
    gap = (weights * np.maximum((after * (late - best)).sum(axis=1), 0.0)).sum()
    assert limits.gap(late, after) == pytest.approx(gap, rel=1e-12)
    squared, bend, same_gap = limits.compare((early, before), (late, after))
    assert squared == pytest.approx(inner(late - early, late - early), rel=1e-12)
    assert bend == pytest.approx(inner(late - early, after - before), rel=1e-9)
    assert same_gap == limits.gap(late, after)
