"""A test for optima at infinity: is the end of a search a minimum, or does the risk fall for ever in some direction?

Where some people are separated from the others and nothing is penalised, the risk falls like e^(−t) along some
direction u. Gradient and curvature shrink together there: any tolerance is met some way out, and the Newton step
s = −(u·∇R / uᵀHu) u, which at a minimum vanishes with the gradient, stays as long as ever. At its end the curvature is
1/e of what it was, and four steps on the risk still falls. At a minimum the curvature is what it was, and a second step
would go uphill. None of this depends on anybody's units.
"""

from __future__ import annotations

import numpy as np

from oar.models.fit.objective import Objective, Point
from oar.models.fit.spectrum import Array, Spectrum

NO_CURVATURE = 1e-13  # share of the largest below which curvature is rounding, as in directions that move no prediction
CLEAR = 10.0  # curvature is no rounding either if it is so many times the most negative one
FALLEN = 0.6  # what is left of the curvature after a step, at the most: 1/e where the risk falls for ever
STEPS = (2.0, 4.0)  # a coarse fit can stand a long step from a minimum, but not twice or four times as long a one
LEFT = 0.01  # what is left of the slope after that, at the least: e^(−4) is 0.018


def falls_for_ever(objective: Objective, point: Point, spectrum: Spectrum) -> bool:
    """Report whether the risk goes on falling beyond where a search ended, along an eigenvector of its Hessian."""
    rounding = max(NO_CURVATURE * spectrum.largest, -CLEAR * float(spectrum.values[0]))
    some = spectrum.values > rounding
    directions = spectrum.scale[:, None] * spectrum.vectors[:, some]
    steps = -directions * (point.gradient @ directions / spectrum.values[some])
    return any(_goes_on(objective, point, step) for step in steps.T if step.any())


def _goes_on(objective: Objective, point: Point, step: Array) -> bool:
    slope = float(step @ point.gradient)  # −sᵀHs
    ahead = float(step @ objective.product(point.parameters + step, step))
    if not 0 <= ahead < -FALLEN * slope:
        return False
    gradients = (objective.value_gradient(point.parameters + many * step)[1] for many in STEPS)
    return all(np.isfinite(left := float(step @ gradient)) and left < LEFT * slope for gradient in gradients)
