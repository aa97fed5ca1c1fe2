"""Full-batch training to a small gradient: L-BFGS from afar, Newton nearby.

L-BFGS walks down to a rough gradient norm; Newton steps then square the error. Where they do not get there, L-BFGS goes
on to a tighter norm, and so in turns. Nothing here is random and nothing is remembered between calls, so the same
function and start give the same bits.

Where there are many minima, a descent with momentum at a fixed rate comes first. Each of its steps is a smooth function
of the data, as those of L-BFGS and its line search are not, so that nearly the same data end in the same valley. (Four
networks on Iris, retrained from scratch on slightly moved data, left the minimum that a warm start keeps to in two of
twelve cases without it, and in none with it.)

**Newton with the whole Hessian** (few parameters). Steps are the best ones of the quadratic with the fresh gradient and
the last Hessian within a *trust region*: its radius grows where the risk follows the quadratic, and shrinks where it
does not. A new Hessian costs up to p passes, so the last one, of an earlier point or of an earlier refit, serves for as
long as the radius holds steps back and the risk follows, or else the gradient shrinks.

**Newton by products** (many parameters). Conjugate gradients solve H s = −∇R the more precisely the smaller ∇R is, so
that the gradient norm squares. A step that does not contract is the last: L-BFGS gets closer at less cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oar.models.fit.curvature import Spectrum
from oar.models.fit.one_thread import one_thread
from oar.models.fit.quasi_newton import conjugate_gradients, in_range
from oar.models.training import Array

ROUGH = 1e-3  # the gradient norm at which Newton first takes over
TIGHTER = 0.03  # how much further L-BFGS goes each time that Newton does not get there
MOST_TURNS = 8
MOST_WALKS = 2_000  # L-BFGS iterations a turn
STALLED = 1e-9  # a turn that lowers the risk by less than this share, and the gradient by less than half, is the last
MEMORY = 20
ROLLS = 300  # steps of descent with momentum
MOMENTUM = 0.9
MOST_STEPS = 500  # with the whole Hessian
MOST_HESSIANS = 2  # before L-BFGS gets a turn: far from the minimum each serves for a few steps only
KEEP = 0.7  # a free step that leaves more than this share of the gradient asks for a new Hessian
FIRST_RADIUS = 0.01
MOST_SHRINKINGS = 20
FOLLOWS, STRAYS, FAILS = 0.75, 0.25, 0.1  # shares of the expected fall: the radius grows, shrinks, the step is refused
MOST_TRUNCATED = 30
MOST_PRODUCTS = 200  # a step
SLOW = 0.5  # a step by products that leaves more than this share of the gradient does not contract
MOST_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters with the risk and its gradient there."""

    parameters: Array
    value: float
    gradient: Array

    @property
    def residual(self) -> float:
        """‖∇R‖."""
        return float(np.linalg.norm(self.gradient))

    @property
    def sound(self) -> bool:
        """Whether risk and gradient are numbers, small enough to be reckoned with."""
        return in_range(self.value) and in_range(self.gradient)


@dataclass(frozen=True, eq=False)
class Objective:
    """A function to minimise."""

    value_gradient: Callable[[Array], tuple[float, Array]]  # its value and gradient
    product: Callable[[Array, Array], Array]  # its Hessian at a point, times a direction
    kept_spectrum: Callable[[], Spectrum | None]  # that of its Hessian somewhere else, if one is at hand, or None
    # that of its Hessian at a point; None where that costs too much, or there is none
    spectrum: Callable[[Array], Spectrum | None]

    def at(self, parameters: Array) -> Point:
        """Evaluate."""
        return Point(parameters, *self.value_gradient(parameters))


