"""A model behind a scaler that is refitted with it: the pipeline that operators of tables train.

Behind whatever preprocessing (`PreprocessedTraining`), rows become e = T(x; m) by statistics m = S(X) of everybody.
These are parameters like any others: with R the model's own training risk,

    F(θ, m) = (∇_θ R(θ; T(X; m)), m − S(X)),     ∂F = ( H  C ; 0  I ),    C = Σ_i w̄_i ∂_e∇_θ ℓ_i ∂e_i/∂m

is zero at the refit, and the adjoint ∂Fᵀ v = g is solved from the top: v_θ = H⁻¹ g_θ and v_m = g_m − Cᵀ v_θ.

A scaler standardises features: e = (a − m₁)/s with s² = m₂ − m₁², where m₁ = Σ w̄ a and
m₂ = Σ w̄ a². These averages minimise Σ_i w̄_i ½‖m − t(a_i)‖² with t(a) = (a, a²), so that a member's score is a sum too:

    s_i = v_θᵀ∇_θ ℓ(θ; e_i) + v_mᵀ(m − t(a_i)),        ∇_a s_i = ∇_e s_i / s − v_m₁ − 2 v_m₂ a_i.

To keep numbers near 1, a is the feature as the scaler of the unmoved people sees it. Columns that are not scaled are
left as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_flag, with_near_names
from oar.errors import OptionError
from oar.models.differentiable import Differentiable
from oar.models.protocol import delegated
from oar.models.training import ALL, Array, Columns, Fit, Some, goals
from oar.people import Population

FLAT = float(np.finfo(np.float64).eps)  # times the number of people: the share of averages that may be rounding


@dataclass(eq=False)
class PreprocessedRows:
    """People who have moved, before they are preprocessed."""

    rows: Array  # (n, d) in their own units
    # the statistics that they were last preprocessed by (as bytes), and how the model's training saw them then
    last: tuple[Any, Any] = (None, None)


@delegated("inner", "passes")
class PreprocessedTraining:
    """The half of a `Training` that is the same behind whatever preprocessing; parameters are the model's, then m."""

    inner: Any  # the model's own training, bound to the unmoved people as preprocessed
    first: Array  # m of the unmoved people, as one vector
    targets: Any
    weights: Array

    _learned: Callable[[Any], Array]  # m = S(X), of people
    _placed: Callable[[Any, Array], Any]  # e = T(X; m) as the model's training wants it, of people and m
    _applied: Callable[[Array, Array], Array]  # e for rows (m, d) in their own units, and m
    # (∂e/∂x)ᵀ slopes (m, d), and Σ (∂e/∂m)ᵀ slopes over these people, of rows, m and slopes
    _pulled_back: Callable[[Array, Array, Array], tuple[Array, Array]]
    _by_learned: Callable[[Array, Array, Any, Array], Array]  # Cᵀ v_θ of θ, m, people and v_θ: one pass

    @property
    def parameter_count(self) -> int:
        """How long θ and m are together."""
        return int(self.inner.parameter_count) + self.first.size

    @property
    def damping(self) -> float:
        """The damping of the model's Hessian."""
        return float(getattr(self.inner, "damping", 0.0))

    @property
    def inexact(self) -> str:
        """A sentence where the model's last refit is not at a minimum, so that signals are approximate; else ""."""
        return getattr(self.inner, "inexact", "")

    def start(self) -> Array:
        """Start the model as it starts, and the statistics as the unmoved people have them."""
        return np.concatenate([self.inner.start(), self.first])

    def _split(self, vector: Array) -> tuple[Array, Array]:
        """Return the model's part, and that of m."""
        return vector[: self.inner.parameter_count], vector[self.inner.parameter_count :]

    def _seen(self, features: Any, learned: Array) -> Any:
        """Return e as the model's training wants it; made once for each pair of people and m."""
        key = learned.tobytes()
        if features.last[0] != key:
            features.last = key, self._placed(features, learned)
        return features.last[1]

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Take the statistics, and refit the model behind them."""
        learned = self._learned(features)
        found = self.inner.fit(self._seen(features, learned), self._split(start)[0], tolerance)
        return Fit(np.concatenate([found.parameters, learned]), features, found.residual, found.converged)

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return the risk, with ½‖m − S‖² added to it, and F."""
        theta, learned = self._split(parameters)
        value, gradient = self.inner.risk_gradient(theta, self._seen(features, learned))
        off = learned - self._learned(features)
        return value + 0.5 * float(off @ off), np.concatenate([gradient, off])

    def product(self, parameters: Array, features: Any, direction: Array) -> Array:
        """Return ∂Fᵀ times a direction."""
        theta, learned = self._split(parameters)
        inner, along = self._split(direction)
        image = self.inner.product(theta, self._seen(features, learned), inner)
        return np.concatenate([image, along + self._by_learned(theta, learned, features, inner)])

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with ∂Fᵀ v = right."""
        theta, learned = self._split(fit.parameters)
        pull, pull_learned = self._split(right)
        inner = Fit(theta, self._seen(fit.features, learned), fit.residual, fit.converged)
        signal = self.inner.solve(inner, pull, None if start is None else self._split(start)[0], tolerance)
        return np.concatenate([signal, pull_learned - self._by_learned(theta, learned, fit.features, signal)])

    def contributing(self, targets: Array, weights: Array) -> Any:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other = copy.copy(self)
        other.inner = self.inner.contributing(targets, weights)
        other.targets, other.weights = targets, weights
        return other

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L, its gradient in the model's parameters and in m, and in the query."""
        theta, learned = self._split(parameters)
        row = np.asarray(query, dtype=np.float64)[None]
        loss, pull, slope = self.inner.goal(theta, self._applied(row, learned)[0], target)
        by_query, by_learned = self._pulled_back(row, learned, slope[None])
        return loss, np.concatenate([pull, by_learned]), by_query[0]

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's gradient in all parameters, and each one's ∇_x (m, d)."""
        theta, learned = self._split(parameters)
        losses, pull, slopes = goals(self.inner, theta, self._applied(rows, learned), targets)
        by_rows, by_learned = self._pulled_back(rows, learned, slopes)
        return losses, np.concatenate([pull, by_learned / len(rows)]), by_rows

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs for one person."""
        theta, learned = self._split(parameters)
        return self.inner.outputs(theta, self._applied(np.asarray(query, dtype=np.float64)[None], learned)[0])


