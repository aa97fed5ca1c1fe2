"""A linear model bound to data: chunked passes, and refits by Newton steps on curvature that is kept.

**Passes.** Rows are kept in chunks small enough for the cache. A pass maps one fused function over them and adds up
sums in float64, on as many threads as there are cores. Inside a chunk outputs are (o, rows), so that a person's softmax
is a column and every reduction runs along memory.

**Units.** Parameters are kept for features that are centred and scaled; the penalty is that of the caller's units. So
"a gradient of norm 1e-9" means the same whether incomes come in cents or in millions.

**Refits.** A refit that starts near the last one needs few steps, and what earlier passes told of the curvature serves
for most of them (`inverse_curvature`): the Hessian is looked at afresh only when a step shrinks the gradient too
little. The same knowledge preconditions the conjugate gradients that solve H v = g, and these add to it. The first fit
to many people begins with a tenth of them, whose Hessian then does for all. Where H has too many entries to be factored
(`SMALL`), a bound for it takes its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oar.errors import NumericsError
from oar.models.conjugate_gradients import conjugate_gradients
from oar.models.inverse_curvature import InverseCurvature
from oar.models.linear_passes import compiled
from oar.models.training import Array, Fit

if TYPE_CHECKING:
    from oar.models.linear import Linear

CHUNK = 1_000
SMALL = 600  # parameters up to which H itself is factored
SLOW = 0.3  # a step that leaves more than this share of the gradient asks for a fresh look at the curvature
MANY_CHUNKS = 16  # from here on the first fit begins with fewer people,
FEWER = 10  # one in so many,
COARSE = 1e-3  # to a gradient of this norm: theirs is no better an estimate of everyone's
MOST_STEPS = 1_000
MOST_HALVINGS = 40
MOST_PRODUCTS = 500


class _Point(NamedTuple):
    """Parameters, the risk there, its gradient, and the gradient's norm."""

    parameters: Array
    risk: float
    gradient: Array
    size: float


