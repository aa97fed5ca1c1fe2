"""Softmax regression and its implicit gradient in NumPy, as one would write them by hand for this very model."""

from __future__ import annotations

import numpy as np


def implicit_gradient(world, moves, parameters, counted=lambda passes: None):
    """Refit; return the parameters, the loss, and dL/dδ = −(∂²R/∂θ∂δ)ᵀ H⁻¹ ∇L, all in closed form.

    Refits are Newton's method with the closed-form Hessian from where `parameters` are; the last Hessian also gives
    the signal. `world` has features, labels, query, goal and l2. `counted` is told how often the rows were gone
    through: a Newton step is one pass, and everyone's gradients are one more.
    """
    rows = np.column_stack([world.features + moves, np.ones(len(moves))])
    pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
    (size, width), count = rows.shape, len(parameters)
    penalty = np.broadcast_to(world.l2 * np.append(np.ones(width - 1), 0.0), parameters.shape)
    risk, step, share = np.inf, np.zeros_like(parameters), 1.0
    while True:
        tried = parameters - share * step
        outputs = rows @ tried.T
        shares, value = _softmax(outputs, world.labels)
        value += 0.5 * float((penalty * tried**2).sum())
        counted(1)
        if value > risk + 1e-12 * abs(risk) and share > 1e-6:  # far from the minimum a full step may be too long
            share *= 0.5
            continue
        parameters, risk, share = tried, value, 1.0
        slopes = shares.copy()
        slopes[np.arange(size), world.labels] -= 1.0
        gradient = slopes.T @ rows / size + penalty * parameters
        hessian = _hessian(shares, pairs, penalty)
        if np.linalg.norm(gradient) <= 1e-7:
            break
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(parameters.shape)

    query = np.append(world.query, 1.0)
    odds, loss = _softmax((parameters @ query)[None], np.array([world.goal]))
    pull = np.outer(odds[0] - np.eye(count)[world.goal], query)
    signal = np.linalg.solve(hessian, pull.ravel()).reshape(count, width)
    projected = rows @ signal.T
    bent = shares * (projected - np.einsum("nk,nk->n", shares, projected)[:, None])
    counted(1)
    return parameters, loss, -(slopes @ signal[:, :-1] + bent @ parameters[:, :-1]) / size


class Few:
    """The first people of a world: enough to find out how many threads suit."""

    def __init__(self, world, most=50_000):
        """Take the first `most`."""
        self.features, self.labels = world.features[:most], world.labels[:most]
        self.query, self.goal, self.l2 = world.query, world.goal, world.l2

    def evaluate(self, classes):
        """Refit from scratch and differentiate, once."""
        return implicit_gradient(self, np.zeros_like(self.features), np.zeros((classes, self.features.shape[1] + 1)))


def _hessian(shares, pairs, penalty):
    """Return the Hessian of the penalised risk: one product of matrices for each class."""
    count, width = penalty.shape
    hessian = np.empty((count, width, count, width))
    for one in range(count):
        curvature = -shares[:, one : one + 1] * shares[:, one:]
        curvature[:, 0] += shares[:, one]
        for other, block in enumerate(curvature.T @ pairs / len(shares), start=one):
            hessian[one, :, other, :] = hessian[other, :, one, :] = block.reshape(width, width)
    hessian = hessian.reshape(count * width, count * width)
    hessian[np.diag_indices_from(hessian)] += penalty.ravel()
    intercepts = np.tile(np.append(np.zeros(width - 1), 1.0), count)
    return hessian + np.outer(intercepts, intercepts) / count  # intercepts that all rise alike change nothing


def _softmax(outputs, labels):
    """Return the classes' shares, and the mean cross-entropy of the labels."""
    largest = outputs.max(axis=1, keepdims=True)
    powers = np.exp(outputs - largest)
    totals = powers.sum(axis=1, keepdims=True)
    own = np.take_along_axis(outputs, labels[:, None], axis=1) - largest
    return powers / totals, float((np.log(totals) - own).mean())
