"""Newton's method close to a minimum: with the whole Hessian, or by conjugate gradients on its products.

**With the whole Hessian** (few parameters). A step is −H⁻¹∇R, where H may be that of an earlier point, or of an earlier
refit: while such a step leaves no more than `KEEP` of the gradient, nothing is gained by a new one, and a step costs
one pass. Otherwise H is built where we stand, and the step is the best one within a *trust region*: the radius shrinks
where the risk does not follow the quadratic, and grows where it does. So a refit tends to go down the valley that it
starts in, and not to leap over into another on the strength of a soft direction, as full steps do: the query's loss is
then a continuous function of the moves for as long as that valley exists.

**By products** (many parameters). Conjugate gradients solve H s = −∇R the more precisely the smaller ∇R is, so that the
gradient norm squares. A step that does not contract is the last: L-BFGS gets closer at less cost.
"""

from __future__ import annotations

import numpy as np

from oar.models.conjugate_gradients import conjugate_gradients, in_range
from oar.models.objective import Array, Objective, Point
from oar.models.spectrum import Spectrum

MOST_STEPS = 200  # with the whole Hessian
KEEP = 0.7  # a step that leaves more than this share of the gradient asks for a new Hessian, which costs many passes
FIRST_RADIUS = 0.01
MOST_SHRINKINGS = 20
FOLLOWS, STRAYS = 0.75, 0.25  # shares of the quadratic's decrease above and below which the radius grows and shrinks
MOST_TRUNCATED = 30
MOST_PRODUCTS = 200  # a step
SLOW = 0.5  # a step by products that leaves more than this share of the gradient does not contract
MOST_HALVINGS = 40


def newton(objective: Objective, point: Point, tolerance: float) -> Point:
    """Return a point with ‖∇R‖ ≤ tolerance, or where Newton's method ceases to pay."""
    spectrum, radius = objective.kept_spectrum(), 0.0
    for _ in range(MOST_STEPS):
        if point.residual <= tolerance:
            break
        if spectrum is not None:
            near = _old_step(objective, point, spectrum, radius)
            if near is not None:
                point = near
                continue
        spectrum = objective.spectrum(point.parameters)
        if spectrum is None:
            return _by_products(objective, point, tolerance)
        radius = radius or _first_radius(point, spectrum)
        new, radius = _trusted_step(objective, point, spectrum, radius)
        if new is point:
            break
        point = new
    return point


def _first_radius(point: Point, spectrum: Spectrum) -> float:
    """Return a small share of the parameters' own length, or of √R where they are near zero: the units are the same."""
    return FIRST_RADIUS * (max(spectrum.length(point.parameters), abs(point.value) ** 0.5) or 1.0)


def _old_step(objective: Objective, point: Point, spectrum: Spectrum, radius: float) -> Point | None:
    """Return where −H⁻¹∇R leads with the H of another point; None unless that is short, and much closer."""
    step = -spectrum.solve(point.gradient)
    radius = radius or _first_radius(point, spectrum)
    if spectrum.damping or not in_range(step) or spectrum.length(step) > radius:
        return None
    new = objective.at(point.parameters + step)
    falls = new.sound and new.value <= point.value + _rounding(point)
    return new if falls and new.residual <= KEEP * point.residual else None


def _trusted_step(objective: Objective, point: Point, spectrum: Spectrum, radius: float) -> tuple[Point, float]:
    """Return the next point, and the radius to try there; the same point if no radius will do."""
    for _ in range(MOST_SHRINKINGS):
        step, expected = spectrum.step_within(point.gradient, radius)
        if not (in_range(step) and expected > 0):
            break
        new, size = objective.at(point.parameters + step), spectrum.length(step)
        fallen = point.value - new.value if new.sound else -np.inf
        if abs(fallen) <= _rounding(point):  # values are equal to rounding: the gradient decides
            if new.residual <= 0.9 * point.residual:
                return new, radius
        elif fallen >= FOLLOWS * expected:
            return new, max(radius, 3 * size)
        elif fallen >= 0.1 * expected:
            return new, radius if fallen >= STRAYS * expected else 0.5 * size
        radius = 0.25 * size
    return point, radius


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
