"""The front of a pipeline: transformers before the estimator that predicts, refitted with it.

The transformers turn rows into e = T(x; m) with what they learn of everybody present, m = S(X). They are differentiated
as every preprocessing is (`oar.models.wrap.scaled.PreprocessedTraining`), with

    ∇_x s_i = (∂T/∂x)ᵀ ∇_e s_i − (∂S/∂x_i)ᵀ v_m / w̄_i.

S is unweighted, as scikit-learn's pipelines fit transformers: who has no weight has left and moves nothing. T and S are
differentiated by JAX (`nodes`); `oar.models.wrap.scaled` is the one case that is written out by hand, with weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import need_jax
from oar.errors import NumericsError, OptionError
from oar.estimators.cores.protocol import Core
from oar.estimators.rows import RowConversion, last_step
from oar.estimators.transformers.binding import (
    SHIFTS,
    STAYS,
    BoundTransformer,
    NodeInput,
    as_numbers,
    bind_all,
    dense,
    everything,
    flow_of,
    kind_of,
    passes_on,
    through,
)
from oar.estimators.transformers.nodes import Chain, Learned, Node, computed, jax
from oar.estimators.twin import NO_FRONT, NoFront, TwinParameters
from oar.models.differentiable import Differentiable
from oar.models.training import ALL, Array, Some, displaced
from oar.models.wrap.scaled import PreprocessedRows, PreprocessedTraining, Scaled
from oar.people import Population

FEW = 5  # rows that show what a frame's columns are
SAME = 1e-8  # of what is standardised: rounding


@dataclass(frozen=True, eq=False)
class Front(NoFront):
    """The transformers of a pipeline, however deep; `oar.Problem` makes it of a Pipeline."""

    pipeline: Any  # unfitted
    empty = False

    def __post_init__(self) -> None:
        everything(self._steps(self.pipeline))

    @staticmethod
    def _steps(pipeline: Any) -> list[Any]:
        """Return everything before the estimator that predicts, of pipelines within pipelines too."""
        found: list[Any] = []
        while hasattr(pipeline, "steps"):
            found += [step for _, step in pipeline.steps[:-1] if not passes_on(step)]
            pipeline = pipeline.steps[-1][1]
        return found

    @property
    def name(self) -> str:
        """The names of the transformers, in order."""
        return ", then ".join(type(one).__name__ for one in self._steps(self.pipeline))

    def behind(self, name: str) -> str:
        """Return the name of an estimator, and that transformers stand before it."""
        return f"{name} behind {self.name}"

    @property
    def standardises(self) -> bool:  # type: ignore[override]
        """Whether it is a StandardScaler that takes off means and divides by deviations, and nothing else."""
        steps = self._steps(self.pipeline)
        if [type(one).__name__ for one in steps] != ["StandardScaler"]:
            return False
        return bool(steps[0].with_mean and steps[0].with_std)

    @property
    def table(self) -> bool:  # type: ignore[override]
        """Whether it tells columns apart."""
        return any(kind_of(one).table for one in everything(self._steps(self.pipeline)))

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether nothing in it has kinks."""
        return all(kind_of(one).smooth for one in everything(self._steps(self.pipeline)))

    @property
    def _shift(self) -> int:
        return through(self._steps(self.pipeline), SHIFTS)

    @property
    def invariant(self) -> bool:  # type: ignore[override]
        """Whether a shift of everybody and the query changes nothing behind it, as behind what centres."""
        return self._shift == STAYS

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether such a shift is at most a shift behind it."""
        return self._shift <= SHIFTS

    def check(self, people: Population) -> None:
        """Raise where a transformer cannot be fitted to these people's columns."""
        self.bound(people, self.pipeline)

    def training(self, features: Array, people: Population, core: Core) -> FrontTraining:
        """Bind transformers and estimator to people."""
        bound = self.bound(people, self.pipeline)
        return FrontTraining(bound.node, features, people, core, bound.flow.sparse)

    def read(self, fitted: Any, people: Population) -> FittedFront:
        """Return what the transformers of a fitted pipeline have learned."""
        bound = self.bound(people, fitted)
        return FittedFront(bound.node, bound.learned)

    def written_down(self, model: Differentiable, people: Population) -> Differentiable | None:
        """Return the model behind a scaler, where the transformers do what `Scaled` does; else None.

        That is seen in what becomes of these people, as they are and after a shift of some of them, up to the order of
        columns, which no model of `oar.models` minds.
        """
        alike = np.ptp(people.row_weights) == 0  # scalers here do not weigh
        found = Scaled(model)
        features = np.asarray(people.features, dtype=np.float64)
        others = features + np.where(found.columns(people), features[::-1] - features.mean(axis=0), 0.0)
        return found if alike and all(self._scales(rows, people) for rows in (features, others)) else None

    def _scales(self, features: Array, people: Population) -> bool:
        """Report whether people with these features come out standardised, each column once."""
        node, shares = self.bound(people, self.pipeline).node, _shares(people.row_weights)
        rows = computed(node, "applied", features, computed(node, "learned", features, shares))
        columns = people.table.scaled if people.encoding is not None else np.ones(people.dimensions, dtype=bool)
        spreads = features.std(axis=0)
        expected = np.where(columns, (features - features.mean(axis=0)) / np.where(spreads > 0, spreads, 1.0), features)
        if rows.shape != expected.shape:
            return False
        return bool(np.allclose(_in_order(rows), _in_order(expected), rtol=0.0, atol=SAME))

    def bound(self, people: Population, pipeline: Any) -> BoundTransformer:
        """Bind the transformers of a pipeline, fitted or not, to the columns of these people."""
        need_jax(self.name)
        features = np.asarray(people.features, dtype=np.float64)
        present = features[people.present]
        frame = RowConversion(people, table=self.table).rows(present[:FEW])
        incoming = NodeInput(flow_of(people, self.table, frame), lambda: present)
        bound = bind_all(self._steps(pipeline), incoming)
        last = as_numbers(NodeInput(bound.flow, incoming.rows))
        return BoundTransformer(Chain((bound.node, last.node)), last.flow, (bound.learned, last.learned))