class LinearTraining:
    """Implements `Training` for z = W x + b with features (n, d), targets (n, o) and weights (n,) that sum to 1."""

    def __init__(
        self,
        model: Linear,
        features: Array,
        targets: Array,
        weights: Array,
        units: tuple[Array, Array] | None = None,
    ) -> None:
        """Lay the data out in chunks, the last one padded with people of no weight.

        `units`, the centre and scale (d,) of features, are those of the data unless given.
        """
        self.model, self.weights, self.passes = model, weights, 0
        self.size, self.dimensions = features.shape
        self.shape = (targets.shape[1], self.dimensions + 1)
        self.parameter_count = self.shape[0] * self.shape[1]
        self.targets = targets
        self._centre, self._scale = units or _units(features, weights, model)
        self._features = (features - self._centre) / self._scale
        self._rows = min(CHUNK, self.size)
        self._chunks = -(-self.size // self._rows)
        self._targets = self._pack(targets)
        self._weights = self._pack(weights[:, None])[..., 0]
        self._shards = np.array_split(np.arange(self._chunks), min(os.cpu_count() or 1, self._chunks))
        self._pool = ThreadPoolExecutor(len(self._shards)) if len(self._shards) > 1 else None
        self._small = self.parameter_count <= SMALL
        self._inverse: InverseCurvature | None = None
        self._fixed: list[Any] | None = None  # every shard's targets and weights, placed
        self._last: tuple[Array, list[Any]] | None = None  # features last passed, and all shards placed

    def _pack(self, array: Array) -> Array:
        padded = np.zeros((self._chunks * self._rows, array.shape[1]))
        padded[: self.size] = array
        return padded.reshape(self._chunks, self._rows, array.shape[1])

    def start(self) -> Array:
        """Start from zero."""
        return np.zeros(self.parameter_count)

    def moved(self, moves: Array | None) -> Array:
        """Return features in chunks, in this training's own units."""
        return self._pack(self._features if moves is None else self._features + moves / self._scale)

    def in_given_units(self, vector: Array) -> Array:
        """Return parameters, or a direction among them, as they apply to features in the units they were given in."""
        matrix = vector.reshape(self.shape).copy()
        matrix[:, :-1] /= self._scale
        matrix[:, -1] -= matrix[:, :-1] @ self._centre
        return matrix.ravel()

    def _run(self, kind: str, features: Array, *arguments: Array) -> list[Any]:
        """Run one pass on all cores; return a result for each of them."""
        self.passes += 1
        run = compiled(self.model, kind)

        def part(data: tuple[Any, Any, Any]) -> Any:
            import jax

            with jax.enable_x64(True):
                return jax.tree.map(np.asarray, run(*data, *arguments))

        shards = self._placed(features)
        return [part(shards[0])] if self._pool is None else list(self._pool.map(part, shards))

    def _placed(self, features: Array) -> list[tuple[Any, Any, Any]]:
        """Return every shard's arrays where XLA wants them; copied once for each `moved`, not once a pass."""
        import jax

        if self._last is None or self._last[0] is not features:
            parts = [slice(numbers[0], numbers[-1] + 1) for numbers in self._shards]
            with jax.enable_x64(True):
                if self._fixed is None:
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

    def _penalty_product(self, matrix: Array) -> Array:
        """Return the gradient of the quadratic l2/2 ‖W‖² + gauge, which is also its Hessian times `matrix`."""
        product = np.zeros_like(matrix)
        product[:, :-1] = self.model.l2 / self._scale**2 * matrix[:, :-1]
        if self.model.penalise_intercept:
            product[:, -1] = self.model.l2 * matrix[:, -1]
        if self.model.fixes_gauge(self.shape[0]):
            product[:, -1] = matrix[:, -1].sum() / self.shape[0] ** 2
        return product

    def product(self, parameters: Array, features: Array, direction: Array) -> Array:
        """Return H times a direction: one pass."""
        matrix = direction.reshape(self.shape)
        parts = self._run("product", features, parameters.reshape(self.shape), matrix)
        return (sum(parts) + self._penalty_product(matrix)).ravel()

    def hessian(self, parameters: Array, features: Array) -> Array:
        """Return H (p, p): one (costlier) pass."""
        total = sum(self._run("hessian", features, parameters.reshape(self.shape)))
        hessian = total.reshape(self.parameter_count, self.parameter_count)
        columns = [self._penalty_product(unit.reshape(self.shape)).ravel() for unit in np.eye(self.parameter_count)]
        return hessian + np.stack(columns)

    def score_gradients(self, parameters: Array, features: Array, signal: Array) -> Array:
        """Return ∇_x s_i for everyone: one pass."""
        parts = self._run("scores", features, parameters.reshape(self.shape), signal.reshape(self.shape))
        return np.concatenate(parts).reshape(-1, self.dimensions)[: self.size] / self._scale

    def _renewed(self, parameters: Array, features: Array) -> InverseCurvature:
        """Look at the curvature afresh: at H itself, or where that is too large at a bound for it."""
        base = self._factor(self.hessian(parameters, features)) if self._small else self._bound(features)
        self._inverse = InverseCurvature(base)
        return self._inverse

    def _factor(self, hessian: Array) -> Callable[[Array], Array]:
        """Return H⁻¹ times a vector. It only steers, so where H is singular a little may be added to it."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        size = max(float(np.abs(np.diag(hessian)).max()), 1.0)
        for share in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
            try:
                factor = cho_factor(hessian + share * size * np.eye(len(hessian)))
            except LinAlgError:
                continue
            return lambda vector: cho_solve(factor, vector)
        raise NumericsError(
            f"model: the training risk of {self.model.name} has no positive curvature here, so it cannot be refitted; "
            "use a larger l2, or check the data."
        )

    def _bound(self, features: Array) -> Callable[[Array], Array]:
        """Return (I ⊗ (β G + l2 I))⁻¹ times a vector: with B ≤ β I and G = Σ w̄ (x, 1)(x, 1)ᵀ it bounds H from above."""
        gram = sum(self._run("gram", features))
        bound = self.model.steepest * gram + np.diag(np.append(self.model.l2 / self._scale**2, self.model.l2))
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
        some = LinearTraining(self.model, rows, self.targets[few], weights / weights.sum(), units)
        try:
            found = some.fit(some.moved(None), self.start(), COARSE)
        except NumericsError:  # some may be separable where all are not
            return self.start()
        self.passes += -(-some.passes // FEWER)
        self._inverse = some._inverse
        return found.parameters

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Refit by damped Newton steps; what is learnt of the curvature is kept for the next refit."""
        if self._inverse is None and self._chunks >= MANY_CHUNKS and not start.any():
            start = self._coarse(features)
        point, fresh = self._point(start, features), self._inverse is None
        inverse = self._inverse or self._renewed(start, features)
        for _ in range(MOST_STEPS):
            if point.size <= tolerance:
                break
            # Old curvature gets one try, then it is renewed; a bound does not grow old.
            final = fresh or not self._small
            last, accepted = self._step(point, -inverse(point.gradient), features, MOST_HALVINGS if final else 1)
            if final and not accepted:
                break  # no progress even with the true Hessian: rounding is the limit
            inverse.learn(last.parameters - point.parameters, last.gradient - point.gradient)
            slow, fresh = not accepted or last.size > SLOW * point.size, False
            point = last if accepted else point
            if slow and self._small and point.size > tolerance:
                inverse, fresh = self._renewed(point.parameters, features), True
        if self.model.runs_off(point.risk):
            raise NumericsError(
                f"model: {self.model.name} without a regulariser separates these people perfectly, so its "
                "optimum is at infinity; use l2 > 0."
            )
        return Fit(point.parameters, features, point.size, point.size <= tolerance)

    def _point(self, parameters: Array, features: Array) -> _Point:
        risk, gradient = self.risk_gradient(parameters, features)
        return _Point(parameters, risk, gradient, float(np.linalg.norm(gradient)))

    def _step(self, point: _Point, step: Array, features: Array, most: int) -> tuple[_Point, bool]:
        """Halve a step until it is good enough; return where it led to, and whether it was."""
        slope, length = float(point.gradient @ step), 1.0
        for _ in range(most):
            trial = self._point(point.parameters + length * step, features)
            # Near the minimum values are equal to rounding; there the gradient decides. Only there: far out the
            # gradient can be small where the risk is not.
            level = trial.risk <= point.risk + 1e-10 * max(1.0, abs(point.risk))
            if trial.risk <= point.risk + 1e-4 * length * slope or (level and trial.size <= 0.9 * point.size):
                return trial, True
            length *= 0.5
        return trial, False

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Solve H v = right by conjugate gradients, preconditioned with what is known of the curvature."""
        seen = []

        def product(direction: Array) -> Array:
            seen.append((direction, self.product(fit.parameters, fit.features, direction)))
            return seen[-1][1]

        size = float(np.linalg.norm(right))
        solved = conjugate_gradients(product, right, tolerance * size, MOST_PRODUCTS, start, self._inverse)
        if not solved.residual <= max(tolerance, 1e-3) * size:
            raise NumericsError(
                f"signal: H v = g cannot be solved for {self.model.name} here, because the Hessian is singular in the "
                "query's direction; use a larger l2."
            )
        if self._inverse is not None:
            for direction, image in seen:
                self._inverse.learn(direction, image)
        return solved.solution

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L = φ(W x† + b, target) and its gradients, in closed form."""
        import jax

        matrix, outputs = parameters.reshape(self.shape), self.outputs(parameters, query)
        with jax.enable_x64(True):
            slopes = np.asarray(self.model.slopes(outputs, target))
            loss = float(self.model.output_loss(outputs, target))
        return (
            loss,
            np.outer(slopes, np.append((query - self._centre) / self._scale, 1.0)).ravel(),
            matrix[:, :-1].T @ slopes / self._scale,
        )

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return W x† + b."""
        matrix = parameters.reshape(self.shape)
        return matrix[:, :-1] @ ((query - self._centre) / self._scale) + matrix[:, -1]


def _units(features: Array, weights: Array, model: Linear) -> tuple[Array, Array]:
    """Return where to measure features from and in what steps, so that refits do not depend on the caller's units.

    Scales are powers of two, so that they lose nothing. A penalised intercept must keep its place: then nothing is
    shifted.
    """
    centre = weights @ features
    spread = np.sqrt(weights @ (features - centre) ** 2)
    if model.penalise_intercept:
        centre, spread = np.zeros_like(centre), np.sqrt(weights @ features**2)
    return centre, np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))
