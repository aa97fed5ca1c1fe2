"""The front of a pipeline: transformers before the estimator that predicts, refitted with it.

The transformers turn rows into e = T(x; m) with what they learn of everybody present, m = S(X). These are parameters
like any others, so that with R the estimator's own training risk

    F(θ, m) = (∇_θ R(θ; T(X; m)), m − S(X)),     ∂F = ( H  C ; 0  I ),    C = Σ_i w̄_i ∂_e∇_θ ℓ_i ∂e_i/∂m

is zero at the refit. The adjoint ∂Fᵀ v = g is solved from the top, v_θ = H⁻¹ g_θ and v_m = g_m − Cᵀ v_θ, and

    ∇_x s_i = (∂T/∂x)ᵀ ∇_e s_i − (∂S/∂x_i)ᵀ v_m / w̄_i.

S is unweighted, as scikit-learn's pipelines fit transformers: everyone present counts alike, and who has no weight has
left and moves nothing. T and S are differentiated by JAX (`nodes`); `oar.models.wrap.scaled` is the
one case of this that is written out by hand, with weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import NumericsError, OptionError
from oar.estimators.cores.protocol import Core
from oar.estimators.fitting import RowConversion
from oar.estimators.transformers.binding import (
    SHIFTS,
    STAYS,
    BoundTransformer,
    NodeInput,
    as_numbers,
    bind_all,
    everything,
    kind_of,
)
from oar.estimators.transformers.fields import flow_of
from oar.estimators.transformers.nodes import Chain, FrontPasses, Learned, Node, transformed
from oar.estimators.twin import TwinParameters
from oar.models.differentiable import need_jax
from oar.models.training import ALL, Array, Fit, Some, displaced, goals
from oar.people import Population

FEW = 5  # rows that show what a frame's columns are


@dataclass(frozen=True, eq=False)
class BoundFront:
    """A front for the columns of some people.

    Attributes:
        node: what it computes of their features.
        sparse: reports whether scikit-learn hands a sparse matrix to the estimator; None where it never does.
        learned: what it has learned, where it was fitted; None where it was not.
    """

    node: Node
    sparse: Callable[[], bool] | None
    learned: Learned | None

    def training(self, features: Array, people: Population, core: Core) -> FrontTraining:
        """Bind front and estimator to people."""
        return FrontTraining(self.node, features, people, core, self.sparse)


@dataclass(frozen=True, eq=False)
class Front:
    """The transformers of a pipeline, however deep; `oar.Problem` makes it of a Pipeline.

    Attributes:
        pipeline: unfitted.
    """

    pipeline: Any

    def __post_init__(self) -> None:
        """Refuse what is not known."""
        everything(self._steps(self.pipeline))

    @staticmethod
    def _steps(pipeline: Any) -> list[Any]:
        """Return everything before the estimator that predicts, of pipelines within pipelines too."""
        found: list[Any] = []
        while hasattr(pipeline, "steps"):
            found += [step for _, step in pipeline.steps[:-1]]
            pipeline = pipeline.steps[-1][1]
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing stands before the estimator."""
        return not everything(self._steps(self.pipeline))

    @property
    def name(self) -> str:
        """The names of the transformers, in order."""
        names = [type(one).__name__ for one in self._steps(self.pipeline) if not (one is None or isinstance(one, str))]
        return ", then ".join(names)

    @property
    def table(self) -> bool:
        """Whether it tells columns apart."""
        return any(kind_of(one).table for one in everything(self._steps(self.pipeline)))

    @property
    def smooth(self) -> bool:
        """Whether nothing in it has kinks."""
        return all(kind_of(one).smooth for one in everything(self._steps(self.pipeline)))

    @property
    def _shift(self) -> int:
        shift = SHIFTS
        for step in self._steps(self.pipeline):
            shift = kind_of(step).shift(step, shift)
        return shift

    @property
    def invariant(self) -> bool:
        """Whether a shift of everybody and the query changes nothing behind it, as behind what centres."""
        return self._shift == STAYS

    @property
    def equivariant(self) -> bool:
        """Whether such a shift is at most a shift behind it."""
        return self._shift <= SHIFTS

    def bound(self, people: Population) -> BoundFront:
        """Bind the transformers to the columns of these people."""
        return self._bound(people, None)

    def read(self, fitted: Any, people: Population) -> FittedFront:
        """Return what the transformers of a fitted pipeline have learned."""
        bound = self._bound(people, fitted)
        assert bound.learned is not None
        return FittedFront(bound.node, bound.learned)

    def _bound(self, people: Population, fitted: Any) -> BoundFront:
        need_jax(self.name)
        features = np.asarray(people.features, dtype=np.float64)
        present = features[people.present]
        frame = RowConversion(people, table=self.table).rows(present[:FEW])
        steps = self._steps(self.pipeline)
        own = [None] * len(steps) if fitted is None else self._steps(fitted)
        incoming = NodeInput(flow_of(people, self.table, frame), lambda: present)
        bound = bind_all(list(zip(steps, own, strict=True)), incoming)
        last: BoundTransformer = as_numbers(NodeInput(bound.flow, incoming.rows))
        learned = None if bound.learned is None else (bound.learned, last.learned)
        return BoundFront(Chain((bound.node, last.node)), last.flow.sparse, learned)