def front_of(pipeline: Any) -> NoFront:
    """Return what stands before the estimator that predicts."""
    last = last_step(pipeline)
    if passes_on(last):
        raise OptionError(f"model: a Pipeline must end in an estimator that predicts, got {last!r} as its last step.")
    front = Front(pipeline)
    return front if front.name else NO_FRONT


@dataclass(frozen=True, eq=False)
class FittedFront:
    """Transformers with what they have learned."""

    node: Node
    learned: Learned

    def transform(self, rows: Array) -> Array:
        """Return what the estimator behind them is given for people (m, d)."""
        return computed(self.node, "applied", np.asarray(rows, dtype=np.float64), self.learned)


class FrontTraining(PreprocessedTraining):
    """Implements `Training` for an estimator behind transformers, which may hand it a sparse matrix.

    What is learned, m, is one flat vector, each number in its unit.
    """

    def __init__(
        self, node: Node, features: Array, people: Population, core: Core, sparse: Callable[[], bool] = dense
    ) -> None:
        """Fit the transformers to people as they stand; parameters are the estimator's, then m."""
        self._node, self._core, self._features = node, core, features
        self._shares = _shares(people.row_weights)
        first = computed(node, "learned", features, self._shares)
        leaves, self._form = jax.tree.flatten(first)
        self._shapes = [leaf.shape for leaf in leaves]
        self._ends = np.cumsum([leaf.size for leaf in leaves], dtype=int)
        self._units = _flat(node.units(first))
        self.first = _flat(first) / self._units
        self._before = self._checked(self._applied(features, self.first))
        self.inner: Any = core.training(self._before, people)
        if hasattr(self.inner, "sparse"):  # its refits are the estimator's own, which can tell
            self.inner.sparse = sparse()
        self.size, self.dimensions = features.shape
        self.weights, self.targets = self.inner.weights, self.inner.targets

    def _tree(self, flat: Array) -> Learned:
        """Return what was learned, as the nodes have it, in the people's units."""
        parts = zip(np.split(flat * self._units, self._ends), self._shapes, strict=False)  # of which the last is empty
        return jax.tree.unflatten(self._form, [part.reshape(shape) for part, shape in parts])

    @staticmethod
    def _checked(rows: Array) -> Array:
        if not np.isfinite(rows).all():
            raise NumericsError(
                "model: what its transformers make of people must be finite, got numbers that are not; look for "
                "features far out of scale."
            )
        return rows

    def moved(self, moves: Array | None, columns: Some = ALL) -> PreprocessedRows:
        """Return everyone after moves of all features, or of these."""
        return PreprocessedRows(displaced(self._features, moves, columns))

    def _learned(self, features: PreprocessedRows) -> Array:
        return _flat(computed(self._node, "learned", features.rows, self._shares)) / self._units

    def _placed(self, features: PreprocessedRows, learned: Array) -> Any:
        rows = self._checked(self._applied(features.rows, learned))
        return self.inner.placed(rows) if hasattr(self.inner, "placed") else self.inner.moved(rows - self._before)

    def _applied(self, rows: Array, learned: Array) -> Array:
        return computed(self._node, "applied", rows, self._tree(learned))

    def _pulled_back(self, rows: Array, learned: Array, slopes: Array) -> tuple[Array, Array]:
        by_rows, by_learned = computed(self._node, "pull_applied", rows, self._tree(learned), slopes)
        return by_rows, _flat(by_learned) * self._units

    def _pulled_through(self, rows: Array, signal: Array) -> tuple[Array, Array]:
        """Return (∂m/∂x)ᵀ signal (n, d), and its slope in everyone's share (n,)."""
        return computed(self._node, "pull_learned", rows, self._shares, self._tree(signal / self._units**2))

    def _by_learned(self, theta: Array, learned: Array, features: PreprocessedRows, signal: Array) -> Array:
        slopes = self.inner.score_gradients(theta, self._seen(features, learned), signal)
        return self._pulled_back(features.rows, learned, self.weights[:, None] * slopes)[1]

    def score_gradients(
        self, parameters: Array, features: PreprocessedRows, signal: Array, columns: Some = ALL
    ) -> Array:
        """Return ∇_x s_i for everyone, in these columns."""
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        slopes = self.inner.score_gradients(theta, self._seen(features, learned), inner)
        found = self._pulled_back(features.rows, learned, slopes)[0]
        through = self._pulled_through(features.rows, along)[0]
        found = found - through / np.where(self.weights > 0, self.weights, np.inf)[:, None]
        return found[:, columns]

    def contributing(self, targets: Array, weights: Array) -> FrontTraining:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1."""
        other: FrontTraining = super().contributing(targets, weights)
        other._shares = _shares(weights)
        return other

    def scores(self, parameters: Array, features: PreprocessedRows, signal: Array, targets: Array) -> Array:
        """Return s_i (n,) for everyone, if its target were that row of `targets`.

        Through the transformers a label does nothing, and leaving takes the person out of S: with the slope G_i of
        v_mᵀS in person i's share, m goes to m − G_i / (n − 1) along v_m. A score s promises the query's loss to rise by
        w̄ / (1 − w̄) s when its person leaves (`solvers.discrete.ground`), so that G_i is added as the score that does.
        """
        theta, learned = self._split(parameters)
        inner, along = self._split(signal)
        values = self.inner.scores(theta, self._seen(features, learned), inner, targets)
        slopes = self._pulled_through(features.rows, along)[1]
        here, others = self.weights > 0, max(int((self.weights > 0).sum()) - 1, 1)
        weights = np.where(here, self.weights, 1.0)
        return values - np.where(here, slopes * (1 - weights) / (weights * others), 0.0)

    def parameters(self, flat: Array) -> Any:
        """Return flat parameters as the twin has them."""
        theta, learned = self._split(flat)
        own = FittedFront(self._node, self._tree(learned))
        return TwinParameters(own, self._core.own_parameters(self.inner, theta))


def _flat(learned: Learned) -> Array:
    return np.concatenate([np.zeros(0), *(np.asarray(leaf).ravel() for leaf in jax.tree.leaves(learned))])


def _in_order(rows: Array) -> Array:
    """Return columns in an order of their own, which rounding does not change."""
    return rows[:, np.lexsort(np.round(rows, 6)[::-1])]


def _shares(weights: Array) -> Array:
    """Return everyone's share in what transformers learn: alike, whatever they weigh, unless they have left."""
    here = weights > 0
    return here / here.sum()
