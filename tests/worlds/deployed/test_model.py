"""What actors differentiate, against finite differences and against refits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from support.actor_views import CENTROID, CLASSES, NETWORK, SOFTMAX, two_blobs

from oar.models import LinearSVM, Scaled, SoftmaxRegression
from oar.models.centroid.nearest_centroid import Centroids
from oar.people import Population
from oar.worlds.deployed.model import CentroidDeployed, LinearDeployed, _ScaledDeployed, deployed
from oar.worlds.people.crowds import Data

FEATURES, CODES = two_blobs(1)
PEOPLE = Data(FEATURES, CODES, np.linspace(0.5, 1.5, len(CODES)))
QUERY = np.array([0.3, -0.4])
MODELS = [CENTROID, SOFTMAX, LinearSVM(l2=0.05), Scaled(SoftmaxRegression(l2=0.05)), NETWORK]


@lru_cache
def fitted(model: Any) -> Any:
    return model.fit(Population.of_codes(FEATURES, CODES, CLASSES))


def at_of(model: Any) -> Any:
    return deployed(model, fitted(model), 2, PEOPLE)


def slope(function: Any, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Return a gradient by central differences."""
    found = np.empty(at.shape)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = (function(up) - function(down)) / (2 * step)
    return found


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_by_features(model: Any) -> None:
    at, rng = at_of(model), np.random.default_rng(0)
    rows, codes = FEATURES[:4], CODES[:4]
    _, by_features = at.slopes(rows, 1)
    np.testing.assert_allclose(by_features, slope(lambda x: at.slopes(x, 1)[0].sum(), rows), rtol=1e-5, atol=1e-8)
    signal = rng.normal(size=at.goal(QUERY, 1)[1].size)
    _, by_features = at.scores(rows, codes, signal)
    np.testing.assert_allclose(
        by_features, slope(lambda x: at.scores(x, codes, signal)[0].sum(), rows), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_scores_add_up_to_the_gradient(model: Any) -> None:
    at = at_of(model)
    np.testing.assert_array_equal(at.predicted(FEATURES), model.predict(fitted(model), FEATURES))
    signal = np.random.default_rng(1).normal(size=at.goal(QUERY, 1)[1].size)
    scores, _ = at.scores(PEOPLE.features, PEOPLE.codes, signal)
    assert PEOPLE.weights @ scores == pytest.approx(at.gradient(PEOPLE) @ signal, rel=1e-9)


def test_by_parameters() -> None:
    positions = np.array([[0.0, 1.0], [2.0, 0.5]])
    pull = CentroidDeployed(positions).goal(QUERY, 0)[1]
    expected = slope(lambda theta: CentroidDeployed(theta).goal(QUERY, 0)[0], positions)
    np.testing.assert_allclose(pull.reshape(2, 2), expected, rtol=1e-6)
    ones = Centroids(positions, np.ones(2), np.ones(2))
    assert CentroidDeployed(positions).goal(QUERY, 0)[0] == pytest.approx(float(CENTROID.goal_loss(ones, QUERY, 0)))
    squares = lambda theta: (  # noqa: E731
        0.5 * PEOPLE.weights @ ((PEOPLE.features - theta[PEOPLE.codes]) ** 2).sum(axis=1)
    )
    caused = CentroidDeployed(positions).gradient(PEOPLE)
    np.testing.assert_allclose(caused.reshape(2, 2), slope(squares, positions), rtol=1e-6)
    matrix = np.array([[0.5, -1.0, 0.2]])
    pull = LinearDeployed(SOFTMAX, matrix, 2).goal(QUERY, 1)[1]
    expected = slope(lambda theta: LinearDeployed(SOFTMAX, theta, 2).goal(QUERY, 1)[0], matrix)
    np.testing.assert_allclose(pull, expected.ravel(), rtol=1e-6)


@pytest.mark.parametrize("model", [CENTROID, SOFTMAX, NETWORK], ids=lambda model: model.name)
def test_influence_foretells_what_more_weight_for_one_person_does(model: Any) -> None:
    weights = np.ones(len(CODES))
    at = deployed(model, fitted(model), 2)
    data = Data(FEATURES, CODES, weights)
    loss, pull = at.goal(QUERY, 1)
    signal = at.influence(pull, data)
    average = signal @ at.gradient(data) / weights.sum()
    heavier = weights.copy()
    heavier[2] += 1e-3
    refitted = model.fit(Population.of_codes(FEATURES, CODES, CLASSES, heavier))
    change = float(model.goal_loss(refitted, QUERY, 1)) - loss
    score = at.scores(FEATURES[2:3], CODES[2:3], signal)[0][0]
    assert change == pytest.approx(-1e-3 / weights.sum() * (score - average), rel=2e-2)


def test_scaled_linear_models_are_seen_through_their_scaler() -> None:
    model = Scaled(SOFTMAX)
    parameters = model.fit(Population.of_codes(FEATURES * [1.0, 100.0], CODES, CLASSES))
    at = deployed(model, parameters, 2, Data(FEATURES * [1.0, 100.0], CODES, np.ones(len(CODES))))
    assert isinstance(at, _ScaledDeployed)
    query = QUERY * [1.0, 100.0]
    assert at.goal(query, 1)[0] == pytest.approx(float(model.goal_loss(parameters, query, 1)))