def minimise(objective: Objective, start: Point, tolerance: float, from_afar: bool, many_minima: bool) -> Point:
    """Return a point with ‖∇R‖ ≤ tolerance, or the best one found, from a sound start.

    L-BFGS goes first `from_afar`, and before it descent with momentum where there are `many_minima`; otherwise Newton
    does, as is right close to a minimum.
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


def newton(objective: Objective, point: Point, tolerance: float) -> Point:
    """Return a point with ‖∇R‖ ≤ tolerance, or where Newton's method ceases to pay."""
    spectrum, fresh, radius, built = objective.kept_spectrum(), False, 0.0, 0
    for _ in range(MOST_STEPS):
        if point.residual <= tolerance:
            break
        if spectrum is None:
            if built == MOST_HESSIANS:
                break  # L-BFGS gets closer at less cost
            spectrum, fresh, built = objective.spectrum(point.parameters), True, built + 1
            if spectrum is None:
                return _by_products(objective, point, tolerance)
        # At first a small share of the parameters' length, or of √R where they are near zero: the units are the same
        radius = radius or FIRST_RADIUS * (max(spectrum.length(point.parameters), abs(point.value) ** 0.5) or 1.0)
        taken, serves = _trusted_step(objective, point, spectrum, radius, MOST_SHRINKINGS if fresh else 1), False
        if taken is not None:
            point, radius, serves = taken
        elif fresh:
            break
        spectrum, fresh = spectrum if serves else None, False
    return point


def _trusted_step(
    objective: Objective, point: Point, spectrum: Spectrum, radius: float, trials: int
) -> tuple[Point, float, bool] | None:
    """Take a step, at a smaller radius if need be; None if none of the trials will do.

    Return where it led, the radius to try from there, and whether the Hessian that it was made of still serves.
    """
    for _ in range(trials):
        step, expected = spectrum.step_within(point.gradient, radius)
        if not (in_range(step) and expected > 0):
            return None
        new, size = objective.at(point.parameters + step), spectrum.length(step)
        if new.sound:
            fallen, contracts = point.value - new.value, new.residual <= KEEP * point.residual
            if abs(fallen) <= _rounding(point):  # values are equal to rounding: the gradient decides
                if new.residual <= 0.9 * point.residual:
                    return new, radius, contracts
            elif fallen >= FOLLOWS * expected:
                return new, max(radius, 3 * size), contracts or size > 0.9 * radius
            elif fallen >= FAILS * expected:
                return new, radius if fallen >= STRAYS * expected else 0.5 * size, contracts
        radius = 0.25 * size
    return None


def _rounding(point: Point) -> float:
    """How far apart two values may be that are equal to rounding."""
    return 1e-13 * (1.0 + abs(point.value))


def _by_products(objective: Objective, point: Point, tolerance: float) -> Point:
    for _ in range(MOST_TRUNCATED):
        if point.residual <= tolerance:
            break
        new = _downhill(objective, point, _truncated_step(objective, point))
        slow = new.residual > SLOW * point.residual
        point = new
        if slow:
            break
    return point


def _truncated_step(objective: Objective, point: Point) -> Array:
    """Return s with H s ≈ −∇R; downhill wherever H is not positive."""
    size = point.residual
    solved = conjugate_gradients(
        lambda direction: objective.product(point.parameters, direction),
        -point.gradient,
        enough=min(0.1, size) * size,  # then the gradient norm squares
        most=MOST_PRODUCTS,
    )
    if solved.descent is None or solved.solution.any():
        return solved.solution
    return solved.descent  # −∇R itself


def _downhill(objective: Objective, point: Point, step: Array) -> Point:
    """Halve a step until the risk falls; return the new point, or the same one if it never does."""
    if not in_range(step) or not (slope := float(point.gradient @ step)) < 0:
        return point
    length = 1.0
    for _ in range(MOST_HALVINGS):
        new = objective.at(point.parameters + length * step)
        lower = new.value <= point.value + 1e-4 * length * slope
        level = new.value <= point.value + _rounding(point)
        if new.sound and (lower or (level and new.residual <= 0.9 * point.residual)):
            return new
        length *= 0.5
    return point
