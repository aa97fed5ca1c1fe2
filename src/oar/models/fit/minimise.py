"""Full-batch training to a small gradient: L-BFGS from afar, Newton nearby.

L-BFGS walks down to a rough gradient norm; Newton steps (`newton`) then square the error. Where they do not get there,
L-BFGS goes on to a tighter norm, and so in turns. Nothing here is random and nothing is remembered between calls, so
the same function and start give the same bits.

Where there are many minima, a descent with momentum at a fixed rate comes first. Each of its steps is a smooth function
of the data, as those of L-BFGS and its line search are not, so that nearly the same data end in the same valley. (Four
networks on Iris, retrained from scratch on slightly moved data, left the minimum that a warm start keeps to in two of
twelve cases without it, and in none with it.)
"""

from __future__ import annotations

import numpy as np

from oar.models.fit.conjugate_gradients import in_range
from oar.models.fit.newton import newton
from oar.models.fit.objective import Array, Objective, Point
from oar.models.fit.one_thread import one_thread

ROUGH = 1e-3  # the gradient norm at which Newton first takes over
TIGHTER = 0.03  # how much further L-BFGS goes each time that Newton does not get there
MOST_TURNS = 8
MOST_WALKS = 2_000  # L-BFGS iterations a turn
STALLED = 1e-9  # a turn that lowers the risk by less than this share, and the gradient by less than half, is the last
MEMORY = 20
ROLLS = 300  # steps of descent with momentum
MOMENTUM = 0.9


def minimise(objective: Objective, start: Point, tolerance: float, from_afar: bool, many_minima: bool) -> Point:
    """Return a point with ‖∇R‖ ≤ tolerance, or the best one found.

    Args:
        objective: what is minimised.
        start: where to begin; it must be sound.
        tolerance: the gradient norm that is enough.
        from_afar: whether L-BFGS goes first; otherwise Newton does, as is right close to a minimum.
        many_minima: whether descent with momentum comes before L-BFGS.
    """
    point, target = start, ROUGH
    if from_afar and many_minima:
        point = _roll(objective, start)
    for turn in range(MOST_TURNS):
        if point.residual <= tolerance:
            break
        before = point
        if turn > 0 or from_afar:
            target = max(min(target, TIGHTER * point.residual), tolerance)
            point = _walk(objective, point, target)
        point = newton(objective, point, tolerance)
        fallen = before.value - point.value > STALLED * (1 + abs(point.value))
        if not fallen and point.residual > 0.5 * before.residual:
            break  # no further: rounding, or a kink, is the limit
    return point


def _roll(objective: Objective, start: Point) -> Point:
    """Descend with Nesterov's momentum at a fixed rate: 1 / (2 λ), with λ the largest curvature at the start."""
    direction, largest = start.gradient, 0.0
    for _ in range(8):  # power iteration
        size = float(np.linalg.norm(direction))
        if not size > 0:
            break
        direction = objective.product(start.parameters, direction / size)
        if not in_range(direction):
            return start
        largest = float(np.linalg.norm(direction))
    for share in (0.5, 0.05):  # curvature may grow on the way
        rate = share / largest if largest > 0 else np.inf
        end = _rolled(objective, start, rate) if in_range(rate) else None
        if end is not None and end.value < start.value:
            return end
    return start


def _rolled(objective: Objective, start: Point, rate: float) -> Point | None:
    """Return where the descent ends; None if it runs off, as it does when the rate is too high."""
    parameters, speed = start.parameters, np.zeros_like(start.parameters)
    for _ in range(ROLLS):
        gradient = objective.value_gradient(parameters + MOMENTUM * speed)[1]
        if not in_range(gradient):
            return None
        speed = MOMENTUM * speed - rate * gradient
        parameters = parameters + speed
    end = objective.at(parameters)
    return end if end.sound else None


def _walk(objective: Objective, start: Point, target: float) -> Point:
    """Walk down by L-BFGS until ‖∇R‖ ≤ target."""
    from scipy.optimize import minimize

    best = start
    wall = 1e6 * (1.0 + abs(start.value))  # stands in for overflow, so that the line search turns back

    def evaluate(parameters: Array) -> tuple[float, Array]:
        nonlocal best
        point = objective.at(parameters.copy())
        if not point.sound:
            return wall, np.zeros_like(parameters)
        if point.value < best.value or (point.value <= best.value and point.residual < best.residual):
            best = point
        return point.value, point.gradient

    with one_thread():  # its matrices are 2 · MEMORY rows
        minimize(
            evaluate,
            start.parameters,
            jac=True,
            method="L-BFGS-B",
            options={
                "gtol": target / np.sqrt(start.parameters.size),  # SciPy's is the largest entry
                "ftol": 0.0,
                "maxiter": MOST_WALKS,
                "maxfun": 2 * MOST_WALKS,
                "maxcor": MEMORY,
            },
        )
    return best
