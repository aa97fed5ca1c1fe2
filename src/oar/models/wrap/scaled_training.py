"""A model behind a scaler that is refitted with it, bound to data.

The operator's pipeline standardises features and then trains: e = (a − m₁)/s with s² = m₂ − m₁², where m₁ = Σ w̄ a and
m₂ = Σ w̄ a². These averages minimise Σ_i w̄_i ½‖m − t(a_i)‖² with t(a) = (a, a²), so they are parameters like any others,
and the pipeline's training gradient is a sum over people too:

    F(θ, m) = Σ_i w̄_i (∇_θ ℓ(θ; e_i), m − t(a_i)) + (∇Ω, 0)              zero at the refit
    ∂F      = ( H  C ; 0  I ),    C = Σ_i w̄_i ∂_e∇_θ ℓ_i ∂e_i/∂m

The adjoint ∂Fᵀ v = g is solved from the top, v_θ = H⁻¹ g_θ and v_m = g_m − Cᵀ v_θ, and a member's score is

    s_i = v_θᵀ∇_θ ℓ(θ; e_i) + v_mᵀ(m − t(a_i)),        ∇_a s_i = ∇_e s_i / s − v_m₁ − 2 v_m₂ a_i.

To keep numbers near 1, a is the feature as the scaler of the unmoved people sees it. Columns that are not scaled are
left as they are.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oar.models.training import Array, ByColumns, Columns, Fit, goals

FLAT = float(np.finfo(np.float64).eps)  # times the number of people: the share of averages that may be rounding


@dataclass(eq=False)
class ScalerInput:
    """People who have moved, as the first scaler sees them: a, in those columns that may differ from the unmoved.

    Attributes:
        columns: (r,) all columns that are scaled, and all others that were moved.
        before: (n, r) the unmoved people there.
        rows: (n, r) a there.
        values: (n, s) the scaled columns alone, which scalers are fitted to.
        scaled: (s,) where among the columns these are.
        last: the last scaler that they were seen by, and how the model's training saw them then.
    """

    columns: Columns
    before: Array
    rows: Array
    values: Array
    scaled: Columns
    last: tuple[bytes, Any] | None = None


class ScaledParameters(NamedTuple):
    """What a scaler and the model behind it have learned.

    Attributes:
        centres, scales: (d,), of features as they were given; 0 and 1 where they are left as they are.
        model: the model's own parameters, which apply to scaled features.
    """

    centres: Any
    scales: Any
    model: Any

    def scaled(self, features: Any) -> Any:
        """Return features as the model sees them."""
        return (features - self.centres) / self.scales


class ScaledSignal(NamedTuple):
    """θ and v as they apply to e = (x − centres) / scales, and what members do through the scaler.

    With a = m₁ + s e the score is, up to a constant,

        v_θᵀ∇_θ ℓ(θ; e) − Σ_j e_j (shift_j + spread_j e_j),     shift = s (v_m₁ + 2 v_m₂ m₁),     spread = s² v_m₂.

    Attributes:
        parameters, signal: the model's own.
        centres, scales: (d,), of features as they were given; 0 and 1 where they are left as they are.
        shift, spread: (d,), 0 where no scaler is refitted.
    """

    parameters: Array
    signal: Array
    centres: Array
    scales: Array
    shift: Array
    spread: Array


class ScaledTraining:
    """Implements `Training` for a model whose features are scaled before it is trained.

    Args:
        inner: the model's own training, bound to features as scaled for the unmoved people.
        features: these features (n, d).
        scales: the scale of every column for the unmoved people, 1 where it is not scaled.
        centres: the centre of every column, 0 where it is not scaled.
        columns: which columns are scaled (d,), by a scaler that is refitted.
    """

    def __init__(
        self, inner: ByColumns, features: Array, centres: Array, scales: Array, columns: np.ndarray[Any, Any]
    ) -> None:
        """Keep the parts; parameters are those of the model, then m₁ and m₂ of the scaled columns."""
        self.inner, self._features = inner, features
        self._centres, self._scales = centres, scales
        self._columns = np.flatnonzero(columns)
        self._extra = self._columns.size
        self.size, self.dimensions, self.weights = inner.size, inner.dimensions, inner.weights
        self.parameter_count = inner.parameter_count + 2 * self._extra
        self.targets = getattr(inner, "targets", None)
        self._before = self._features[:, self._columns]
        self._nearby: tuple[Columns, Columns, Array] | None = None  # of the columns that moved last

    @property
    def passes(self) -> int:
        """How often all the data were read so far."""
        return self.inner.passes

    @property
    def damping(self) -> float:
        """How much the model's Hessian was damped."""
        return float(getattr(self.inner, "damping", 0.0))

    @property
    def inexact(self) -> str:
        """A sentence where the model's last refit is not at a minimum, so that signals are approximate; else ""."""
        return getattr(self.inner, "inexact", "")

    def start(self) -> Array:
        """Start the model as it starts, and the scaler as the unmoved people have it."""
        return np.concatenate([self.inner.start(), np.zeros(self._extra), np.ones(self._extra)])

    def moved(self, moves: Array | None, columns: Columns | None = None) -> ScalerInput:
        """Return everyone's features as the first scaler sees them."""
        if moves is None:
            return ScalerInput(self._columns, self._before, self._before, self._before, np.arange(self._extra))
        given = np.arange(self.dimensions) if columns is None else columns
        some, before = self._around(given)
        if some.size == given.size:
            rows = moves / self._scales[given]
            rows += before
        else:
            rows = before.copy()
            rows[:, np.searchsorted(some, given)] += moves / self._scales[given]
        scaled = np.searchsorted(some, self._columns)
        return ScalerInput(some, before, rows, rows[:, scaled], scaled)

    def _around(self, given: Columns) -> tuple[Columns, Array]:
        """Return these columns and all that are scaled, and the unmoved people there; kept, as it is asked again."""
        if self._nearby is None or not np.array_equal(self._nearby[0], given):
            some = np.union1d(self._columns, given)
            self._nearby = given, some, self._features[:, some]
        return self._nearby[1:]

    def _split(self, vector: Array) -> tuple[Array, Array, Array]:
        """Return the model's part, and those of m₁ and m₂."""
        count = self.inner.parameter_count
        return vector[:count], vector[count : count + self._extra], vector[count + self._extra :]

    def _spread(self, mean: Array, square: Array) -> Array:
        """Return √(m₂ − m₁²), 1 for a constant column."""
        return np.sqrt(np.where(self._varies(mean, square), square - mean**2, 1.0))

    def _varies(self, mean: Array, square: Array) -> np.ndarray[Any, Any]:
        """Report which columns are divided: a variance that may be rounding is that of a constant column.

        By scikit-learn's bound, (n ε μ)² with μ the mean in the features' own units, and by what m₂ − m₁² loses.
        """
        centres, scales = self._centres[self._columns], self._scales[self._columns]
        rounding = self.size * FLAT
        bound = (rounding * (mean + centres / scales)) ** 2 + rounding * square
        return np.asarray(square - mean**2 > bound)

    def _rescaled(self, rows: Array, mean: Array, square: Array) -> Array:
        """Return e for people's a (..., d)."""
        seen = rows.copy()
        seen[..., self._columns] = (rows[..., self._columns] - mean) / self._spread(mean, square)
        return seen

    def _inner_features(self, features: ScalerInput, mean: Array, square: Array) -> Any:
        """Return e as the model's training wants it; made once for each pair of features and scaler."""
        key = mean.tobytes() + square.tobytes()
        if features.last is None or features.last[0] != key:
            moves = features.rows - features.before
            moves[:, features.scaled] = (features.values - mean) / self._spread(mean, square) - self._before
            features.last = key, self.inner.moved(moves, features.columns)
        return features.last[1]

    def fit(self, features: ScalerInput, start: Array, tolerance: float) -> Fit:
        """Refit the scaler, which is an average, and then the model."""
        values = features.values
        mean, square = self.weights @ values, self.weights @ values**2
        found = self.inner.fit(self._inner_features(features, mean, square), self._split(start)[0], tolerance)
        parameters = np.concatenate([found.parameters, mean, square])
        return Fit(parameters, features, found.residual, found.converged)

    def risk_gradient(self, parameters: Array, features: ScalerInput) -> tuple[float, Array]:
        """Return the risk and F."""
        theta, mean, square = self._split(parameters)
        value, gradient = self.inner.risk_gradient(theta, self._inner_features(features, mean, square))
        values = features.values
        off, off_square = mean - self.weights @ values, square - self.weights @ values**2
        return value + 0.5 * float(off @ off + off_square @ off_square), np.concatenate([gradient, off, off_square])

    def product(self, parameters: Array, features: ScalerInput, direction: Array) -> Array:
        """Return ∂Fᵀ times a direction."""
        theta, mean, square = self._split(parameters)
        inner, along_mean, along_square = self._split(direction)
        image = self.inner.product(theta, self._inner_features(features, mean, square), inner)
        by_mean, by_square = self._by_scaler(parameters, features, inner)
        return np.concatenate([image, along_mean + by_mean, along_square + by_square])

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with ∂Fᵀ v = right."""
        theta, mean, square = self._split(fit.parameters)
        pull, pull_mean, pull_square = self._split(right)
        inner = Fit(theta, self._inner_features(fit.features, mean, square), fit.residual, fit.converged)
        signal = self.inner.solve(inner, pull, None if start is None else self._split(start)[0], tolerance)
        by_mean, by_square = self._by_scaler(fit.parameters, fit.features, signal)
        return np.concatenate([signal, pull_mean - by_mean, pull_square - by_square])

    def _by_scaler(self, parameters: Array, features: ScalerInput, signal: Array) -> tuple[Array, Array]:
        """Return Cᵀ v_θ: one pass."""
        theta, mean, square = self._split(parameters)
        inner = self._inner_features(features, mean, square)
        slopes = self.weights[:, None] * self.inner.score_gradients(theta, inner, signal, self._columns)
        return self._pulled_back(slopes, features.values, mean, square)

    def _pulled_back(self, slopes: Array, rows: Array, mean: Array, square: Array) -> tuple[Array, Array]:
        """Return Σ slopes · ∂e/∂m₁ and Σ slopes · ∂e/∂m₂ over rows of a.

        With s² = m₂ − m₁²: ∂s/∂m₁ = −m₁/s and ∂s/∂m₂ = 1/(2s), so ∂e/∂m₁ = −1/s + e m₁/s² and ∂e/∂m₂ = −e/(2s²).
        """
        spread = self._spread(mean, square)
        along = (slopes * (rows - mean)).sum(axis=0) / spread
        along = np.where(
            self._varies(mean, square), along, 0.0
        )  # a constant column is divided by 1, whatever its variance
        return -slopes.sum(axis=0) / spread + along * mean / spread**2, -0.5 * along / spread**2

    def score_gradients(
        self, parameters: Array, features: ScalerInput, signal: Array, columns: Columns | None = None
    ) -> Array:
        """Return ∇_x s_i for everyone, in these columns."""
        theta, mean, square = self._split(parameters)
        inner, along_mean, along_square = self._split(signal)
        some = np.arange(self.dimensions) if columns is None else columns
        slopes = self.inner.score_gradients(theta, self._inner_features(features, mean, square), inner, some)
        _, which, place = np.intersect1d(self._columns, some, return_indices=True)
        rows, spread = features.values[:, which], self._spread(mean, square)[which]
        slopes[:, place] = slopes[:, place] / spread - along_mean[which] - 2 * along_square[which] * rows
        slopes /= self._scales[some]
        return slopes

    def published(self, parameters: Array, signal: Array) -> ScaledSignal:
        """Return θ and v as members need them who know their own features alone."""
        theta, mean, square = self._split(parameters)
        inner, along_mean, along_square = self._split(signal)
        given = getattr(self.inner, "in_given_units", lambda vector: vector)
        columns, spread = self._columns, self._spread(mean, square)
        centres, scales = self._centres.copy(), self._scales.copy()
        shift, widening = np.zeros((2, self.dimensions))
        centres[columns] += scales[columns] * mean
        scales[columns] *= spread
        shift[columns] = spread * (along_mean + 2 * along_square * mean)
        widening[columns] = spread**2 * along_square
        return ScaledSignal(given(theta), given(inner), centres, scales, shift, widening)

    def contributing(self, targets: Array, weights: Array) -> ScaledTraining:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other = copy.copy(self)
        other.inner = self.inner.contributing(targets, weights)
        other.targets, other.weights = targets, weights
        return other

    def scores(self, parameters: Array, features: ScalerInput, signal: Array, targets: Array) -> Array:
        """Return s_i (n,) for everyone, if its target were that row of `targets`."""
        theta, mean, square = self._split(parameters)
        inner, along_mean, along_square = self._split(signal)
        values = self.inner.scores(theta, self._inner_features(features, mean, square), inner, targets)
        rows = features.values
        return values + (mean - rows) @ along_mean + (square - rows**2) @ along_square

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L, its gradient in the model's and the scaler's parameters, and in the query."""
        theta, mean, square = self._split(parameters)
        row = (query - self._centres) / self._scales
        loss, pull, slope = self.inner.goal(theta, self._rescaled(row, mean, square), target)
        columns = self._columns
        by_mean, by_square = self._pulled_back(slope[None, columns], row[None, columns], mean, square)
        slope = slope.copy()
        slope[columns] /= self._spread(mean, square)
        return loss, np.concatenate([pull, by_mean, by_square]), slope / self._scales

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's gradient in model and scaler, and each one's ∇_x (m, d)."""
        theta, mean, square = self._split(parameters)
        given, columns = (rows - self._centres) / self._scales, self._columns
        losses, pull, slopes = goals(self.inner, theta, self._rescaled(given, mean, square), targets)
        parts = self._pulled_back(slopes[:, columns] / len(rows), given[:, columns], mean, square)
        slopes = slopes.copy()
        slopes[:, columns] /= self._spread(mean, square)
        return losses, np.concatenate([pull, *parts]), slopes / self._scales

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs for one person."""
        theta, mean, square = self._split(parameters)
        return self.inner.outputs(theta, self._rescaled((query - self._centres) / self._scales, mean, square))

    def matrix(self, parameters: Array) -> Array:
        """Return (W, b), (o, d + 1), as they apply to features in the units they were given in; for linear models."""
        theta, mean, square = self._split(parameters)
        found: Array = self.inner.matrix(theta).copy()  # type: ignore[attr-defined]
        columns, spread = self._columns, self._spread(mean, square)
        found[:, columns] /= spread
        found[:, -1] -= found[:, columns] @ mean
        found[:, :-1] /= self._scales
        found[:, -1] -= found[:, :-1] @ self._centres
        return found

    def parameters(self, flat: Array) -> Any:
        """Return flat parameters as they apply to features as they were given: of linear models (W, b)."""
        if hasattr(self.inner, "matrix"):
            return self.matrix(flat)
        theta, mean, square = self._split(flat)
        centres, scales, columns = self._centres.copy(), self._scales.copy(), self._columns
        centres[columns] += scales[columns] * mean
        scales[columns] *= self._spread(mean, square)
        return ScaledParameters(centres, scales, self.inner.parameters(theta))  # type: ignore[attr-defined]
