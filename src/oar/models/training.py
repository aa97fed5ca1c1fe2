"""The protocol of a model that is bound to data: refit it, and differentiate through the refit.

A `Training` is made by `model.training(people)`. It knows the people's features and targets; their moves are given
to it. Parameters are one flat float64 vector θ, whatever pytree the model keeps them in, so that a direction in
parameter space (a signal v) is a vector of the same length.

With R the training risk on the moved data, H = ∇²R, L the query's loss, g = ∇_θ L and v = H⁻¹ g, the query's loss
changes with member i's move as −w̄_i ∇_x s_i, where s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) is the member's *score*. Every signal
maker needs only what is listed here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = NDArray[np.intp]  # some features, by their positions (r,)
Some = Columns | slice  # the same, or a slice of all features
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Fit:
    """A refit: parameters θ (p,), the moved features that they were fitted to, and how well they were."""

    parameters: Array  # θ, flat
    features: Any  # the moved features, in whatever form the training keeps them
    residual: float  # the norm of the training gradient at θ
    # whether the residual is below the tolerance that was asked for; of an estimator that stops before the minimum by
    # itself, that it came to its end
    converged: bool


class Training(Protocol):
    """A model bound to its people. Moves are (n, d) arrays, zero rows for those who stay; None means nobody moves."""

    size: int  # how many people there are
    dimensions: int  # how many features each has
    parameter_count: int  # how long θ is
    weights: Array  # w̄ (n,), which sum to 1
    passes: int  # how often all the data were read so far

    def start(self) -> Array:
        """Return the θ that a refit from scratch starts from; always the same."""

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after the moves, in the form in which the other methods want them."""

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit from `start` until the gradient's norm is at most `tolerance`, or say that it did not converge."""

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return the training risk (regulariser and gauge included) and its gradient (p,)."""

    def product(self, parameters: Array, features: Any, direction: Array) -> Array:
        """Return H times a direction (p,)."""

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with ‖H v − right‖ ≤ tolerance · ‖right‖; raise a NumericsError with the reason if H forbids it."""

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_x s_i for everyone, (n, d); weights not included."""

    def contributing(self, targets: Array, weights: Array) -> Training:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return everyone's s_i (n,), if its target were that row of `targets` (n, o)."""

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the query's loss L for its goal's target (o,), ∇_θ L (p,) and ∇_x L (d,)."""

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs (o,) for one person: logits, or predicted values."""


def displaced(features: Array, moves: Array | None, columns: Some = ALL) -> Array:
    """Return features (n, d) after moves of these columns (n, r); the features themselves where nobody moves."""
    if moves is None:
        return features
    rows = features.copy()
    rows[:, columns] += moves
    return rows


class RowsTraining:
    """The half of a `Training` that keeps people as they came, and whose fit is a formula S of them.

    Nothing is searched; unless a subclass says otherwise, it is as if training minimised ½‖θ − S‖², so that H = I.
    """

    def __init__(self, model: Any, features: Array, weights: Array, parameter_count: int) -> None:
        self.model, self._features, self.weights, self.passes = model, features, weights, 0
        self.size, self.dimensions = features.shape
        self.parameter_count = parameter_count

    def start(self) -> Array:
        """Start from zeros; a fit does not depend on it."""
        return np.zeros(self.parameter_count)

    def moved(self, moves: Array | None, columns: Some = ALL) -> Array:
        """Return everyone's features after the moves, which are (n, r) where `columns` (r,) says of which features."""
        return displaced(self._features, moves, columns)

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return the direction: H = I."""
        return direction.copy()

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v = g."""
        return right.copy()

    def contributing(self, targets: Array, weights: Array) -> Any:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other = copy.copy(self)
        other.weights, other.passes = weights, 0
        return other


def goals(training: Any, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
    """Return the losses (m,) of people (m, d) at targets (m, o), their mean's ∇_θ (p,), and each one's ∇_x (m, d)."""
    at_once = getattr(training, "goals", None)
    if at_once is not None:
        return at_once(parameters, rows, targets)
    each = [training.goal(parameters, row, target) for row, target in zip(rows, targets, strict=True)]
    losses, pulls, slopes = (np.array(part) for part in zip(*each, strict=True))
    return losses, pulls.mean(axis=0), slopes


class CostUnits:
    """A training whose moves are of some features alone, in cost, u = costs · δ; only what speaks of features changes.

    The training can be asked about some columns alone: `columns` (r,) may move, at `costs` (r,) a unit; others are the
    query's own (d,). `made` (n, r) moves were made.
    """

    def __init__(self, training: Any, columns: Columns, costs: Array, query: Array, made: Array | float = 0.0) -> None:
        self._training, self._columns, self._costs, self._query, self._made = training, columns, costs, query, made
        self.dimensions = columns.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._training, name)

    @property
    def point(self) -> Array:
        """The query (r,), in cost."""
        return self._query[self._columns] * self._costs

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after moves in cost."""
        return self._training.moved(self._all_moves(moves), self._columns)

    def _all_moves(self, moves: Array | None) -> Array | None:
        """Return these moves and those made before, in the features' own units; None where there are neither."""
        if moves is None and not np.any(self._made):
            return None
        return (self._made if moves is None else moves + self._made) / self._costs

    def from_there(self, made: Array) -> CostUnits:
        """Return the same training, with everybody's moves counted from these (n, r), in cost."""
        return CostUnits(self._training, self._columns, self._costs, self._query, self._made + made)

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_u s_i for everyone."""
        return self._training.score_gradients(parameters, features, signal, self._columns) / self._costs

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the loss of a query in cost, ∇_θ L, and ∇_u L."""
        loss, pull, slope = self._training.goal(parameters, self._person(query), target)
        return loss, pull, slope[self._columns] / self._costs

    def goal_after(self, parameters: Array, moves: Array | None) -> Any:
        """Return the loss, ∇_θ L and ∂L/∂u (n, r) where queries are members who move with their data; else None."""
        ask = getattr(self._training, "goal_after", lambda *_: None)
        found = ask(parameters, self._all_moves(moves), self._columns)
        return None if found is None else (*found[:2], found[2] / self._costs)

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs for a query in cost."""
        return self._training.outputs(parameters, self._person(query))

    def _person(self, query: Array) -> Array:
        person = self._query.copy()
        person[self._columns] = query / self._costs
        return person
