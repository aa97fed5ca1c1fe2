"""Defences do what they say: against scipy's and numpy's own averages, and never to the last of a class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oar
from oar import defences
from oar.models.centroid.robust_centroids import RobustCentroids

RNG = np.random.default_rng(0)


def people_of(seed=0, size=24, classes=3, weighted=False, dimensions=2):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % classes
    features = 2 * rng.normal(size=(classes, dimensions))[codes] + rng.normal(size=(size, dimensions))
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], size) if weighted else None
    if weights is not None:
        weights[:classes] = 1.0
    return oar.Population(features, codes, weights)


def prepared(defence, people, model=None, parameters=None):
    return defence.prepared(people, model or oar.NearestCentroid(), parameters, np.random.default_rng(0))


@pytest.mark.parametrize("share", [0.05, 0.13, 0.3, 0.49])
def test_trimmed_centroids_are_scipys_trimmed_means(share):
    people = people_of()
    found = defences.TrimmedCentroids(share).model_for(oar.NearestCentroid()).fit(people)
    for code in range(3):
        expected = stats.trim_mean(people.features[people.labels == code], share, axis=0)
        np.testing.assert_allclose(found.positions[code], expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("blocks", "size"), [(3, 24), (4, 24), (5, 29), (50, 24)])
def test_medians_of_means_are_numpys(blocks, size):
    people = people_of(size=size)
    model = defences.MedianOfMeans(blocks, seed=3).model_for(oar.NearestCentroid())
    found = model.fit(people)
    for code in range(3):
        own = people.features[people.labels == code]
        block = model.mean.block_of(len(own))
        sizes = np.bincount(block)
        assert sizes.max() - sizes.min() <= 1
        assert sizes.size == min(blocks, len(own))
        expected = np.median([own[block == number].mean(axis=0) for number in range(sizes.size)], axis=0)
        np.testing.assert_allclose(found.positions[code], expected, rtol=1e-13, atol=1e-14)
    if blocks == 50:  # one person a block
        np.testing.assert_allclose(found.positions[2], np.median(people.features[people.labels == 2], axis=0))
    other = defences.MedianOfMeans(blocks, seed=4).model_for(oar.NearestCentroid()).fit(people)
    assert np.array_equal(found.positions, other.positions) == (blocks == 50)


def model_of():
    return oar.NearestCentroid()


def test_weights_are_those_of_the_people_who_are_left():
    people = oar.Population([[0.0], [1.0], [3.0], [90.0], [9.0], [5.0]], list("aaaaba"), [1.0, 1.0, 3.0, 1.0, 1.0, 0.0])
    found = defences.TrimmedCentroids(0.25).model_for(oar.NearestCentroid()).fit(people)
    assert found.positions.ravel().tolist() == [(1 + 3 * 3) / 4, 9.0]  # who weighs nothing is not counted
    assert found.class_weights.tolist() == [6.0, 1.0]


def test_robust_centroids_predict_as_nearest_centroid_does_and_plain_ones_are_its_own():
    people, nearest = people_of(weighted=True), oar.NearestCentroid()
    plain, known = RobustCentroids().fit(people), nearest.fit(people)
    np.testing.assert_allclose(plain.positions, known.positions, rtol=1e-13)
    np.testing.assert_allclose(plain.class_weights, known.class_weights)
    np.testing.assert_allclose(plain.sizes, known.sizes)
    model = defences.TrimmedCentroids(0.2).model_for(nearest)
    fitted = model.fit(people)
    np.testing.assert_array_equal(model.predict(fitted, people.features), nearest.predict(fitted, people.features))
    np.testing.assert_allclose(model.probabilities(fitted, people.features).sum(axis=1), 1)
    assert model.goal_loss(fitted, people.features, 1).shape == (24,)


def test_a_plan_can_be_made_against_robust_centroids_and_is_audited():
    people = people_of()
    model = defences.TrimmedCentroids(0.2).model_for(oar.NearestCentroid())
    action = oar.Perturb(0.5)
    result = oar.collective(oar.Problem(people, model, oar.Query(people.features[0], goal=1), action))
    assert result.loss < result.loss_before
    assert result.audit.violations == ()


def test_a_stronger_penalty_is_a_larger_l2():
    stronger = defences.StrongerPenalty(10.0)
    assert stronger.model_for(oar.SoftmaxRegression(l2=0.1)).l2 == pytest.approx(1.0)
    scaled = oar.models.Scaled(oar.models.Ridge(l2=0.2), frozen=True)
    assert stronger.model_for(scaled) == oar.models.Scaled(oar.models.Ridge(l2=2.0), frozen=True)
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(l2=0.0), oar.models.PrototypeNetwork()):
        with pytest.raises(oar.errors.OARError, match="defence: a stronger penalty"):
            stronger.model_for(model)


def test_the_farthest_of_each_class_are_left_out():
    people = people_of()
    found = prepared(defences.DistanceFilter(share=0.25), people)
    assert np.bincount(people.labels[~found.kept]).tolist() == [2, 2, 2]
    np.testing.assert_array_equal(found.people.features, people.features[found.kept])
    for code in range(3):
        own = people.labels == code
        distances = np.linalg.norm(people.features - people.features[own].mean(axis=0), axis=1)
        assert distances[own & ~found.kept].min() > distances[own & found.kept].max()
    near = prepared(defences.DistanceFilter(radius=1.0), people)
    means = oar.NearestCentroid().fit(people).positions[people.labels]
    np.testing.assert_array_equal(near.kept, np.linalg.norm(people.features - means, axis=1) <= 1.0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), share=st.floats(0.01, 0.99), radius=st.floats(1e-6, 2.0), size=st.integers(3, 12))
def test_no_class_is_ever_emptied(seed, share, radius, size):
    people = people_of(seed, size, weighted=True)
    for part in (defences.DistanceFilter(share=share), defences.DistanceFilter(radius=radius)):
        found = prepared(defences.Together(part, defences.ClippedInfluence(0.5), part), people)
        found.people.check_class_weights()
        assert found.kept.sum() == found.people.size


def test_values_have_no_classes_to_be_far_from():
    people = oar.Population(np.arange(8.0)[:, None] ** 2, np.arange(8.0))
    found = prepared(defences.DistanceFilter(share=0.25), people, oar.models.Ridge())
    assert found.kept.tolist() == [True] * 6 + [False] * 2


@pytest.mark.parametrize(
    "model", [oar.NearestCentroid(), oar.SoftmaxRegression(), oar.models.Ridge(), oar.models.MLP((3,))]
)
def test_nobody_pulls_more_than_so_many_times_the_median(model):
    jax = pytest.importorskip("jax")
    people = people_of(weighted=True)
    fitted = model.fit(people)
    found = prepared(defences.ClippedInfluence(1.5), people, model, fitted)
    if isinstance(model, oar.NearestCentroid):
        lengths = np.linalg.norm(people.features - fitted.positions[people.labels], axis=1)
    else:  # another way to the same gradients
        with jax.enable_x64(True):
            rows = zip(people.features, model.targets(people), strict=True)
            each = [jax.tree.leaves(jax.grad(model.example_loss)(fitted, *row)) for row in rows]
        lengths = np.array([np.sqrt(sum((np.asarray(leaf) ** 2).sum() for leaf in leaves)) for leaves in each])
    bound = 1.5 * np.median(lengths[people.weights > 0])
    np.testing.assert_allclose(found.people.weights, people.weights * np.minimum(1, bound / lengths), rtol=1e-7)
    assert (found.people.weights < people.weights).any()
    assert found.kept.all()
    assert prepared(defences.ClippedInfluence(1.5), people, model).people is people  # nothing is deployed yet


def test_calendars():
    rng = np.random.default_rng(1)
    chances = [defences.RandomRetraining(0.3).retrains(number, rng) for number in range(2000)]
    assert 0.26 < np.mean(chances) < 0.34
    both = defences.Together([defences.Delayed(2), defences.RandomRetraining(0.5)])
    said = [both.retrains(number, np.random.default_rng(number)) for number in range(200)]
    assert not any(said[::2])
    assert 0 < sum(said[1::2]) < 100


def test_several_defences_work_one_after_the_other():
    people = people_of(weighted=True)
    both = defences.as_defence([defences.DistanceFilter(share=0.3), defences.TrimmedCentroids(0.1)])
    assert both.model_for(oar.NearestCentroid()) == RobustCentroids(
        defences.TrimmedCentroids(0.1).model_for(model_of()).mean
    )
    first = prepared(defences.DistanceFilter(share=0.3), people)
    np.testing.assert_array_equal(prepared(both, people).kept, first.kept)
    assert defences.as_defence(None).model_for(model_of()) == model_of()
    assert prepared(defences.as_defence(None), people).kept.all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: defences.TrimmedCentroids(0.5),
        lambda: defences.TrimmedCentroids(0),
        lambda: defences.MedianOfMeans(1),
        lambda: defences.MedianOfMeans(3, seed=-1),
        lambda: defences.StrongerPenalty(1),
        lambda: defences.ClippedInfluence(0),
        lambda: defences.ClippedInfluence(np.nan),
        lambda: defences.DistanceFilter(),
        lambda: defences.DistanceFilter(share=0.1, radius=1.0),
        lambda: defences.DistanceFilter(share=1.0),
        lambda: defences.DistanceFilter(radius=-1.0),
        lambda: defences.Delayed(1),
        lambda: defences.Delayed(2.5),
        lambda: defences.RandomRetraining(1.0),
        lambda: defences.Together("trimmed"),
        lambda: defences.TrimmedCentroids(0.1).model_for(oar.SoftmaxRegression()),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(oar.errors.OARError, match="must be|are for"):
        make()
