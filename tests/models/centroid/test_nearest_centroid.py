import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.neighbors import NearestCentroid as Witness
from support.centroid_problems import oracle_centroids, random_world, seeds

import oar
from oar.models.centroid.nearest_centroid import goal_loss


@given(seeds)
def test_centroids_are_weighted_averages(seed):
    world = random_world(seed)
    fitted = oar.NearestCentroid().fit(oar.Population(world.features, world.labels, world.weights))
    np.testing.assert_allclose(fitted.positions, oracle_centroids(world), rtol=1e-12, atol=1e-12)


def test_centroids_are_scikit_learns_over_many_chunks():
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(100_000, 5)), rng.integers(0, 7, 100_000)
    ours = oar.NearestCentroid().fit(oar.Population(features, labels)).positions
    np.testing.assert_allclose(ours, Witness().fit(features, labels).centroids_, atol=1e-13)


@given(seeds)
def test_predictions_and_probabilities(seed):
    world = random_world(seed)
    model, people = oar.NearestCentroid(), oar.Population(world.features, world.labels, world.weights)
    fitted = model.fit(people)
    distances = np.linalg.norm(world.features[:, None] - fitted.positions, axis=2)
    np.testing.assert_allclose(model.probabilities(fitted, world.features), softmax(-distances, axis=1), atol=1e-12)
    np.testing.assert_array_equal(model.predict(fitted, world.features), distances.argmin(axis=1))
    losses = -log_softmax(-distances, axis=1)[:, world.goal]
    np.testing.assert_allclose(model.goal_loss(fitted, world.features, world.goal), losses, atol=1e-12)


@given(st.lists(st.floats(0, 1e4), min_size=2, max_size=6))
def test_loss_neither_overflows_nor_drowns(distances):
    loss = float(goal_loss(np.array(distances), 0))
    highest = max(distances[0] - other for other in distances[1:])
    assert math.isfinite(loss)
    assert loss >= 0
    assert max(highest, 0) - 1e-9 <= loss <= max(highest, 0) + math.log(len(distances)) + 1e-9
    if highest < -40:  # here log(1 + t) = t, which naive formulas round to 0
        assert loss == pytest.approx(sum(math.exp(distances[0] - other) for other in distances[1:]), rel=1e-9)


def test_one_class_is_refused():
    people = oar.Population([[0.0], [1.0]], ["a", "a"])
    with pytest.raises(oar.errors.DataError, match="at least two classes, got only 'a'"):
        oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0], "a"), oar.Perturb(1.0))
