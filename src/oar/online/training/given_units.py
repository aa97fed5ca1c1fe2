"""A linear model's training, with θ in the units of the features as they are given.

`LinearTraining` works in units of its own, which are those of the people that it is bound to: (W, b) there is T θ with

    W_own = W · scale          b_own = b + W · centre

and T is linear. From round to round people differ, and so do those units; what is carried on is θ. A gradient step of
size η is another step in other units, too. So everything goes through T here, while fits keep the units that make them
easy: ∇R = Tᵀ ∇R_own, H = Tᵀ H_own T, and scores are numbers, which have no units: s(θ; v) = s_own(T θ; T v).

The gauge alone, which fixes what moves no prediction, stays as the training has it. It is the same in all units where
the rows of W add up to 0, as they do at every minimum and on every way there from one, or from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.differentiable import need_jax
from oar.models.linear.losses import Linear, SoftmaxRegression
from oar.models.linear.training import LinearTraining, units_of
from oar.models.training import Array, Fit
from oar.people import Population

LIGHT = 1e-6  # slopes of a penalty below which it may be next to nothing
BESIDE = 1e-6  # the gradient norm of a fit, beside its risk
LEAST = 1e-17  # which digits do not tell from 0


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