def front_of(pipeline: Any) -> Front | None:
    """Return what stands before the estimator that predicts; None where nothing does."""
    if not hasattr(pipeline, "steps"):
        return None
    last = pipeline
    while hasattr(last, "steps"):
        last = last.steps[-1][1]
    if last is None or isinstance(last, str):
        raise OptionError(f"model: a Pipeline must end in an estimator that predicts, got {last!r} as its last step.")
    front = Front(pipeline)
    return None if front.empty else front


@dataclass(frozen=True, eq=False)
class FittedFront:
    """Transformers with what they have learned."""

    node: Node
    learned: Learned

    def transform(self, rows: Array) -> Array:
        """Return what the estimator behind them is given for people (m, d)."""
        return transformed(self.node, np.asarray(rows, dtype=np.float64), self.learned)


@dataclass(eq=False)
class FrontInput:
    """People who have moved.

    Attributes:
        rows: (n, d) in their own units.
        last: what transformers last knew (m, as bytes), and how the estimator's training saw people then.
    """

    rows: Array
    last: tuple[bytes, Any] | None = None


class FrontTraining:
    """Implements `Training` for an estimator behind transformers.

    Args:
        node: the transformers, bound to these people's columns.
        features: (n, d).
        people: with labels and weights.
        core: the estimator that predicts.
        sparse: reports whether scikit-learn hands it a sparse matrix; None where it never does.
    """

    def __init__(
        self,
        node: Node,
        features: Array,
        people: Population,
        core: Core,
        sparse: Callable[[], bool] | None = None,
    ) -> None:
        """Fit the transformers to people as they stand; parameters are the estimator's, then m."""
        self._node, self._core, self._features = node, core, features
        self._shares = _shares(people.row_weights)
        self._front = FrontPasses(node, features, self._shares)
        self._before = self._checked(self._front.applied(features, self._front.first))
        self.inner: Any = core.training(self._before, people)
        if hasattr(self.inner, "sparse"):  # its refits are the estimator's own, which can tell
            self.inner.sparse = sparse is not None and sparse()
        self.size, self.dimensions = features.shape
        self.weights, self.targets = self.inner.weights, self.inner.targets
        self.parameter_count = self.inner.parameter_count + self._front.count

    @staticmethod
    def _checked(rows: Array) -> Array:
        if not np.isfinite(rows).all():
            raise NumericsError(
                "model: what its transformers make of people must be finite, got numbers that are not; look for "
                "features far out of scale."
            )
        return rows

    @property
    def passes(self) -> int:
        """The number of passes over all the data so far."""
        return int(self.inner.passes)

    @property
    def damping(self) -> float:
        """The damping of the estimator's Hessian."""
        return float(getattr(self.inner, "damping", 0.0))

    def start(self) -> Array:
        """Start the estimator as it starts, and the transformers as the unmoved people have them."""
        return np.concatenate([self.inner.start(), self._front.first])

    def moved(self, moves: Array | None, columns: Some = ALL) -> FrontInput:
        """Return everyone after moves of all features, or of these."""
        return FrontInput(displaced(self._features, moves, columns))

    def _split(self, vector: Array) -> tuple[Array, Array]:
        """Return the estimator's part, and the transformers'."""
        return vector[: self.inner.parameter_count], vector[self.inner.parameter_count :]

    def _inner_features(self, features: FrontInput, learned: Array) -> Any:
        """Return e as the estimator's training wants it; made once for each pair of rows and m."""
        key = learned.tobytes()
        if features.last is None or features.last[0] != key:
            rows = self._checked(self._front.applied(features.rows, learned))
            place = getattr(self.inner, "placed", None)
            features.last = key, self.inner.moved(rows - self._before) if place is None else place(rows)
        return features.last[1]

    def fit(self, features: FrontInput, start: Array, tolerance: float) -> Fit:
        """Refit the transformers, and then the estimator."""
        learned = self._front.learned(features.rows, self._shares)
        found = self.inner.fit(self._inner_features(features, learned), self._split(start)[0], tolerance)
        return Fit(np.concatenate([found.parameters, learned]), features, found.residual, found.converged)

    def risk_gradient(self, parameters: Array, features: FrontInput) -> tuple[float, Array]:
        """Return the risk, with ½‖m − S‖² added to it, and F."""
        theta, learned = self._split(parameters)
        value, gradient = self.inner.risk_gradient(theta, self._inner_features(features, learned))
        off = learned - self._front.learned(features.rows, self._shares)
        return value + 0.5 * float(off @ off), np.concatenate([gradient, off])

    def product(self, parameters: Array, features: FrontInput, direction: Array) -> Array:
        """Return ∂Fᵀ times a direction."""
        theta, learned = self._split(parameters)
        inner, along = self._split(direction)
        image = self.inner.product(theta, self._inner_features(features, learned), inner)
        return np.concatenate([image, along + self._by_front(parameters, features, inner)])

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with ∂Fᵀ v = right."""
        theta, learned = self._split(fit.parameters)
        pull, pull_front = self._split(right)
        inner = Fit(theta, self._inner_features(fit.features, learned), fit.residual, fit.converged)
        signal = self.inner.solve(inner, pull, None if start is None else self._split(start)[0], tolerance)
        return np.concatenate([signal, pull_front - self._by_front(fit.parameters, fit.features, signal)])

    def _by_front(self, parameters: Array, features: FrontInput, signal: Array) -> Array:
        """Return Cᵀ v_θ: one pass."""
        theta, learned = self._split(parameters)
        slopes = self.inner.score_gradients(theta, self._inner_features(features, learned), signal)
        return self._front.pull_applied(features.rows, learned, self.weights[:, None] * slopes)[1]

    def score_gradients(self, parameters: Array, features: FrontInput, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns."""
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        slopes = self.inner.score_gradients(theta, self._inner_features(features, learned), inner)
        found = self._front.pull_applied(features.rows, learned, slopes)[0]
        through = self._front.pull_learned(features.rows, self._shares, along)[0]
        found = found - through / np.where(self.weights > 0, self.weights, np.inf)[:, None]
        return found[:, columns]

    def contributing(self, targets: Array, weights: Array) -> FrontTraining:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other = copy.copy(self)
        other.inner = self.inner.contributing(targets, weights)
        other.targets, other.weights, other._shares = targets, weights, _shares(weights)
        return other

    def scores(self, parameters: Array, features: FrontInput, signal: Array, targets: Array) -> Array:
        """Return s_i (n,) for everyone, if its target were that row of `targets`.

        Through the transformers a label does nothing, and leaving takes the person out of S: with the slope G_i of
        v_mᵀS in person i's share, m goes to m − G_i / (n − 1) along v_m. A score s promises the query's loss to rise by
        w̄ / (1 − w̄) s when its person leaves (`solvers.discrete.ground`), so that G_i is added as the score that does.
        """
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        values = self.inner.scores(theta, self._inner_features(features, learned), inner, targets)
        slopes = self._front.pull_learned(features.rows, self._shares, along)[1]
        here, others = self.weights > 0, max(int((self.weights > 0).sum()) - 1, 1)
        weights = np.where(here, self.weights, 1.0)
        return values - np.where(here, slopes * (1 - weights) / (weights * others), 0.0)

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L, its gradient in the estimator's and the transformers' parameters, and in the query."""
        theta, learned = self._split(parameters)
        row = np.asarray(query, dtype=np.float64)[None]
        loss, pull, slope = self.inner.goal(theta, self._front.applied(row, learned)[0], target)
        by_query, by_front = self._front.pull_applied(row, learned, slope[None])
        return loss, np.concatenate([pull, by_front]), by_query[0]

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's gradient in all parameters, and each one's ∇_x (m, d)."""
        theta, learned = self._split(parameters)
        losses, pull, slopes = goals(self.inner, theta, self._front.applied(rows, learned), targets)
        by_rows, by_front = self._front.pull_applied(rows, learned, slopes)
        return losses, np.concatenate([pull, by_front / len(rows)]), by_rows

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the estimator's outputs for one person."""
        theta, learned = self._split(parameters)
        row = np.asarray(query, dtype=np.float64)[None]
        return self.inner.outputs(theta, self._front.applied(row, learned)[0])

    def parameters(self, flat: Array) -> Any:
        """Return flat parameters as the twin has them."""
        theta, learned = self._split(flat)
        own = FittedFront(self._node, self._front.tree(learned))
        return TwinParameters(own, self._core.own_parameters(self.inner, theta))


def _shares(weights: Array) -> Array:
    """Return everyone's share in what transformers learn: alike, whatever they weigh, unless they have left."""
    here = weights > 0
    return here / here.sum()
