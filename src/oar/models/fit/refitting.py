"""Refits by L-BFGS and Newton, and solves with the Hessian there, for every training with derivatives.

Whoever computes these derivatives (JAX, PyTorch) makes no difference here: everything is NumPy.

**Optima at infinity.** Where some people are separated from the others and nothing is penalised, the risk falls like
e^(−t) along some direction u. Gradient and curvature shrink together there: any tolerance is met some way out, and the
Newton step s = −(u·∇R / uᵀHu) u, which at a minimum vanishes with the gradient, stays as long as ever. At its end the
curvature is 1/e of what it was, and four steps on the risk still falls. At a minimum the curvature is what it was, and
a second step would go uphill. None of this depends on anybody's units.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from oar.checks import check_that
from oar.errors import DataError, NumericsError
from oar.models.fit.curvature import Curvature
from oar.models.fit.minimise import Objective, Point, minimise
from oar.models.protocol import delegated
from oar.models.training import Array, Fit, Some

TIGHT = 1e-8  # the gradient norm at which a fit is near enough to say whether there is a minimum ahead
NO_CURVATURE = 1e-13  # share of the largest below which curvature is rounding, as in directions that move no prediction
CLEAR = 10.0  # curvature is no rounding either if it is so many times the most negative one
FALLEN = 0.6  # what is left of the curvature after a step, at the most: 1/e where the risk falls for ever
STEPS = (2.0, 4.0)  # a coarse fit can stand a long step from a minimum, but not twice or four times as long a one
LEFT = 0.01  # what is left of the slope after that, at the least: e^(−4) is 0.018


@delegated("_curvature", "damping", "solve")
class SecondOrderTraining:
    """The half of a `Training` that needs no more than risk, gradient and Hessian products."""

    parameter_count: int
    risk_gradient: Callable[[Array, Any], tuple[float, Array]]
    product: Callable[[Array, Any, Array], Array]
    _bind: Callable[[], None]  # lays targets and weights out, and forgets what was known of the curvature for others
    # The gradient of penalty and gauge, to the last bit as in `risk_gradient` if losses added nothing
    _gradient_without_people: Callable[[Array, Any], Array]
    _term: Callable[[str, Array], tuple[Any, Any]]  # the "penalty" or the "gauge" at θ, and its gradient
    _start: Array
    _curvature: Curvature

    def __init__(self, model: Any, features: Any, targets: Any, weights: Any) -> None:
        self.model, self.passes = model, 0
        self._features, self.targets, self.weights = checked_people(features, targets, weights)
        self.size, self.dimensions = self._features.shape
        self.output_count = self.targets.shape[1]

    def contributing(self, targets: Array, weights: Array) -> Any:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other = copy.copy(self)
        other.targets, other.weights, other.passes = targets, weights, 0
        other._bind()
        return other

    def start(self) -> Array:
        """Return the model's initial parameters, flat."""
        return self._start.copy()

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit by L-BFGS and Newton from `start`.

        From the model's own start the result is a function of the data alone, bit for bit. Raises where the risk is not
        finite at the start, does not change with any parameter, or is lowest at infinity.
        """
        from_scratch = np.array_equal(start, self._start)
        if from_scratch:
            self._curvature.forget()
        objective = Objective(
            lambda parameters: self.risk_gradient(parameters, features),
            lambda parameters, direction: self.product(parameters, features, direction),
            lambda: self._curvature.spectrum,
            lambda parameters: self._curvature.spectrum_at(parameters, features),
        )
        first = objective.at(np.array(start, dtype=np.float64))
        self._check_start(first, from_scratch)
        if from_scratch:
            self._check_dependence(first, features)
        point = minimise(objective, first, tolerance, from_scratch, many_minima=not self.model.convex)
        if from_scratch:
            self._check_end(objective, point, tolerance)
        return Fit(point.parameters, features, point.residual, point.residual <= tolerance)

    def _check_start(self, point: Point, from_scratch: bool) -> None:
        if point.sound:
            return
        got = "it" if not np.isfinite(point.value) else "its gradient"
        where = "at the initial parameters" if from_scratch else "on the moved data"
        terms = ((name, self._term(name, point.parameters)) for name in ("penalty", "gauge"))
        blamed = next((name for name, term in terms if not all(np.isfinite(one).all() for one in term)), "loss")
        raise NumericsError(
            f"{blamed}: it and its gradient must be finite where a refit starts, but {got} is "
            f"not, {where} of model {self.model.name!r}; look for roots, logarithms or norms of zero, and for features "
            "far out of scale."
        )

    def _check_dependence(self, point: Point, features: Any) -> None:
        """Refuse a loss that is flat in the parameters, at the start and also a little away from it."""

        def flat(at: Array, gradient: Array) -> bool:
            return np.array_equal(gradient, self._gradient_without_people(at, features))

        if not flat(point.parameters, point.gradient):
            return
        size = 1e-2 * (1 + np.abs(point.parameters))
        elsewhere = point.parameters + size * np.random.default_rng(0).standard_normal(self.parameter_count)
        if flat(elsewhere, self.risk_gradient(elsewhere, features)[1]):
            raise NumericsError(
                "loss: must change with the parameters, got a gradient of exactly zero at and around the initial "
                f"parameters of model {self.model.name!r}; a loss of hard decisions (argmax, sign, round) cannot be "
                "differentiated, so nothing could be said about retraining."
            )

    def _check_end(self, objective: Objective, point: Point, tolerance: float) -> None:
        """Refuse an optimum at infinity."""
        beyond = objective.at(1.5 * point.parameters)
        falls = point.value - beyond.value > 0.1 * abs(point.value)
        separated = beyond.sound and falls and beyond.residual < 0.9 * point.residual
        if separated or (point.residual <= tolerance and self._falls_for_ever(objective, point)):
            raise NumericsError(
                f"loss: training must have a minimum, got one from {self.model.name} that falls for ever in some "
                "direction, so that its optimum is at infinity (some people are perfectly separated from the others, "
                "and there is no regulariser); give the model a penalty."
            )

    def _falls_for_ever(self, objective: Objective, point: Point) -> bool:
        """Look beyond a fit of few parameters, along the Hessian's eigenvectors; with a penalty the risk rises."""
        if float(self._term("penalty", point.parameters)[0]) != 0:
            return False
        # From a coarse fit there is no telling far from near.
        point = minimise(objective, point, TIGHT, from_afar=False, many_minima=False)
        spectrum = objective.spectrum(point.parameters) if point.residual <= TIGHT else None
        if spectrum is None:
            return False
        some = spectrum.values > max(NO_CURVATURE * spectrum.largest, -CLEAR * float(spectrum.values[0]))
        directions = spectrum.scale[:, None] * spectrum.vectors[:, some]
        steps = -directions * (point.gradient @ directions / spectrum.values[some])
        return any(_goes_on(objective, point, step) for step in steps.T if step.any())

    def _sound_scores(self, gradients: Array, columns: Some) -> Array:
        """Return score gradients (n, d) in these columns; raise where some are not finite."""
        if not np.isfinite(gradients).all():
            people = np.flatnonzero(~np.isfinite(gradients).all(axis=1))
            raise NumericsError(
                f"loss: its mixed derivatives must be finite, got others for {people.size} of {self.size} people (the "
                f"first is number {people[0]}); look for the norm or square root of something that is zero there."
            )
        return gradients[:, columns]

    def _checked_goal(self, value: float, by_parameters: Array, by_features: Array) -> tuple[float, Array, Array]:
        if not (np.isfinite(value) and np.isfinite(by_parameters).all() and np.isfinite(by_features).all()):
            raise NumericsError(
                f"query: its loss and gradients must be finite, got a loss of {value} from model "
                f"{self.model.name!r}; the query may lie where the loss is not differentiable, or too far from the "
                "data."
            )
        return value, by_parameters, by_features

    def _checked_outputs(self, found: Array) -> Array:
        if np.isnan(found).any():
            raise NumericsError(
                f"outputs: must be numbers, got {found} for the query from model {self.model.name!r}; look for roots, "
                "logarithms or quotients of zero."
            )
        return found


