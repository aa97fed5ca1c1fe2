"""Robust centroids over time: with nothing trimmed they are plain ones under every rule, and else their slopes hold."""

import numpy as np
import pytest
from support.online_problems import RULES, batch, problem, slope_by_differences, some_moves, stream

import oar
from oar import defences, online

NOBODY, SOME = (defences.TrimmedCentroids(share).model_for(oar.NearestCentroid()) for share in (1e-6, 0.34))


def without_a_class():
    """The second batch has nobody of class 2."""
    second = batch(1)
    rows = np.flatnonzero(second.labels != 2)
    fewer = oar.Population(second.features[rows], second.labels[rows], second.weights[rows])
    return online.Stream.of_batches([batch(0), fewer, batch(2)], history=batch(99))


def walked(rule, model, given):
    walk = online.Rollout(problem(rule, model, given, goal_for="every"))
    moves = some_moves(given)
    path = walk.forward(moves)
    return path, walk.gradient(path, moves)


@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_who_trims_nobody_retrains_as_plain_centroids_do(name, lacking):
    given = without_a_class() if lacking else stream()
    (plain, back), (robust, same) = (walked(RULES[name], model, given) for model in (oar.NearestCentroid(), NOBODY))
    np.testing.assert_allclose(robust.parameters, plain.parameters, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(robust.losses, plain.losses, rtol=1e-9)
    np.testing.assert_allclose(same.gradient, back.gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", RULES)
def test_slopes_where_some_are_trimmed(name):
    given = stream() if name in ("full", "window") else without_a_class()
    walk = online.Rollout(problem(RULES[name], SOME, given, goal_for="every"))
    moves = some_moves(given)
    slopes = walk.gradient(walk.forward(moves), moves).gradient
    along = some_moves(given, seed=1)
    counts = np.full(3, 1 / 3)
    assert (slopes * along).sum() == pytest.approx(slope_by_differences(walk, moves, along, counts), rel=1e-5, abs=1e-9)
    assert not np.allclose(slopes, walked(RULES[name], NOBODY, given)[1].gradient)


def test_they_need_what_plain_centroids_need():
    """A class that the first batch lacks has no centroid, and steps need somewhere to begin."""
    for model in (oar.NearestCentroid(), NOBODY):
        with pytest.raises(oar.errors.OptionError, match="start: gradient steps begins"):
            problem(online.GradientSteps(0.1), model, stream(history=False))
        first = batch(0)
        rows = np.flatnonzero(first.labels != 2)
        given = online.Stream.of_batches([(first.features[rows], first.labels[rows]), batch(1)])
        with pytest.raises(oar.errors.DataError, match="refits in round 0, for which it reads nobody of class 2"):
            problem(online.ExponentialMeans(0.5), model, given)
