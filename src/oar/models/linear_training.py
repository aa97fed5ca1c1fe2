"""A linear model bound to data: chunked passes, and refits by Newton on a frozen factor.

**Passes.** Rows are kept in chunks small enough for the cache. A pass maps one fused function over them and adds up
sums in float64, on as many threads as there are cores. Inside a chunk outputs are (o, rows), so that a person's softmax
is a column and every reduction runs along memory.

**Refits.** A refit that starts near the last one needs few steps, and the last Hessian's Cholesky factor serves for
most of them: it is renewed only when a step shrinks the gradient too little. The same factor preconditions the
conjugate gradients that solve H v = g, so one factorisation lasts for many refits.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.linear_passes import compiled
from oar.models.training import Array, Fit

if TYPE_CHECKING:
    from oar.models.linear import Linear

CHUNK = 1_000
SLOW = 0.3  # a step that leaves more than this share of the gradient asks for a fresh factor
MOST_STEPS = 200
MOST_HALVINGS = 40
MOST_PRODUCTS = 500


class LinearTraining:
    """Implements `Training` for z = W x + b with features (n, d), targets (n, o) and weights (n,) that sum to 1."""

    def __init__(self, model: Linear, features: Array, targets: Array, weights: Array) -> None:
        """Lay the data out in chunks, the last one padded with people of no weight."""
        self.model, self.weights, self.passes = model, weights, 0
        self.size, self.dimensions = features.shape
        self.shape = (targets.shape[1], self.dimensions + 1)
        self.parameter_count = self.shape[0] * self.shape[1]
        self.targets = targets
        self._features = features
        self._rows = min(CHUNK, self.size)
        self._chunks = -(-self.size // self._rows)
        self._targets = self._pack(targets)
        self._weights = self._pack(weights[:, None])[..., 0]
        self._shards = np.array_split(np.arange(self._chunks), min(os.cpu_count() or 1, self._chunks))
        self._pool = ThreadPoolExecutor(len(self._shards)) if len(self._shards) > 1 else None
        self._factor: Any = None
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
        """Return features in chunks."""
        return self._pack(self._features if moves is None else self._features + moves)

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
        value = float(sum(part[0] for part in parts)) + self.model.penalty(matrix) + self.model.gauge(matrix)
        gradient = sum(part[1] for part in parts) + self._penalty_product(matrix)
        return float(value), gradient.ravel()

    def _penalty_product(self, matrix: Array) -> Array:
        """Return the gradient of the quadratic l2/2 ‖W‖² + gauge, which is also its Hessian times `matrix`."""
        product = np.zeros_like(matrix)
        product[:, :-1] = self.model.l2 * matrix[:, :-1]
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
        return np.concatenate(parts).reshape(-1, self.dimensions)[: self.size]

    def _refresh(self, parameters: Array, features: Array) -> None:
        """Factor H. It only steers steps and preconditions, so where H is singular a little may be added to it."""
        from scipy.linalg import LinAlgError, cho_factor

        hessian = self.hessian(parameters, features)
        size = float(np.abs(np.diag(hessian)).max())
        for share in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
            try:
                self._factor = cho_factor(hessian + share * max(size, 1.0) * np.eye(len(hessian)))
                return
            except LinAlgError:
                continue
        raise NumericsError(
            f"model: the training risk of {self.model.name} has no positive curvature here, so it cannot be refitted; "
            "use a larger l2, or check the data."
        )

    def _precondition(self, vector: Array) -> Array:
        from scipy.linalg import cho_solve

        return cho_solve(self._factor, vector)

    def fit(self, features: Array, start: Array, tolerance: float) -> Fit:
        """Refit by damped Newton; the factor is kept for the next refit."""
        parameters = start
        value, gradient = self.risk_gradient(parameters, features)
        size, fresh = float(np.linalg.norm(gradient)), False
        if self._factor is None:
            self._refresh(parameters, features)
            fresh = True
        for _ in range(MOST_STEPS):
            if size <= tolerance:
                break
            step = -self._precondition(gradient)
            slope, length, accepted = float(gradient @ step), 1.0, False
            for _ in range(MOST_HALVINGS if fresh else 1):  # a stale factor gets one try, then it is renewed
                trial = parameters + length * step
                new_value, new_gradient = self.risk_gradient(trial, features)
                new_size = float(np.linalg.norm(new_gradient))
                # Near the minimum values are equal to rounding; there the gradient decides. Only there: far out the
                # gradient can be small where the risk is not.
                level = new_value <= value + 1e-10 * max(1.0, abs(value))
                accepted = new_value <= value + 1e-4 * length * slope or (level and new_size <= 0.9 * size)
                if accepted:
                    break
                length *= 0.5
            if not accepted and fresh:
                break  # no progress even with the true Hessian: rounding is the limit
            slow = not accepted or new_size > SLOW * size
            if accepted:
                parameters, value, gradient, size, fresh = trial, new_value, new_gradient, new_size, False
            if slow and size > tolerance:
                self._refresh(parameters, features)
                fresh = True
        if self.model.runs_off(value):
            raise NumericsError(
                f"model: {self.model.name} without a regulariser separates these people perfectly, so its "
                "optimum is at infinity; use l2 > 0."
            )
        return Fit(parameters, features, size, size <= tolerance)

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Solve H v = right by conjugate gradients, preconditioned with the kept factor."""
        solution, residual = np.zeros_like(right), right
        if start is not None:
            solution, residual = start, right - self.product(fit.parameters, fit.features, start)
        enough = tolerance * float(np.linalg.norm(right))
        scaled = self._precondition(residual)
        direction, energy = scaled, float(residual @ scaled)
        for _ in range(MOST_PRODUCTS):
            if float(np.linalg.norm(residual)) <= enough:
                break
            image = self.product(fit.parameters, fit.features, direction)
            curvature = float(direction @ image)
            if not curvature > 0:
                break  # a flat direction: the residual says what is left
            length = energy / curvature
            solution, residual = solution + length * direction, residual - length * image
            scaled = self._precondition(residual)
            energy, last = float(residual @ scaled), energy
            direction = scaled + (energy / last) * direction
        if not float(np.linalg.norm(residual)) <= max(enough, 1e-3 * float(np.linalg.norm(right))):
            raise NumericsError(
                f"signal: H v = g cannot be solved for {self.model.name} here, because the Hessian is singular in the "
                "query's direction; use a larger l2."
            )
        return solution

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return L = φ(W x† + b, target) and its gradients, in closed form."""
        import jax

        matrix, outputs = parameters.reshape(self.shape), self.outputs(parameters, query)
        with jax.enable_x64(True):
            slopes = np.asarray(self.model.slopes(outputs, target))
            loss = float(self.model.output_loss(outputs, target))
        return (
            loss,
            np.outer(slopes, np.append(query, 1.0)).ravel(),
            matrix[:, :-1].T @ slopes,
        )

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return W x† + b."""
        matrix = parameters.reshape(self.shape)
        return matrix[:, :-1] @ query + matrix[:, -1]
