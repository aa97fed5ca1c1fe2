"""Newton's method close to a minimum: with the whole Hessian, or by conjugate gradients on its products.

**With the whole Hessian** (few parameters). Steps are the best ones of the quadratic with the fresh gradient and the
last Hessian within a *trust region*: its radius grows where the risk follows the quadratic, and shrinks where it does
not. A new Hessian costs up to p passes, so the last one, of an earlier point or of an earlier refit, serves for as long
as the radius holds steps back and the risk follows, or else the gradient shrinks.

**By products** (many parameters). Conjugate gradients solve H s = −∇R the more precisely the smaller ∇R is, so that the
gradient norm squares. A step that does not contract is the last: L-BFGS gets closer at less cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from oar.models.fit.conjugate_gradients import conjugate_gradients, in_range
from oar.models.fit.objective import Array, Objective, Point
from oar.models.fit.spectrum import Spectrum

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
        radius = radius or _first_radius(point, spectrum)
        taken = _trusted_step(objective, point, spectrum, radius, MOST_SHRINKINGS if fresh else 1)
        if taken is not None:
            point, radius = taken.point, taken.radius
        elif fresh:
            break
        if taken is None or not taken.serves:
            spectrum = None
        fresh = False
    return point


def _first_radius(point: Point, spectrum: Spectrum) -> float:
    """Return a small share of the parameters' own length, or of √R where they are near zero: the units are the same."""
    return FIRST_RADIUS * (max(spectrum.length(point.parameters), abs(point.value) ** 0.5) or 1.0)


@dataclass(frozen=True, eq=False)
class _Taken:
    """A step: where it led, the radius to try from there, and whether the Hessian that it was made of still serves."""

    point: Point
    radius: float
    serves: bool


def _trusted_step(objective: Objective, point: Point, spectrum: Spectrum, radius: float, trials: int) -> _Taken | None:
    """Take a step, at a smaller radius if need be; None if none of the trials will do."""
    for _ in range(trials):
        step, expected = spectrum.step_within(point.gradient, radius)
        if not (in_range(step) and expected > 0):
            return None
        new, size = objective.at(point.parameters + step), spectrum.length(step)
        if new.sound:
            fallen, contracts = point.value - new.value, new.residual <= KEEP * point.residual
            if abs(fallen) <= _rounding(point):  # values are equal to rounding: the gradient decides
                if new.residual <= 0.9 * point.residual:
                    return _Taken(new, radius, contracts)
            elif fallen >= FOLLOWS * expected:
                return _Taken(new, max(radius, 3 * size), contracts or size > 0.9 * radius)
            elif fallen >= FAILS * expected:
                return _Taken(new, radius if fallen >= STRAYS * expected else 0.5 * size, contracts)
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
