"""Small people for differentiable models, and finite differences through true refits."""

from __future__ import annotations

import numpy as np


def small_people(seed=0, people=30, dimensions=3, classes=3):
    """Return features, one-hot targets, weights that sum to 1, and codes."""
    rng = np.random.default_rng(seed)
    codes = np.arange(people) % classes
    features = 1.5 * rng.normal(size=(classes, dimensions))[codes] + rng.normal(size=(people, dimensions))
    weights = rng.uniform(0.2, 1.8, people)
    return features, np.eye(classes)[codes], weights / weights.sum(), codes


def goal_of(targets):
    return np.eye(targets.shape[1])[0]


def query_of(features):
    return features[:2].mean(axis=0) + 0.1


def predicted_and_measured(training, query, goal, fit, who=(0, 1, 2), step=1e-3, signal_tolerance=1e-10):
    """Return −w̄_i ∇_x s_iᵀd, and the slope of the query's loss over true refits, for people moving along random d."""
    gradient = training.goal(fit.parameters, query, goal)[1]
    signal = training.solve(fit, gradient, None, signal_tolerance)
    rates = training.score_gradients(fit.parameters, fit.features, signal)
    rng, predicted, measured = np.random.default_rng(3), [], []
    for person in who:
        direction = np.zeros((training.size, training.dimensions))
        direction[person] = rng.normal(size=training.dimensions)
        predicted.append(-training.weights[person] * (rates[person] @ direction[person]))

        def loss(times, direction=direction):
            refit = training.fit(training.moved(times * step * direction), fit.parameters, 1e-13)
            return training.goal(refit.parameters, query, goal)[0]

        measured.append((8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * step))
    return np.array(predicted), np.array(measured)


def assert_differentiates_training(training, query, goal, tolerance=1e-11, rtol=1e-5):
    fit = training.fit(training.moved(None), training.start(), tolerance)
    assert fit.converged, fit.residual
    predicted, measured = predicted_and_measured(training, query, goal, fit)
    assert np.abs(predicted).max() > 1e-6
    np.testing.assert_allclose(predicted, measured, rtol=rtol, atol=1e-3 * rtol * np.abs(measured).max() + 1e-10)
    return fit