@delegated("model", "convex", "equivariant", "smooth", "linear", "least_loss", "regresses", "by_jax", "margins")
@delegated("model", "target_rows", "predicted_class", "check")
@with_near_names
@dataclass(frozen=True)
class Scaled(Differentiable):
    """Standardise features, then train: scikit-learn's `make_pipeline(StandardScaler(), model)`.

    Of a table, numbers, integers and ordinals are scaled, and booleans and categories are left as they are; of an
    array, everything is.

    The scaler is part of the refit: centres and scales change with the members' moves. Shifting everyone and the query
    together then changes nothing in scaled columns, whatever the model. With `frozen`, the scaler of the unmoved people
    is kept, as by operators who fitted it once; the model is then invariant to such shifts only if it is so without a
    scaler.

    Args:
        model: what is trained on the scaled features; any model but nearest centroid and a network that is fixed.
        frozen: whether the scaler of the unmoved people is kept.
    """

    model: Differentiable
    frozen: bool = False
    scales_itself = True

    def __post_init__(self) -> None:
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
    def unscaled(self) -> Differentiable:
        """The model itself."""
        return self.model

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the model's outputs (o,) for one person, whose features are as they were given."""
        return self.model.outputs(*_inner(parameters, features))

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's training loss of one person."""
        return self.model.example_loss(*_inner(parameters, features), target)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's loss at the query."""
        return self.model.query_loss(*_inner(parameters, features), target)

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


@dataclass(eq=False)
class ScalerInput(PreprocessedRows):
    """People (n, r) as the first scaler sees them: a, in those columns that may differ from the unmoved."""

    columns: Columns = field(kw_only=True)  # (r,) all columns that are scaled, and all others that were moved
    before: Array = field(kw_only=True)  # (n, r) the unmoved people there
    scaled: Columns = field(kw_only=True)  # (s,) where among the columns those are that are scaled

    @cached_property
    def values(self) -> Array:
        """The scaled columns alone (n, s), which scalers are fitted to."""
        return self.rows[:, self.scaled]