def checked_people(features: Any, targets: Any, weights: Any) -> tuple[Array, Array, Array]:
    """Return float64 arrays of matching shapes, or raise a DataError."""
    features, targets, weights = (np.asarray(array, dtype=np.float64) for array in (features, targets, weights))
    shape, size = features.shape, len(features) if features.ndim else 0
    check_that(len(shape) == 2 and 0 not in shape, "features", "people by features, (n, d) with both at least 1", shape)
    fits = targets.ndim == 2 and len(targets) == size and targets.shape[1] > 0
    check_that(fits, "targets", f"people by outputs, ({size}, o)", targets.shape)
    check_that(weights.shape == (size,), "weights", f"one for each of the {size} people", weights.shape)
    for name, array in (("features", features), ("targets", targets), ("weights", weights)):
        if not np.isfinite(array).all():
            raise DataError(f"{name}: must be finite, got {int((~np.isfinite(array)).sum())} values that are not.")
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise DataError(
            f"weights: must not be negative and must sum to 1, got a least of {weights.min():.3g} and a sum of "
            f"{weights.sum():.6g}; divide them by their sum."
        )
    return features, targets, weights


def _goes_on(objective: Objective, point: Point, step: Array) -> bool:
    slope = float(step @ point.gradient)  # −sᵀHs
    ahead = float(step @ objective.product(point.parameters + step, step))
    if not 0 <= ahead < -FALLEN * slope:
        return False
    gradients = (objective.value_gradient(point.parameters + many * step)[1] for many in STEPS)
    return all(np.isfinite(left := float(step @ gradient)) and left < LEFT * slope for gradient in gradients)
