"""The members' moves without limits: L-BFGS over a ball that is opened up into all of space (p = 2 and p = ∞).

With δ_i = ε_i u_i / √(1 + ‖u_i‖²) every u is allowed, so a quasi-Newton method can be used as it is. By the chain rule

    ∂L/∂u_i = w̄_i (ε_i/√(1 + ‖u_i‖²)) (g_i − ⟨g_i, u_i⟩ u_i / (1 + ‖u_i‖²)),

with g_i the gradient in member i's move. A box is a ball of one dimension for every feature. From where everybody
stands moves grow slowly, which at large budgets ends in better minima than a full response to the first signal does.
Where the loss has kinks, as with hinges, quasi-Newton steps pass by kinks at which projected gradients stall (Lewis &
Overton 2013). Members reach the edge of their ball only in the limit, so the descent finishes what this begins.
"""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array
from oar.signals.base import Memory
from oar.solvers.descent.descent import SingleRefit
from oar.solvers.feasible.sets import FeasibleSet

PRECISION = 1e-9
CORRECTIONS = 10
INWARDS = 0.97


def open_ball_search(
    objective: SingleRefit,
    limits: FeasibleSet,
    max_steps: int,
    deadline: float,
    start: Array | float = 0.0,
) -> tuple[Array, int]:
    """Return moves (n + 1, d) after at most `max_steps` quasi-Newton steps, and how many there were.

    `start` is u (n + 1, d); 0 for where everybody stands.
    """
    from scipy.optimize import minimize

    movers = np.flatnonzero((limits.radii > 0) & (limits.weights > 0))
    radii = limits.radii[movers, None]
    # Measured by Σ w̄ ‖u‖², so that neither the number of members nor unequal weights change the path.
    scale = np.sqrt(limits.weights[movers] * movers.size)[:, None]
    shape = (movers.size, objective.query.size)
    everyone = np.zeros((limits.radii.size, objective.query.size))
    memory: Memory | None = None
    if not max_steps or not movers.size or time.monotonic() > deadline:
        return everyone, 0

    def inner_product(left: Array, right: Array) -> Array:
        """Return ⟨a, b⟩ in each ball: one for a member, or in a box one for each of its features."""
        return left * right if limits.norm.p == np.inf else np.einsum("nd,nd->n", left, right)[:, None]

    def moves_of(free: Array) -> tuple[Array, Array, Array]:
        opened = free.reshape(shape) / scale
        length = np.sqrt(1.0 + inner_product(opened, opened))
        everyone[movers] = radii * opened / length
        return everyone, opened, length

    def evaluate(free: Array) -> tuple[float, Array]:
        nonlocal memory
        moves, opened, length = moves_of(free)
        step = objective.at(moves.copy(), memory, PRECISION)
        memory = step.memory
        slopes = step.slopes[movers]
        inner = radii / length * (slopes - inner_product(slopes, opened) * opened / length**2)
        # L-BFGS's first step has length 1 over all members together; times n, values are of that order.
        return step.loss * movers.size, (limits.weights[movers, None] * movers.size / scale * inner).ravel()

    reached = (scale * np.broadcast_to(start, everyone.shape)[movers]).ravel()

    steps = 0

    def keep(free: Array) -> None:
        nonlocal reached, steps
        reached, steps = free.copy(), steps + 1
        if time.monotonic() > deadline:
            raise StopIteration

    with suppress(NumericsError):  # a step so far out that training fails there: the last good point stands
        minimize(
            evaluate,
            reached,
            jac=True,
            method="L-BFGS-B",
            callback=keep,
            options={"maxiter": max_steps, "maxcor": CORRECTIONS, "ftol": 0.0, "gtol": 0.0},
        )
    return moves_of(reached)[0].copy(), steps


def opened(moves: Array, limits: FeasibleSet) -> Array:
    """Return the u (n + 1, d) of moves that are first drawn a little inwards, because the edge has none."""
    inside = INWARDS * moves / np.where(limits.radii > 0, limits.radii, 1.0)[:, None]
    squares = inside**2 if limits.norm.p == np.inf else np.einsum("nd,nd->n", inside, inside)[:, None]
    return inside / np.sqrt(1.0 - squares)
