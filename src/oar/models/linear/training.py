"""A linear model bound to data: chunked passes, and refits by Newton steps on curvature that is kept.

**Passes** (`losses`). Rows are kept in chunks small enough for the cache, and summed over in float64, on as many
threads as there are cores. Few people are one chunk (`FEW`).

**Units.** Parameters are kept for features that are centred and scaled; the penalty is that of the caller's units. So
"a gradient of norm 1e-9" means the same whether incomes come in cents or in millions. Values that are regressed keep
their units, and gradients are measured by the values' spread.

**Refits** (`NewtonRefits`). The first fit to many people begins with a tenth of them, whose Hessian then does for all.

**No answer.** Without a regulariser there may be no minimum, or many: then there is no θ* to be moved, and `fit` says
why. Dependent features are seen in their Gram matrix before the first step, everything else after the last.
"""

from __future__ import annotations

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import NumericsError
from oar.models.fit.one_thread import one_thread
from oar.models.fit.quasi_newton import ROUNDING, SMALL, InverseCurvature, NewtonPoint, NewtonRefits
from oar.models.fit.quasi_newton import Linear as LinearMap
from oar.models.linear.identifiability import DEPENDENT, dependent
from oar.models.linear.losses import KINDS, compiled, outputs_of, weighted_sum
from oar.models.training import ALL, Array, Fit, Some
from oar.tolerances import COARSE

if TYPE_CHECKING:
    from oar.models.linear.losses import Linear

CHUNK = 1_000
FEW = 4_000  # outputs of all people together, up to which NumPy is quicker than calling compiled code
QUICK = 1_000_000  # people times squared parameters, up to which looking at H costs no more than a look at the risk
MANY_CHUNKS = 8  # from here on the first fit begins with fewer people,
FEWER = 10  # one in so many,
UNBALANCED = 1e-2  # share of the penalty's pull that may be left over
FAR = 10.0  # a feature of this size in our units has moved far
ROUNDED = 1e-6  # of a feature's mean: rounding makes no spread larger than that of one that is the same for everyone
CLEAR = 1e-8  # squared sine of an angle between features that rounding in a Gram matrix cannot fake