class ScaledParameters(NamedTuple):
    """The parameters of a scaler and of the model behind it."""

    centres: Any  # centres, scales: (d,), of features as they were given; 0 and 1 where they are left as they are
    scales: Any
    model: Any  # the model's own parameters, which apply to scaled features

    def scaled(self, features: Any) -> Any:
        """Return features as the model sees them."""
        return (features - self.centres) / self.scales


class ScaledSignal(NamedTuple):
    """θ and v as they apply to e = (x − centres) / scales, and what members do through the scaler.

    With a = m₁ + s e the score is, up to a constant,

        v_θᵀ∇_θ ℓ(θ; e) − Σ_j e_j (shift_j + spread_j e_j),     shift = s (v_m₁ + 2 v_m₂ m₁),     spread = s² v_m₂.
    """

    parameters: Array  # parameters, signal: the model's own
    signal: Array
    centres: Array  # centres, scales: (d,), as in `ScaledParameters`
    scales: Array
    shift: Array  # shift, spread: (d,), 0 where no scaler is refitted
    spread: Array


class ScaledTraining(PreprocessedTraining):
    """Implements `Training` for a model whose features are scaled before it is trained.

    `inner`, which can be asked about some columns alone, is bound to `features` (n, d) as scaled for the unmoved
    people; `columns` (d,) have a scaler that is refitted.
    """

    def __init__(
        self, inner: Any, features: Array, centres: Array, scales: Array, columns: np.ndarray[Any, Any]
    ) -> None:
        self.inner, self._features = inner, features
        self._centres, self._scales = centres, scales
        self._columns = np.flatnonzero(columns)
        self._extra = self._columns.size
        self.size, self.dimensions, self.weights = inner.size, inner.dimensions, inner.weights
        self.first = np.repeat([0.0, 1.0], self._extra)  # m₁ and m₂ of the scaled columns
        self.targets = getattr(inner, "targets", None)
        self._before = self._features[:, self._columns]
        self._nearby: tuple[Any, ...] = (None, None, None)  # of the columns that moved last

    def moved(self, moves: Array | None, columns: Some = ALL) -> ScalerInput:
        """Return everyone's features as the first scaler sees them."""
        if moves is None:
            everyone = np.arange(self._extra)
            return ScalerInput(self._before, columns=self._columns, before=self._before, scaled=everyone)
        given = np.arange(self.dimensions)[columns]
        some, before = self._around(given)
        if some.size == given.size:
            rows = moves / self._scales[given]
            rows += before
        else:
            rows = before.copy()
            rows[:, np.searchsorted(some, given)] += moves / self._scales[given]
        return ScalerInput(rows, columns=some, before=before, scaled=np.searchsorted(some, self._columns))

    def _around(self, given: Columns) -> tuple[Columns, Array]:
        """Return these columns and all that are scaled, and the unmoved people there; kept, as it is asked again."""
        if not np.array_equal(self._nearby[0], given):
            some = np.union1d(self._columns, given)
            self._nearby = given, some, self._features[:, some]
        return self._nearby[1:]

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

    def _learned(self, features: ScalerInput) -> Array:
        return np.concatenate([self.weights @ features.values, self.weights @ features.values**2])

    def _placed(self, features: ScalerInput, learned: Array) -> Any:
        mean, square = np.split(learned, 2)
        moves = features.rows - features.before
        moves[:, features.scaled] = (features.values - mean) / self._spread(mean, square) - self._before
        return self.inner.moved(moves, features.columns)

    def _applied(self, rows: Array, learned: Array) -> Array:
        mean, square = np.split(learned, 2)
        seen = (rows - self._centres) / self._scales
        seen[..., self._columns] = (seen[..., self._columns] - mean) / self._spread(mean, square)
        return seen

    def _by_learned(self, theta: Array, learned: Array, features: ScalerInput, signal: Array) -> Array:
        slopes = self.inner.score_gradients(theta, self._seen(features, learned), signal, self._columns)
        return self._by_scaler(self.weights[:, None] * slopes, features.values, learned)

    def _by_scaler(self, slopes: Array, rows: Array, learned: Array) -> Array:
        """Return Σ slopes · ∂e/∂m₁ and Σ slopes · ∂e/∂m₂ over rows of a.

        With s² = m₂ − m₁²: ∂s/∂m₁ = −m₁/s and ∂s/∂m₂ = 1/(2s), so ∂e/∂m₁ = −1/s + e m₁/s² and ∂e/∂m₂ = −e/(2s²).
        """
        mean, square = np.split(learned, 2)
        spread = self._spread(mean, square)
        along = (slopes * (rows - mean)).sum(axis=0) / spread
        along = np.where(self._varies(mean, square), along, 0.0)  # a constant column is divided by 1, whatever it is
        return np.concatenate([-slopes.sum(axis=0) / spread + along * mean / spread**2, -0.5 * along / spread**2])

    def _pulled_back(self, rows: Array, learned: Array, slopes: Array) -> tuple[Array, Array]:
        given, columns = (rows - self._centres) / self._scales, self._columns
        by_scaler = self._by_scaler(slopes[:, columns], given[:, columns], learned)
        return slopes / self._scaler(learned)[1], by_scaler

    def score_gradients(self, parameters: Array, features: ScalerInput, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns."""
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        (mean, square), (along_mean, along_square) = np.split(learned, 2), np.split(along, 2)
        some = np.arange(self.dimensions)[columns]
        slopes = self.inner.score_gradients(theta, self._seen(features, learned), inner, some)
        _, which, place = np.intersect1d(self._columns, some, return_indices=True)
        rows, spread = features.values[:, which], self._spread(mean, square)[which]
        slopes[:, place] = slopes[:, place] / spread - along_mean[which] - 2 * along_square[which] * rows
        slopes /= self._scales[some]
        return slopes

    def published(self, parameters: Array, signal: Array) -> ScaledSignal:
        """Return θ and v as members need them who know their own features alone."""
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        (mean, square), (along_mean, along_square) = np.split(learned, 2), np.split(along, 2)
        given = getattr(self.inner, "in_given_units", lambda vector: vector)
        columns, spread = self._columns, self._spread(mean, square)
        shift, widening = np.zeros((2, self.dimensions))
        shift[columns] = spread * (along_mean + 2 * along_square * mean)
        widening[columns] = spread**2 * along_square
        return ScaledSignal(given(theta), given(inner), *self._scaler(learned), shift, widening)

    def scores(self, parameters: Array, features: ScalerInput, signal: Array, targets: Array) -> Array:
        """Return s_i (n,) for everyone, if its target were that row of `targets`."""
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        (mean, square), (along_mean, along_square) = np.split(learned, 2), np.split(along, 2)
        values, rows = self.inner.scores(theta, self._seen(features, learned), inner, targets), features.values
        return values + (mean - rows) @ along_mean + (square - rows**2) @ along_square

    def _scaler(self, learned: Array) -> tuple[Array, Array]:
        """Return centres and scales (d,) of features as they were given."""
        mean, square = np.split(learned, 2)
        centres, scales, columns = self._centres.copy(), self._scales.copy(), self._columns
        centres[columns] += scales[columns] * mean
        scales[columns] *= self._spread(mean, square)
        return centres, scales

    def matrix(self, parameters: Array) -> Array:
        """Return (W, b), (o, d + 1), as they apply to features in the units they were given in; for linear models."""
        theta, learned = self._split(parameters)
        centres, scales = self._scaler(learned)
        found: Array = self.inner.matrix(theta).copy()
        found[:, :-1] /= scales
        found[:, -1] -= found[:, :-1] @ centres
        return found

    def parameters(self, flat: Array) -> Any:
        """Return flat parameters as they apply to features as they were given: of linear models (W, b)."""
        if hasattr(self.inner, "matrix"):
            return self.matrix(flat)
        theta, learned = self._split(flat)
        return ScaledParameters(*self._scaler(learned), self.inner.parameters(theta))
