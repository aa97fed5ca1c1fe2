"""Refits side by side: beside scikit-learn's own, finite differences of them, and each other."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import oar
from oar.models.linear import lanes as vmapped
from oar.models.linear.lanes import RefitsSideBySide

L2 = 0.05
LANES = 19  # always, so that each model is compiled once


def people(classes, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % classes
    features = rng.normal(size=(40, 3)) * [1.0, 30.0, 0.01] + np.array([5.0, -200.0, 0.0]) + 0.8 * labels[:, None]
    return features, labels, rng.uniform(0.2, 2.0, 40)


def bound(l2, features, labels, weights):
    model = oar.SoftmaxRegression(l2)
    return RefitsSideBySide(model, model.training(oar.Population(features, labels, weights=weights)))


def drawn(features, lanes, seed=1):
    spread = features.std(axis=0)
    return 0.3 * spread * np.random.default_rng(seed).normal(size=(lanes, len(features) + 1, 3))


def at(refits, moves, query, target):
    """Refit to moves in as many lanes as always; return what belongs to those that were given."""
    lanes = moves[np.minimum(np.arange(LANES), len(moves) - 1)]
    found = refits.at(lanes, query, target, np.zeros((LANES, *refits.shape)))
    return tuple(one[: len(moves)] for one in found)


@pytest.mark.parametrize("l2", [L2, 1e-4])
@pytest.mark.parametrize("classes", [2, 3])
def test_losses_are_those_of_scikit_learns_refits(classes, l2):
    features, labels, weights = people(classes)
    refits = bound(l2, features, labels, weights)
    moves, query = drawn(features, 4), features[:5].mean(axis=0)
    target = np.array([1.0]) if classes == 2 else np.eye(3)[1]
    losses, _, _ = at(refits, moves, query, target)
    for one, loss in zip(moves, losses, strict=True):
        other = LogisticRegression(C=1 / (weights.sum() * l2), tol=1e-10, max_iter=5_000, solver="newton-cholesky")
        other.fit(features + one[:-1], labels, sample_weight=weights)
        assert loss == pytest.approx(-other.predict_log_proba((query + one[-1])[None])[0, 1], rel=1e-8)
    assert vmapped._compiled.cache_info().currsize == 1  # one program, whatever the penalty


def test_a_refit_that_is_there_already_takes_fewer_passes():
    features, labels, weights = people(3)
    moves, query, target = drawn(features, LANES), features[:5].mean(axis=0), np.eye(3)[1]
    refits = bound(L2, features, labels, weights)
    _, _, found = at(refits, moves, query, target)
    cold = refits.passes
    losses, _, _ = refits.at(moves, query, target, found)
    warm = refits.passes - cold
    assert LANES * 5 <= warm < cold  # a gradient, one Newton step, the last Hessian, and scores
    refits.at(moves, query, target, found, lanes=2)
    assert refits.passes - cold - warm == warm * 2 / LANES  # only those that are of interest are counted
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_slopes_are_those_of_finite_differences(classes):
    features, labels, weights = people(classes)
    refits = bound(L2, features, labels, weights)
    moves, query = drawn(features, 1)[0], features[:5].mean(axis=0)
    target = np.array([1.0]) if classes == 2 else np.eye(3)[1]
    places = [(member, feature) for member in (0, 7, 40) for feature in range(3)]
    lanes = np.repeat(moves[None], 1 + 2 * len(places), axis=0)
    steps = 1e-4 * features.std(axis=0)
    for number, (member, feature) in enumerate(places):
        lanes[1 + 2 * number, member, feature] += steps[feature]
        lanes[2 + 2 * number, member, feature] -= steps[feature]
    losses, slopes, _ = at(refits, lanes, query, target)
    shares = np.append(weights / weights.sum(), 1.0)  # gradients are in the metric of weights; the query's weighs 1
    for number, (member, feature) in enumerate(places):
        measured = (losses[1 + 2 * number] - losses[2 + 2 * number]) / (2 * steps[feature])
        assert shares[member] * slopes[0, member, feature] == pytest.approx(measured, rel=1e-5)


def test_a_lane_knows_nothing_of_the_others():
    features, labels, weights = people(3)
    refits = bound(L2, features, labels, weights)
    moves, query, target = drawn(features, LANES), features[:5].mean(axis=0), np.eye(3)[1]
    wild = moves.copy()
    wild[3:] *= 1e3
    tame, beside = (at(refits, one, query, target) for one in (moves, wild))
    for left, right in zip(tame, beside, strict=True):
        np.testing.assert_array_equal(left[:3], right[:3])


def test_a_refit_that_does_not_converge_is_never_the_best():
    """People who are told apart perfectly, without a penalty: the risk has no minimum."""
    features = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    refits = bound(0.0, features, [0, 0, 1, 1], np.ones(4))
    moves = np.zeros((2, 5, 1))
    moves[1, :2, 0] = [4.0, 0.0]  # mixed with the others
    losses, _, _ = at(refits, moves, np.array([0.5]), np.array([1.0]))
    assert np.isinf(losses[0])
    assert np.isfinite(losses[1])