class LinearTraining(NewtonRefits):
    """Implements `Training` for z = W x + b with features (n, d), targets (n, o) and weights (n,) that sum to 1."""

    held_by = "l2 > 0"  # what to use where there is no regulariser, in words

    def __init__(
        self, model: Linear, features: Array, targets: Array, weights: Array, units: tuple[Array, Array] | None = None
    ) -> None:
        """Lay the data out in chunks, the last one padded with people of no weight.

        `units`, the centre and scale (d,) of features, are those of the data unless given.
        """
        self.model, self.weights, self.passes = model, weights, 0
        self._passing = model  # what passes are compiled for, which see no penalty
        self.masses = self._masses(targets, weights)
        self.size, self.dimensions = features.shape
        self.shape = (targets.shape[1], self.dimensions + 1)
        self.parameter_count = self.shape[0] * self.shape[1]
        self.targets = targets
        self._centre, self._scale = units or units_of(features, weights, model)
        self._unit = spread_of_values(targets, weights) if model.regresses else 1.0
        self._few = self.size * self.shape[0] <= FEW
        self._rows = self.size if self._few else min(CHUNK, self.size)
        self._chunks = -(-self.size // self._rows)
        self._packed = self._pack(features)
        self._features = self._rows_of(self._packed)  # (n, d), the same memory
        self._features -= self._centre
        self._features /= self._scale
        self._targets = self._pack(targets)
        self._weights = self._pack(self.masses[:, None])[..., 0]
        self._shards = np.array_split(np.arange(self._chunks), min(os.cpu_count() or 1, self._chunks))
        # This thread works too: one that has to be woken up may have to wait for a core.
        self._pool = ThreadPoolExecutor(max(len(self._shards) - 1, 1))  # which starts no thread before it has work
        self._small = self.parameter_count <= SMALL
        self._quick = self._few and self.size * self.parameter_count**2 <= QUICK
        self._sizes = np.ones(1)  # of the features, where a fit had to look at those who have moved far
        self._inverse: InverseCurvature | None = None
        self._fixed: list[Any] = []  # every shard's targets and weights, placed
        self._last: tuple[Any, list[Any]] = (None, [])  # features last passed, and all shards placed

    def _pack(self, array: Array) -> Array:
        padded = np.zeros((self._chunks * self._rows, array.shape[1]))
        padded[: self.size] = array
        return padded.reshape(self._chunks, self._rows, array.shape[1])

    def _masses(self, targets: Array, weights: Array) -> Array:
        """Return how much each person's loss counts (n,): its weight, unless its class counts more than others."""
        return weights

    @property
    def factors(self) -> bool:
        """Whether `solve` factors H, so that a tolerance makes no difference."""
        return self._quick

    def start(self) -> Array:
        """Start from zero."""
        return np.zeros(self.parameter_count)

    def moved(self, moves: Array | None, columns: Some = ALL) -> Array:
        """Return features in chunks, in this training's own units."""
        if moves is None:
            return self._packed
        if columns is ALL:
            packed = np.zeros_like(self._packed)
            rows = self._rows_of(packed)
            np.divide(moves, self._scale, out=rows)
            rows += self._features
            return packed
        packed, places = self._packed.copy(), np.arange(self.dimensions)[columns]
        rows, moves = self._rows_of(packed), moves / self._scale[columns]
        ends = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), places.size]
        for first, last in pairwise(ends) if places.size else ():  # slices are quicker than lists of columns
            rows[:, places[first] : places[last - 1] + 1] += moves[:, first:last]
        return packed

    def contributing(self, targets: Array, weights: Array) -> LinearTraining:
        """Return the same training for other targets (n, o) and weights (n,) that sum to 1; units stay as they are.

        What is known of the curvature is kept: it only steers.
        """
        other = copy.copy(self)
        other.targets, other.weights, other.passes = targets, weights, 0
        other.masses = other._masses(targets, weights)
        other._targets, other._weights = other._pack(targets), other._pack(other.masses[:, None])[..., 0]
        other._fixed, other._last = [], (None, [])
        return other

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return s = vᵀ∇_θ ℓ(θ; x, y) = aᵀu (n,) for everyone, if its target were that row of `targets` (n, o)."""
        self.passes += 1
        rows, theta, along = self._rows_of(features), parameters.reshape(self.shape), signal.reshape(self.shape)
        return (self.model.slopes(outputs_of(theta, rows), targets.T) * outputs_of(along, rows)).sum(axis=0)

    def in_given_units(self, vector: Array) -> Array:
        """Return parameters, or a direction among them, as they apply to features in the units they were given in."""
        matrix = vector.reshape(self.shape).copy()
        matrix[:, :-1] /= self._scale
        matrix[:, -1] -= matrix[:, :-1] @ self._centre
        return matrix.ravel()

    def matrix(self, parameters: Array) -> Array:
        """Return (W, b), (o, d + 1), as they apply to features in the units they were given in."""
        return self.in_given_units(parameters).reshape(self.shape)

    parameters = matrix  # the model's own form

    def _run(self, kind: str, features: Array, *arguments: Array) -> list[Any]:
        """Run one pass on all cores; return a result for each of them."""
        self.passes += 1
        if self._few:
            chunk = features[0], self._targets[0], self._weights[0]
            return [KINDS[kind](self._passing, chunk, *arguments)]
        run = compiled(self._passing, kind)

        def part(data: tuple[Any, Any, Any]) -> Any:
            import jax

            with jax.enable_x64(True):
                return jax.tree.map(np.asarray, run(*data, *arguments))

        first, *others = self._placed(features)
        under_way = [self._pool.submit(part, shard) for shard in others]
        return [part(first), *(one.result() for one in under_way)]

    def _placed(self, features: Array) -> list[tuple[Any, Any, Any]]:
        """Return every shard's arrays where XLA wants them; copied once for each `moved`, not once a pass."""
        import jax

        if self._last[0] is not features:
            parts = [slice(numbers[0], numbers[-1] + 1) for numbers in self._shards]
            with jax.enable_x64(True):
                if not self._fixed:
                    self._fixed = [jax.device_put((self._targets[some], self._weights[some])) for some in parts]
                rows = [jax.device_put(features[some]) for some in parts]
            self._last = features, [(some, *fixed) for some, fixed in zip(rows, self._fixed, strict=True)]
        return self._last[1]

    def risk_gradient(self, parameters: Array, features: Array) -> tuple[float, Array]:
        """Return the penalised risk and its gradient: one pass."""
        matrix = parameters.reshape(self.shape)
        parts = self._run("risk", features, matrix)
        pressed = self._penalty_product(matrix)
        value = float(sum(part[0] for part in parts)) + 0.5 * float((matrix * pressed).sum())
        return value, (sum(part[1] for part in parts) + pressed).ravel()

    def in_own_units(self) -> tuple[tuple[Array, Array, Array], Array, Array, Array]:
        """Return people (features, targets, masses), where features are 0 and what 1 is (d,), and the penalty's P.

        The penalty with its gauge is ½ θᵀPθ, for parameters that apply to features in these units.
        """
        return (self._features, self.targets, self.masses), self._centre, self._scale, self._penalty_hessian

    def _penalty_product(self, matrix: Array) -> Array:
        """Return the gradient of the quadratic l2/2 ‖W‖² + gauge, which is also its Hessian times `matrix`."""
        product = np.zeros_like(matrix)
        product[:, :-1] = self.model.l2 / self._scale**2 * matrix[:, :-1]
        if self.model.intercept_share:
            product[:, -1] = self.model.l2 * self.model.intercept_share * matrix[:, -1]
        if self.model.fixes_gauge(self.shape[0]):
            free = slice(-1 if self.model.l2 > 0 else 0, None)  # columns that nothing else holds
            product[:, free] = matrix[:, free].sum(axis=0) / self.shape[0] ** 2
        if not self.model.intercept:  # what is not there stays 0, and must not make H singular
            product[:, -1] = matrix[:, -1]
        return product

    @cached_property
    def _penalty_hessian(self) -> Array:
        units = np.eye(self.parameter_count).reshape(-1, *self.shape)
        return np.stack([self._penalty_product(unit).ravel() for unit in units])

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return H times a direction: one pass."""
        matrix = direction.reshape(self.shape)
        parts = self._run("product", features, parameters.reshape(self.shape), matrix)
        return (sum(parts) + self._penalty_product(matrix)).ravel()

    def hessian(self, parameters: Array, features: Array) -> Array:
        """Return H (p, p): one (costlier) pass."""
        total = sum(self._run("hessian", features, parameters.reshape(self.shape)))
        return total.reshape(self.parameter_count, self.parameter_count) + self._penalty_hessian

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns: one pass."""
        at, along = parameters.reshape(self.shape), signal.reshape(self.shape)
        scale = self._scale[columns]
        gradients, first = np.empty((self.size, scale.size)), 0
        if not scale.size:
            return gradients
        parts = self._run("scores", features, at, along, at[:, :-1][:, columns], along[:, :-1][:, columns])
        for part in parts:
            rows = part.reshape(-1, scale.size)[: self.size - first]
            np.divide(rows, scale, out=gradients[first : first + len(rows)])
            first += len(rows)
        return gradients

    def _bound(self, features: Array) -> LinearMap:
        """Return (I ⊗ (β G + l2 I))⁻¹ times a vector: with B ≤ β I and G = Σ w̄ (x, 1)(x, 1)ᵀ it bounds H from above."""
        gram = sum(self._run("gram", features))
        on_intercept = self.model.l2 * max(1.0, self.model.intercept_share) if self.model.intercept else 1.0
        bound = self.model.steepest * gram + np.diag(np.append(self.model.l2 / self._scale**2, on_intercept))
        factor = self._factor(bound)
        return lambda vector: factor(vector.reshape(self.shape).T).T.ravel()

    def _coarse(self, features: Array) -> Array:
        """Return parameters fitted to some of many people, and keep what their curvature says about everyone's."""
        few = np.sort(np.random.default_rng(0).choice(self.size, self.size // FEWER, replace=False))
        weights = self.weights[few]
        if not weights.sum() > 0:
            return self.start()
        rows = features.reshape(-1, self.dimensions)[few] * self._scale + self._centre
        units = self._centre, self._scale
        some = LinearTraining(self.model, rows, self.targets[few], self.masses[few] / weights.sum(), units)
        try:
            found = some.fit(some.moved(None), self.start(), COARSE)
        except NumericsError:  # some may be separable where all are not
            return self.start()
        self.passes += -(-some.passes // FEWER)
        self._inverse = some._inverse
        return found.parameters

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Refit by damped Newton steps, whose curvature is kept; raise where there is no minimum, or more than one."""
        if self.model.l2 == 0:
            self._check_features(features)
        # A parabola's own Hessian leads to its minimum at once, from anywhere.
        few_first = self._chunks >= MANY_CHUNKS and not (self.model.quadratic and self._small)
        if self._inverse is None and few_first and not start.any():
            start = self._coarse(features)
        self._sizes = np.ones(1)
        point = self._descended(start, features, self._enough(tolerance))
        if point.size > tolerance and start.any():
            # From an old fit, far-moved people can have outputs so large that their losses do not bend at all.
            self._inverse = None
            afresh = self._descended(self.start(), features, self._enough(tolerance))
            point = min(point, afresh, key=lambda one: one.size)
        if self.model.l2 == 0:
            self._check_minimum(point, features)
        return Fit(point.parameters, features, point.size, point.size <= tolerance)

    def _unbalanced(self, point: NewtonPoint) -> bool:
        """Report whether the penalty of some machine pulls, and people at its margins do not pull back as much.

        However small that pull is, the minimum is where the two are equal. Before that too few people may be short of
        their margins to hold a free intercept, and H is singular.
        """
        if self.model.best_lengths is None or not self.model.free_intercept or self.model.l2 == 0:
            return False
        slopes = np.linalg.norm(point.gradient.reshape(self.shape), axis=1)
        pulls = np.linalg.norm(self._penalty_product(point.parameters.reshape(self.shape)), axis=1)
        return bool((slopes > np.maximum(UNBALANCED * pulls, ROUNDING)).any())

    def _measured_afresh(self, point: NewtonPoint, features: Array) -> NewtonPoint:
        """Measure gradients in the units of people who have moved far, whose features are much larger than 1 in ours.

        Their gradients are rounded at that size. Few refits are so hard that it pays to look.
        """
        if max(features.max(), -features.min()) <= FAR:
            return point
        sizes = np.sqrt(np.einsum("cn,cnd,cnd->d", self._weights, features, features))
        self._sizes = np.append(np.where(sizes > FAR, sizes, 1.0), 1.0)
        return point._replace(size=self._norm(point.gradient))

    def _rows_of(self, features: Array) -> Array:
        return features.reshape(-1, self.dimensions)[: self.size]

    def _best_lengths(self, point: NewtonPoint, step: Array, features: Array) -> Array | None:
        """Return what share of the step is best for each output (o,); None where the model cannot tell."""
        if self.model.best_lengths is None:
            return None
        self.passes += 1
        rows, ahead, at = self._rows_of(features), step.reshape(self.shape), point.parameters.reshape(self.shape)
        pressed = self._penalty_product(ahead)
        return self.model.best_lengths(
            (outputs_of(at, rows), outputs_of(ahead, rows)),
            (self.targets.T, self.masses),
            ((at * pressed).sum(axis=1), (ahead * pressed).sum(axis=1)),
        )

    def _check_features(self, features: Array) -> None:
        """Refuse dependent features: only a penalty could choose among the many W with the same outputs."""
        gram = sum(self._run("gram", features))
        if not self.model.intercept:
            gram = gram[:-1, :-1]
        sizes = np.sqrt(np.diag(gram))
        if sizes.all() and np.linalg.eigvalsh(gram / sizes / sizes[:, None])[0] > CLEAR:
            return
        if dependent(self._rows_of(features)[self.masses > 0], self.model.intercept):
            raise NumericsError(
                f"model: {self.name} with l2 = 0 has no unique fit to these people, because their features are "
                f"linearly dependent (constant or duplicated columns, or fewer people than features); use "
                f"{self.held_by}, or leave such columns out."
            )

    def _check_minimum(self, point: NewtonPoint, features: Array) -> None:
        """Refuse an optimum at infinity, or one among many, that dependent features do not explain."""
        some, at = self.masses > 0, point.parameters.reshape(self.shape)

        def flattest() -> float:
            if not self._small:
                return 0.0
            with one_thread():
                return float(np.linalg.eigvalsh(self.hessian(point.parameters, features))[0])

        rows = self._rows_of(features)[some]
        reason = self.model.why_no_minimum(at, rows, self.targets[some], point.size, flattest)
        if reason:
            raise NumericsError(f"model: {self.name} without a regulariser {reason}; use {self.held_by}.")

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L = φ(W x† + b, target) and its gradients, in closed form."""
        losses, pull, slopes = self.goals(parameters, query[None], target[None])
        return float(losses[0]), pull, slopes[0]

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's ∇_θ, and each one's ∇_x (m, d)."""
        matrix, seen = parameters.reshape(self.shape), (rows - self._centre) / self._scale
        outputs = outputs_of(matrix, seen)
        slopes = self.model.judge.slopes(outputs, targets.T)
        losses = np.asarray(self.model.judge.output_loss(outputs, targets.T))
        by_parameters = weighted_sum(self.model, slopes, seen) / len(seen)
        return losses, by_parameters.ravel(), slopes.T @ matrix[:, :-1] / self._scale

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return W x† + b."""
        return outputs_of(parameters.reshape(self.shape), ((query - self._centre) / self._scale)[None])[:, 0]


def units_of(features: Array, weights: Array, model: Linear) -> tuple[Array, Array]:
    """Return where to measure features from and in what steps, so that refits do not depend on the caller's units.

    Scales are powers of two, so that they lose nothing. An intercept that is penalised, or not there, must keep its
    place: then nothing is shifted. A feature that is the same for everyone has no spread of its own (but rounding in
    its mean looks like one); if it ever moves it is by a budget, which is in the units of the others.
    """
    centre = weights @ features
    if not model.free_intercept:
        centre, spread = np.zeros_like(centre), np.sqrt(weights @ features**2)
    else:
        away = features - centre
        spread = np.sqrt(weights @ np.square(away, out=away))
        doubtful = np.flatnonzero(spread <= ROUNDED * np.abs(centre))
        if doubtful.size:
            some = features[:, doubtful][weights > 0]
            spread[doubtful[some.max(axis=0) == some.min(axis=0)]] = 0.0
    return centre, power_of_two(np.where(spread > 0, spread, spread.max()))


def spread_of_values(values: Array, weights: Array) -> float:
    """Return a typical distance of values from their mean; of equal ones, from 0."""
    spread = float(np.sqrt((weights @ (values - weights @ values) ** 2).max()))
    size = float(np.abs(values[weights > 0]).max())
    return float(power_of_two(np.array(spread if spread > DEPENDENT * size else size)))


def power_of_two(size: Array) -> Array:
    """Return the nearest; 1 for 0."""
    return np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0))))
