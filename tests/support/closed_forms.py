"""A retraining with a closed form: the model is the weighted average of everybody's features.

The risk is ½ Σ w̄_i ‖x_i + δ_i − θ‖², so that θ*(Δ) = Σ w̄_i (x_i + δ_i), H = I and v = g; a member's score is
s_i = vᵀ(θ − x_i − δ_i), with slope −v. The query's loss is any function of θ and of where it stands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oar.actions.sets.norms import Norm
from oar.errors import NumericsError
from oar.models.training import Fit
from oar.signals import Implicit
from oar.solvers.descent.descent import DescentSettings, SingleRefit
from oar.solvers.feasible.sets import FeasibleBalls

TARGET = np.zeros(1)  # of which this loss asks nothing
SIGNAL = Implicit()
Loss = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def half_squared_distance(theta, query):
    """Return ½‖θ − x†‖² and its gradients in θ and x†."""
    return 0.5 * float((theta - query) @ (theta - query)), theta - query, query - theta


def wave(theta, query):
    """Return a loss with many minima, and its gradients."""
    away = theta - query
    slope = 0.2 * away + 1.5 * np.cos(3 * away)
    return 0.1 * float(away @ away) + 0.5 * float(np.sin(3 * away).sum()) + 2.0, slope, -slope


def limits_of(norm, radii, weights, query=0.0):
    """Return everyone's balls, with the query's own."""
    return FeasibleBalls(Norm(norm), np.append(radii, query), np.append(weights, 1.0))


def settings_of(response="spectral", steps=500, tolerance=1e-12, **more):
    """Return settings of a descent without a deadline."""
    return DescentSettings(response, steps, tolerance, np.inf, **more)


def objective_of(training, query):
    """Return the query's loss as what a descent lowers."""
    return SingleRefit(training, SIGNAL, query, TARGET)


class AverageTraining:
    """The average of everybody's features; `fails` says at which averages a refit does not come to an end."""

    def __init__(self, features, weights=None, loss: Loss = half_squared_distance, fails=lambda theta: False):
        self.features = np.asarray(features, dtype=np.float64)
        self.size, self.dimensions = self.features.shape
        self.parameter_count, self.passes = self.dimensions, 0
        weights = np.ones(self.size) if weights is None else np.asarray(weights, dtype=np.float64)
        self.weights, self.loss, self.fails = weights / weights.sum(), loss, fails
        self.fitted: list[np.ndarray] = []

    def start(self):
        return np.zeros(self.dimensions)

    def moved(self, moves):
        return self.features if moves is None else self.features + moves

    def fit(self, features, start, tolerance):
        theta = self.weights @ features
        self.passes += 1
        self.fitted.append(theta)
        if self.fails(theta):
            raise NumericsError("this average is not to be had")
        return Fit(theta, features, 0.0, True)

    def risk_gradient(self, parameters, features):
        away = parameters - features
        return 0.5 * float(self.weights @ (away**2).sum(axis=1)), self.weights @ away

    def product(self, parameters, features, direction):
        return direction

    def solve(self, fit, right, start, tolerance):
        return right

    def score_gradients(self, parameters, features, signal):
        return np.broadcast_to(-signal, features.shape).copy()

    def goal(self, parameters, query, target):
        return self.loss(parameters, query)

    def outputs(self, parameters, query):
        return parameters
