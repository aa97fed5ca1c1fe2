"""Peers for softmax regression that is refitted: what one would write with NumPy and scipy, or with optimistix.

All minimise the query's cross-entropy −log p(goal | x†) after a refit (mean cross-entropy + l2/2 ‖W‖², free intercept)
over moves ‖δ_i‖₂ ≤ ε. They share nothing with the package, and each is written as well as its tools allow: warm starts,
scaled variables, compiled steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.peers.by_hand import implicit_gradient
from benchmarks.worlds import World

Array = NDArray[np.float64]
TIGHT = 1e-10


def judged_loss(world: World, moves: Array | None) -> float:
    """Return the query's loss after scikit-learn's own tight refit: the judge of all contenders."""
    from sklearn.linear_model import LogisticRegression

    moved = world.features if moves is None else world.features + moves
    strength = 1.0 / (len(moved) * world.l2)
    estimator = LogisticRegression(C=strength, solver="newton-cholesky", tol=TIGHT, max_iter=1_000)
    return -float(estimator.fit(moved, world.labels).predict_log_proba(world.query[None])[0, world.goal])


def scipy_moves(world: World, budget: float, enough: float, threads: int, max_steps: int = 200) -> Array:
    """L-BFGS-B of scipy over δ = εu/√(1+‖u‖²); the gradient goes through the refit by the implicit function theorem.

    Refits are Newton's method with the closed-form Hessian, warm-started; the last Hessian also gives the signal. The
    variables are u/√n, so that gradients are of order one. It stops as soon as its own loss is at most `enough`.
    """
    from scipy.optimize import minimize

    size, width = world.features.shape
    parameters = np.zeros((int(world.labels.max()) + 1, width + 1))
    best: dict[str, Any] = {"loss": np.inf}

    def evaluate(scaled: Array) -> tuple[float, Array]:
        nonlocal parameters
        free = scaled.reshape(size, width) * np.sqrt(size)
        shrink = 1.0 / np.sqrt(1.0 + np.einsum("nd,nd->n", free, free))
        moves = budget * free * shrink[:, None]
        parameters, loss, gradient = implicit_gradient(world, moves, parameters)
        if loss < best["loss"]:
            best.update(loss=loss, moves=moves)
        inward = np.einsum("nd,nd->n", free, gradient) * shrink**2
        slope = budget * shrink[:, None] * (gradient - free * inward[:, None])
        return loss, slope.ravel() * np.sqrt(size)

    def stop(intermediate_result: Any) -> None:
        if intermediate_result.fun <= enough:
            raise StopIteration

    options = {"maxiter": max_steps, "ftol": 1e-12, "gtol": 1e-9}
    with threadpool_limits(threads, "blas"):
        minimize(evaluate, np.zeros(size * width), jac=True, method="L-BFGS-B", callback=stop, options=options)
    return best["moves"]


def faster_threads(world: World) -> int:
    """Return how many BLAS threads suit the scipy peer here: one (better on busy machines) or one for each core."""
    parameters = np.zeros((int(world.labels.max()) + 1, world.features.shape[1] + 1))
    seconds = {}
    for threads in (1, os.cpu_count() or 1):
        with threadpool_limits(threads, "blas"):
            began = time.perf_counter()
            implicit_gradient(world, np.zeros_like(world.features), parameters)
            seconds[threads] = time.perf_counter() - began
    return min(seconds, key=seconds.__getitem__)


def optimistix_mover(world: World, budget: float, steps: int = 50) -> Callable[[], Array]:
    """Normalised projected gradient; optimistix's BFGS refits and `ImplicitAdjoint(lx.CG)` differentiates through it.

    Refits are warm-started. A step goes against everyone's gradient, 2ε/(t + 2) far, and back into the ball: the first
    is a full response. All is compiled here; what is returned runs all steps and gives the last point.
    """
    import jax
    import jax.numpy as jnp
    import lineax
    import optimistix

    with jax.enable_x64(True):
        features, labels = jnp.asarray(world.features), jnp.asarray(world.labels)
        query, count = jnp.asarray(world.query), int(world.labels.max()) + 1
        solver = optimistix.BFGS(rtol=1e-7, atol=1e-7)
        convex = lineax.positive_semidefinite_tag
        adjoint = optimistix.ImplicitAdjoint(lineax.CG(rtol=1e-6, atol=1e-9))

        def risk(parameters: Any, moves: Any) -> Any:
            logits = (features + moves) @ parameters[:, :-1].T + parameters[:, -1]
            own = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            loss = (jax.nn.logsumexp(logits, axis=1) - own).mean()
            return loss + 0.5 * world.l2 * (parameters[:, :-1] ** 2).sum()

        def loss(moves: Any, start: Any) -> Any:
            found = optimistix.minimise(
                risk, solver, start, moves, adjoint=adjoint, max_steps=2_000, tags=frozenset({convex})
            ).value
            return -jax.nn.log_softmax(found[:, :-1] @ query + found[:, -1])[world.goal], found

        @jax.jit
        def step(moves: Any, start: Any, length: Any) -> Any:
            gradient, found = jax.grad(loss, has_aux=True)(moves, start)
            moves = moves - length * gradient / jnp.linalg.norm(gradient, axis=1, keepdims=True)
            outside = jnp.linalg.norm(moves, axis=1, keepdims=True) / budget
            return moves / jnp.maximum(outside, 1.0), found

        stay, zero = jnp.zeros_like(features), jnp.zeros((count, features.shape[1] + 1))
        jax.block_until_ready(step(stay, zero, budget))

    def run() -> Array:
        with jax.enable_x64(True):
            moves, parameters = stay, zero
            for number in range(steps):
                moves, parameters = step(moves, parameters, 2.0 * budget / (number + 2))
            return np.asarray(moves)

    return run


def tuned_score_gradients(features: Array, labels: NDArray[np.int64], threads: int) -> Any:
    """Return a function of (parameters, signal) that gives ∇_x s for everyone, as a specialist would write it by hand.

    Rows lie feature-major in chunks that stay in the cache, arrays are reused, and each thread has chunks of its own.
    """
    from concurrent.futures import ThreadPoolExecutor

    (size, width), rows = features.shape, 2_000
    chunks = -(-size // rows)
    laid = np.zeros((chunks, width + 1, rows))
    result = np.empty((chunks, width, rows))
    codes = np.zeros((chunks, rows), dtype=np.intp)
    codes.reshape(-1)[:size] = labels
    for number in range(chunks):
        some = features[number * rows : (number + 1) * rows]
        laid[number, :width, : len(some)], laid[number, width] = some.T, 1.0
    pool = ThreadPoolExecutor(threads)
    each = np.arange(rows)

    def part(numbers: NDArray[np.intp], parameters: Array, signal: Array) -> None:
        count = len(parameters)
        both, back = np.concatenate([parameters, signal]), np.concatenate([signal, parameters])[:, :-1].T.copy()
        out, stacked = np.empty((2 * count, rows)), np.empty((2 * count, rows))
        spare, line = np.empty((count, rows)), np.empty(rows)
        for number in numbers:
            np.matmul(both, laid[number], out=out)
            shares, projected = stacked[:count], out[count:]
            np.max(out[:count], axis=0, out=line)
            np.subtract(out[:count], line, out=shares)
            np.exp(shares, out=shares)
            np.sum(shares, axis=0, out=line)
            np.divide(1.0, line, out=line)
            np.multiply(shares, line, out=shares)
            np.multiply(shares, projected, out=spare)
            np.sum(spare, axis=0, out=line)
            np.subtract(projected, line, out=projected)
            np.multiply(projected, shares, out=stacked[count:])
            shares[codes[number], each] -= 1.0
            np.matmul(back, stacked, out=result[number])

    def run(parameters: Array, signal: Array) -> Array:
        shards = np.array_split(np.arange(chunks), threads)
        list(pool.map(lambda numbers: part(numbers, parameters, signal), shards))
        return result

    return run
