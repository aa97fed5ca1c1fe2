"""scipy's optimisers with an implicit gradient written by hand: python run_scipy.py FOLDER SLSQP|L-BFGS-B.

SLSQP takes the balls as they are, one constraint a member, so its matrices grow with the square of all moves: it is
for small problems. L-BFGS-B knows no balls; it moves freely in u, with δ = εu/√(1 + ‖u‖²), scaled so that gradients
are of order one. It is the strongest thing that we would write without a package.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from by_hand import implicit_gradient
from moving import Task
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits


class TimeIsOver(Exception):
    """Raised inside an objective, because scipy's optimisers have no clock."""


def main(folder, method):
    task = Task(folder, "numpy", "scipy")
    size, width = task.features.shape
    refitted, best, least = np.zeros((task.classes, width + 1)), np.zeros((size, width)), np.inf
    balls, limits = {}, faster_threads(task, refitted)

    def counted(passes):
        task.passes += passes

    def judge(moves):
        """Return loss and gradient, and keep the best moves that are allowed."""
        nonlocal refitted, best, least
        if task.over:
            raise TimeIsOver
        refitted, loss, gradient = implicit_gradient(task, moves, refitted, counted)
        inside = moves / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True) / task.budget, 1.0)
        if loss < least and np.allclose(inside, moves, rtol=0, atol=1e-8 * task.budget):
            best, least = inside, loss
            task.record(inside)
        return loss, gradient

    def in_ball(scaled):
        free = scaled.reshape(size, width) * np.sqrt(size)
        shrink = 1.0 / np.sqrt(1.0 + np.einsum("nd,nd->n", free, free))
        loss, gradient = judge(task.budget * free * shrink[:, None])
        inward = np.einsum("nd,nd->n", free, gradient) * shrink**2
        slope = task.budget * shrink[:, None] * (gradient - free * inward[:, None])
        return loss, slope.ravel() * np.sqrt(size)

    def as_given(flat):
        loss, gradient = judge(flat.reshape(size, width))
        return loss, gradient.ravel()

    if method == "SLSQP":
        each = np.repeat(np.arange(size), width)

        def room(flat):
            return task.budget**2 - np.square(flat.reshape(size, width)).sum(axis=1)

        def room_slopes(flat):
            slopes = np.zeros((size, size * width))
            slopes[each, np.arange(size * width)] = -2.0 * flat
            return slopes

        balls = {"constraints": {"type": "ineq", "fun": room, "jac": room_slopes}}
        options = {"maxiter": 500, "ftol": 1e-10}
    else:
        options = {"maxiter": 500, "maxfun": 1_000, "ftol": 1e-12, "gtol": 1e-9}
    try:
        with threadpool_limits(limits, "blas"):
            objective = as_given if method == "SLSQP" else in_ball
            found = minimize(objective, np.zeros(size * width), jac=True, method=method, options=options, **balls)
        ended = str(found.message).lower()
    except TimeIsOver:
        ended = ""
    task.finish(best, ended, claimed=least)


def faster_threads(task, parameters):
    """Return how many BLAS threads suit: one (better on busy machines) or all; off the clock, because it is a probe."""
    began, seconds = time.perf_counter(), {}
    for threads in (1, None):
        with threadpool_limits(threads, "blas"):
            start = time.perf_counter()
            implicit_gradient(task, np.zeros_like(task.features), parameters)
            seconds[threads] = time.perf_counter() - start
    task.paused += time.perf_counter() - began
    return min(seconds, key=seconds.__getitem__)


if __name__ == "__main__":
    main(*sys.argv[1:])
