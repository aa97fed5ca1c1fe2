"""A model bound to the people of a round, with θ in the units of the features as given, so that rounds can share it.

`LinearTraining` works in units of its own, which are those of the people that it is bound to: (W, b) there is T θ with

    W_own = W · scale          b_own = b + W · centre

and T is linear. From round to round people differ, and so do those units; what is carried on is θ. A gradient step of
size η is another step in other units, too. So everything goes through T (`FeatureUnits`), while fits keep the units
that make them easy: ∇R = Tᵀ ∇R_own, H = Tᵀ H_own T, and scores are numbers, which have no units: s(θ; v) =
s_own(T θ; T v). The gauge alone, which fixes what moves no prediction, stays as the training has it. It is the same in
all units where the rows of W add up to 0, as they do at every minimum and on every way there from one, or from zero.

JAX compiles a pass once for each shape. A refit from everything so far has another number of people in every round, and
would spend its time compiling. Sizes are therefore rounded up to 2 · 2^k or 3 · 2^k (thousands, beyond 1,000): at most
half as many people again, and two shapes for every doubling. Who is added (`PaddedTraining`) weighs nothing, and is not
seen outside.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import need_jax, real_numbers
from oar.errors import DataError
from oar.models import Centroids
from oar.models.linear.losses import Linear, SoftmaxRegression
from oar.models.linear.training import LinearTraining, units_of
from oar.models.protocol import UNFIT
from oar.models.training import Array, Fit
from oar.online.rules.protocol import Update
from oar.people import Population

LIGHT = 1e-6  # slopes of a penalty below which it may be next to nothing
BESIDE = 1e-6  # the gradient norm of a fit, beside its risk
LEAST = 1e-17  # which digits do not tell from 0
CHUNK = 1_000  # people whom a compiled pass takes together
FEW = 400  # linear models of so few people are not compiled


def bind(model: Any, people: Population) -> Any:
    """Return the model's `Training` for these people. θ is one vector, of the same meaning whoever they are.

    Only `Scaled` models keep the units of the people that they are bound to (`shares_units` says so).
    """
    padding = gains(model, people.size)
    every = padded(people) if padding else people
    training = FeatureUnits.of(model, every) if model.quick else model.training(every)
    return PaddedTraining(training, people.size) if padding else training


def shares_units(model: Any) -> bool:
    """Report whether θ means the same in every round."""
    return model.unscaled is model


def flat_form(training: Any, given: Any, argument: str) -> Array:
    """Return parameters, in the model's own form or already one vector, as one vector θ (p,)."""
    if isinstance(given, Centroids):
        given = given.positions
    if isinstance(given, np.ndarray | list) or not hasattr(training, "flat"):
        try:
            array = np.array(real_numbers(given), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{argument}: must be numbers, got an object of type {type(given).__name__}.") from None
        flat = array.ravel()
        if array.ndim > 1 and flat.size == training.parameter_count:
            own = training.parameters(flat)
            shape = np.shape(own.positions) if isinstance(own, Centroids) else np.shape(own)
            if shape and shape != array.shape:  # as of a matrix that was transposed
                raise DataError(
                    f"{argument}: must have the model's own shape {shape}, or be one vector of {flat.size} numbers, "
                    f"got shape {array.shape}."
                )
    else:
        try:
            flat = np.array(training.flat(given), dtype=np.float64)
        except UNFIT as error:
            got = f"an object of type {type(given).__name__} ({error})"
            raise DataError(f"{argument}: must be what the model has learned, as fit returns it, got {got}.") from None
    if flat.shape != (training.parameter_count,) or not np.isfinite(flat).all():
        raise DataError(
            f"{argument}: must be the model's {training.parameter_count} parameters, all finite, got "
            f"{flat.size} of which {int((~np.isfinite(flat)).sum())} are not."
        )
    return flat


def update_of(
    model: Any,
    people: Population,
    newest: NDArray[np.bool_],
    number: int,
    before: Array | None = None,
    moves: Array | None = None,
) -> Update:
    """Return one round's work: `people` are all whom the rule reads, `newest` (m,) who of them has just arrived."""
    training = bind(model, people)
    classes = () if model.regresses else people.classes
    # A rule may write to θ before
    return Update(number, copy(before), training, training.moved(moves), newest, classes)


class FeatureUnits:
    """Implements `Training` around a `LinearTraining`."""

    def __init__(self, training: LinearTraining, units: tuple[Array, Array]) -> None:
        """Keep both; `units` are the training's own centre and scale (d,)."""
        self._training, self._units = training, units

    @classmethod
    def of(cls, model: Linear, people: Population) -> FeatureUnits:
        """Bind a linear model to people."""
        need_jax(model.name)
        given = people.row_weights
        features, weights = np.ascontiguousarray(people.features, dtype=np.float64), given / given.sum()
        units = units_of(features, weights, model)
        return cls(LinearTraining(model, features, model.targets(people), weights, units), units)

    def __getattr__(self, name: str) -> Any:
        """Ask the training itself for everything that has no units: sizes, weights, targets, moved features, passes."""
        return getattr(self._training, name)

    def _inwards(self, vector: Array) -> Array:
        """Return T θ."""
        centre, scale = self._units
        matrix = vector.reshape(self._training.shape).copy()
        matrix[:, -1] += matrix[:, :-1] @ centre
        matrix[:, :-1] *= scale
        return matrix.ravel()

    def _outwards(self, vector: Array) -> Array:
        """Return T⁻¹ θ."""
        return self._training.in_given_units(vector)

    def _pulled(self, gradient: Array) -> Array:
        """Return Tᵀ g: a gradient in the training's units, in the given ones."""
        centre, scale = self._units
        matrix = gradient.reshape(self._training.shape).copy()
        matrix[:, :-1] = matrix[:, :-1] * scale + matrix[:, -1:] * centre
        return matrix.ravel()

    def _pushed(self, gradient: Array) -> Array:
        """Return T⁻ᵀ g: a gradient in the given units, in the training's."""
        centre, scale = self._units
        matrix = gradient.reshape(self._training.shape).copy()
        matrix[:, :-1] = (matrix[:, :-1] - matrix[:, -1:] * centre) / scale
        return matrix.ravel()

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit; the residual is the training's own, which does not depend on the caller's units."""
        found = self._training.fit(features, self._inwards(start), tolerance)
        finer = self._finer(found, features)
        if finer < min(tolerance, found.residual):
            found = self._training.fit(features, found.parameters, finer)
        return Fit(self._outwards(found.parameters), features, found.residual, found.residual <= tolerance)

    def _finer(self, found: Fit, features: Any) -> float:
        """Return the gradient norm at which a logistic fit ends; ∞ where what was asked for is enough.

        Classes that are apart are told apart ever more surely until a penalty stops it. Where the penalty is next to
        nothing, so is the risk there, and every gradient, long before the minimum: then it must be small beside these.
        """
        model = self._training.model
        if not isinstance(model, SoftmaxRegression):
            return np.inf
        pressed = model.l2 * np.abs(self._outwards(found.parameters).reshape(self._training.shape)[:, :-1])
        if (pressed / self._units[1]).max(initial=0.0) > LIGHT:  # the penalty's own slopes, in the training's units
            return np.inf
        return max(BESIDE * self._training.risk_gradient(found.parameters, features)[0], LEAST)

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return the risk and its gradient."""
        value, gradient = self._training.risk_gradient(self._inwards(parameters), features)
        return value, self._pulled(gradient)

    def product(self, parameters: Array, features: Any, direction: Array) -> Array:
        """Return H times a direction."""
        return self._pulled(self._training.product(self._inwards(parameters), features, self._inwards(direction)))

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v = T⁻¹ H_own⁻¹ T⁻ᵀ right."""
        own = Fit(self._inwards(fit.parameters), fit.features, fit.residual, fit.converged)
        begin = None if start is None else self._inwards(start)
        return self._outwards(self._training.solve(own, self._pushed(right), begin, tolerance))

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_x s_i for everyone, (n, d)."""
        return self._training.score_gradients(self._inwards(parameters), features, self._inwards(signal))

    def contributing(self, targets: Array, weights: Array) -> FeatureUnits:
        """Return the same training for other targets and weights."""
        return FeatureUnits(self._training.contributing(targets, weights), self._units)

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return everyone's s_i (n,), if its target were that row of `targets`."""
        return self._training.scores(self._inwards(parameters), features, self._inwards(signal), targets)

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the query's loss and its gradients."""
        loss, pull, slope = self._training.goal(self._inwards(parameters), query, target)
        return loss, self._pulled(pull), slope

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's ∇_θ, and each one's ∇_x (m, d)."""
        losses, pull, slopes = self._training.goals(self._inwards(parameters), rows, targets)
        return losses, self._pulled(pull), slopes

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return W x† + b."""
        matrix = parameters.reshape(self._training.shape)
        return matrix[:, :-1] @ query + matrix[:, -1]

    def matrix(self, parameters: Array) -> Array:
        """Return (W, b), (o, d + 1)."""
        return parameters.reshape(self._training.shape)

    def parameters(self, flat: Array) -> Array:
        """Return θ in the model's own form, (W, b)."""
        return np.array(flat).reshape(self._training.shape)

    def flat(self, parameters: Any) -> Array:
        """Return (W, b) as one vector."""
        return np.asarray(parameters, dtype=np.float64).ravel()

    def in_given_units(self, vector: Array) -> Array:
        """Return the vector as it is: these are the given units."""
        return vector


def padded_size(size: int) -> int:
    """Return the next size that is rounded.

    >>> [padded_size(size) for size in (7, 65, 1000, 2001, 4_500, 100_000)]
    [8, 96, 1000, 3000, 6000, 128000]
    """
    if size > CHUNK:
        return CHUNK * padded_size(-(-size // CHUNK))
    power = 1
    while 3 * power < size:
        power *= 2
    return min(next(each for each in (power, 2 * power, 3 * power) if each >= size), CHUNK)


def gains(model: Any, size: int) -> bool:
    """Report whether a model is compiled for this many people, and takes no notice of some who weigh nothing."""
    if model.quick:
        return size > FEW
    return model.by_jax and shares_units(model)


def padded(people: Population) -> Population:
    """Return these people and, after them, some of no weight."""
    extra = padded_size(people.size) - people.size
    weights = people.row_weights
    every = people.some(np.append(np.arange(people.size), np.zeros(extra, dtype=np.intp)))
    every.weights = np.append(weights, np.zeros(extra))
    return every


class PaddedTraining:
    """Implements `Training` around one of more people, the last of whom weigh nothing."""

    def __init__(self, training: Any, size: int) -> None:
        """Keep the training; the first `size` are the people."""
        self._training, self.size = training, size
        self.weights, self.targets = training.weights[:size], training.targets[:size]

    def __getattr__(self, name: str) -> Any:
        """Ask the training itself for everything that does not go person by person."""
        return getattr(self._training, name)

    def _filled(self, rows: Array) -> Array:
        return np.concatenate([rows, np.repeat(rows[:1], self._training.size - self.size, axis=0)])

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after the moves."""
        return self._training.moved(None if moves is None else self._filled(moves))

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_x s_i for everyone, (n, d)."""
        return self._training.score_gradients(parameters, features, signal)[: self.size]

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return everyone's s_i (n,), if its target were that row of `targets`."""
        return self._training.scores(parameters, features, signal, self._filled(targets))[: self.size]

    def contributing(self, targets: Array, weights: Array) -> PaddedTraining:
        """Return the same training for other targets and weights."""
        zeros = np.zeros(self._training.size - self.size)
        return PaddedTraining(self._training.contributing(self._filled(targets), np.append(weights, zeros)), self.size)
