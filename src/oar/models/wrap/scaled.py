"""A model behind a scaler that is refitted with it: the pipeline that operators of tables train.

It standardises features and then trains: e = (a − m₁)/s with s² = m₂ − m₁², where m₁ = Σ w̄ a and
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
from numpy.typing import NDArray

from oar.errors import OptionError, with_near_names
from oar.models.differentiable import Differentiable
from oar.models.settings import check_flag
from oar.models.training import ALL, Array, ByColumns, Columns, Fit, Some, goals
from oar.people import Population

FLAT = float(np.finfo(np.float64).eps)  # times the number of people: the share of averages that may be rounding


@with_near_names
@dataclass(frozen=True)
class Scaled(Differentiable):
    """Standardise features, then train: scikit-learn's `make_pipeline(StandardScaler(), model)`.

    Of a table, numbers, integers and ordinals are scaled, and booleans and categories are left as they are; of an
    array, everything is.

    The scaler is part of the refit: where members move, so do centres and scales. Then shifting everyone and the query
    together changes nothing in scaled columns, whatever the model. With `frozen`, the scaler of the unmoved people is
    kept, as by operators who fitted it once; then that is true only of models of which it is true without a scaler.

    Args:
        model: what is trained on the scaled features; any model but nearest centroid and a network that is fixed.
        frozen: whether the scaler stays as it was before anybody moved.
    """

    model: Differentiable
    frozen: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be scaled."""
        if not isinstance(self.model, Differentiable) or isinstance(self.model, Scaled) or self.model.plain_means:
            raise OptionError(
                f"model: must be one of oar.models other than NearestCentroid and Scaled, got {self.model!r}; "
                "for centroids in scaled features use PrototypeNetwork."
            )
        if not self.model.labels_matter:
            raise OptionError(
                f"model: must be one that is trained together with its scaler, got {self.model!r}, which is fixed and "
                "normalises by itself; give it alone, with features in the units that it was trained on."
            )
        check_flag("frozen", self.frozen)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The model's name, and that it is scaled."""
        return f"{'frozen-' if self.frozen else ''}scaled {self.model.name}"

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether the risk has one minimum, as the model's has."""
        return self.model.convex

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether shifting everyone changes nothing, as with the model itself."""
        return self.model.equivariant

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether there are no kinks, as in the model."""
        return self.model.smooth

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Whether outputs are linear in the features: scaling is."""
        return self.model.linear

    @property
    def least_loss(self) -> float:  # type: ignore[override]
        """A lower bound of every query's loss."""
        return self.model.least_loss

    @property
    def regresses(self) -> bool:  # type: ignore[override]
        """Whether targets are real values rather than classes."""
        return self.model.regresses

    @property
    def by_jax(self) -> bool:  # type: ignore[override]
        """Whether the model's functions are JAX's."""
        return self.model.by_jax

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the model's outputs (o,) for one person, whose features are as they were given."""
        return self.model.outputs(*_inner(parameters, features))

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's training loss of one person."""
        return self.model.example_loss(*_inner(parameters, features), target)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's loss at the query."""
        return self.model.query_loss(*_inner(parameters, features), target)

    def target_rows(self, targets: Any) -> Any:
        """Return what the model's outputs are compared with."""
        return self.model.target_rows(targets)

    def predicted_class(self, outputs: NDArray[np.float64]) -> int:
        """Return the class that the model's outputs stand for."""
        return self.model.predicted_class(outputs)

    def check(self, people: Population) -> None:
        """Raise where the model cannot be fitted to these people."""
        self.model.check(people)

    def columns(self, people: Population) -> NDArray[np.bool_]:
        """Return which of the people's features are scaled (d,)."""
        return np.ones(people.dimensions, dtype=bool) if people.encoding is None else people.encoding.scaled

    def training(self, people: Population) -> ScaledTraining:
        """Bind scaler and model to people."""
        columns = self.columns(people)
        features = np.asarray(people.features, dtype=np.float64)
        # Who left has left the refits, not the scaler that was there before.
        weights = people.first_row_weights
        weights = weights / weights.sum()
        centres = np.where(columns, weights @ features, 0.0)
        spreads = np.sqrt(weights @ (features - centres) ** 2)
        varies = columns & (spreads > people.size * FLAT * np.abs(centres))  # scikit-learn's bound
        scales = np.where(varies, spreads, 1.0)
        scaled = (features - centres) / scales
        inner = self.model.training(people.with_features(scaled))
        followed = np.zeros_like(columns) if self.frozen else columns
        return ScaledTraining(inner, scaled, centres, scales, followed)


def _inner(parameters: Any, features: Any) -> tuple[Any, Any]:
    """Return the model's own parameters, and features as it sees them; a matrix of a linear model does both."""
    if isinstance(parameters, ScaledParameters):
        return parameters.model, parameters.scaled(features)
    return parameters, features


def unscaled(model: Any) -> Any:
    """Return the model behind a scaler, or the model itself."""
    return model.model if isinstance(model, Scaled) else model


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
    """The parameters of a scaler and of the model behind it.

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
        """The number of passes over all the data so far."""
        return self.inner.passes

    @property
    def damping(self) -> float:
        """The damping of the model's Hessian."""
        return float(getattr(self.inner, "damping", 0.0))

    @property
    def inexact(self) -> str:
        """A sentence where the model's last refit is not at a minimum, so that signals are approximate; else ""."""
        return getattr(self.inner, "inexact", "")

    def start(self) -> Array:
        """Start the model as it starts, and the scaler as the unmoved people have it."""
        return np.concatenate([self.inner.start(), np.zeros(self._extra), np.ones(self._extra)])

    def moved(self, moves: Array | None, columns: Some = ALL) -> ScalerInput:
        """Return everyone's features as the first scaler sees them."""
        if moves is None:
            return ScalerInput(self._columns, self._before, self._before, self._before, np.arange(self._extra))
        given = np.arange(self.dimensions)[columns]
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

    def score_gradients(self, parameters: Array, features: ScalerInput, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns."""
        theta, mean, square = self._split(parameters)
        inner, along_mean, along_square = self._split(signal)
        some = np.arange(self.dimensions)[columns]
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
