"""scipy's optimisers with an implicit gradient written by hand: python run_scipy.py FOLDER SLSQP|L-BFGS-B.

SLSQP takes the balls as they are, one constraint a member, so its matrices grow with the square of all moves: it is
for small problems. L-BFGS-B knows no balls; it moves freely in u, with δ = εu/√(1 + ‖u‖²), scaled so that gradients
are of order one. It is the strongest thing that we would write without a package.
"""

from __future__ import annotations

import sys

import numpy as np
from by_hand import Few, implicit_gradient
from moving import Task
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits


class TimeIsOver(Exception):
    """Raised inside an objective, because scipy's optimisers have no clock."""


class Judge:
    """The loss of moves and its gradient; keeps the best moves that are allowed."""

    def __init__(self, task):
        """Start from where everyone stands."""
        self.task, self.least = task, np.inf
        self.best = np.zeros_like(task.features)
        self.refitted = np.zeros((task.classes, self.best.shape[1] + 1))

    def __call__(self, moves):
        """Refit from the last refit on; raise where the time is over."""
        task = self.task
        if task.over:
            raise TimeIsOver
        self.refitted, loss, gradient = implicit_gradient(task, moves, self.refitted, self._counted)
        inside = self.drawn_back(moves)
        if loss < self.least and np.allclose(inside, moves, rtol=0, atol=1e-6 * task.budget):
            self.best, self.least = inside, loss
            task.record(inside)
        return loss, gradient

    def drawn_back(self, moves):
        """Return moves within the balls."""
        return moves / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True) / self.task.budget, 1.0)

    def _counted(self, passes):
        self.task.passes += passes

    def probe(self, threads):
        """Evaluate once with so many threads."""
        with threadpool_limits(threads, "blas"):
            Few(self.task).evaluate(self.task.classes)


def in_opened_ball(judge, shape, budget):
    """Return an objective of u, and how L-BFGS-B is to be asked."""
    scale = np.sqrt(shape[0])

    def objective(scaled):
        free = scaled.reshape(shape) * scale
        shrink = 1.0 / np.sqrt(1.0 + np.einsum("nd,nd->n", free, free))
        loss, gradient = judge(budget * free * shrink[:, None])
        inward = np.einsum("nd,nd->n", free, gradient) * shrink**2
        slope = budget * shrink[:, None] * (gradient - free * inward[:, None])
        return loss, slope.ravel() * scale

    return objective, {"options": {"maxiter": 500, "maxfun": 1_000, "ftol": 1e-12, "gtol": 1e-9}}


def with_constraints(judge, shape, budget):
    """Return an objective of δ, and how SLSQP is to be asked: everyone's room is a constraint with its Jacobian."""
    size, width = shape
    each = np.repeat(np.arange(size), width)

    def objective(flat):
        loss, gradient = judge(flat.reshape(shape))
        return loss, gradient.ravel()

    def room(flat):
        return budget**2 - np.square(flat.reshape(shape)).sum(axis=1)

    def room_slopes(flat):
        slopes = np.zeros((size, size * width))
        slopes[each, np.arange(size * width)] = -2.0 * flat
        return slopes

    constraints = {"type": "ineq", "fun": room, "jac": room_slopes}
    return objective, {"constraints": constraints, "options": {"maxiter": 5_000, "ftol": 1e-10}}


def main(folder, method):
    task = Task(folder, "numpy", "scipy")
    judge, shape = Judge(task), task.features.shape
    state = with_constraints if method == "SLSQP" else in_opened_ball
    objective, settings = state(judge, shape, task.budget)
    try:
        with threadpool_limits(task.fastest((None, 1), judge.probe), "blas"):
            found = minimize(objective, np.zeros(task.features.size), jac=True, method=method, **settings)
            if method == "SLSQP":  # it may end a little outside, and then its answer is drawn back
                judge(judge.drawn_back(found.x.reshape(shape)))
        ended = str(found.message).lower()
    except TimeIsOver:
        ended = ""
    task.finish(judge.best, ended, claimed=judge.least)


if __name__ == "__main__":
    main(*sys.argv[1:])
