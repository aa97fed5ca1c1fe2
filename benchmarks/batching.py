"""Would a study's cells be faster if they were solved side by side, by vmap? Two small tables, sixteen budgets.

Beside `oar`'s solver, cell after cell, stands the least that a batched one could do: as many steps of the same kind (a
warm refit of three Newton steps, the adjoint, everyone's gradient, a step and the way back into the ball), without a
line search, a gap, or anything that says whether it has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import readable

RIDGE = 1e-2
BUDGETS = np.linspace(0.05, 0.5, 16)
REFIT = 3  # Newton steps of a warm refit


def rows(effort: Effort) -> Iterator[Row]:
    """Measure both sizes."""
    for people, features, classes in ((150, 4, 3), (1000, 10, 3)):
        table, labels, query = _blobs(people, features, classes)
        began, steps = time.perf_counter(), []
        for budget in BUDGETS:
            asked = oar.Problem(
                oar.Population(table, labels),
                oar.SoftmaxRegression(RIDGE),
                oar.Query(query, goal=1),
                oar.Perturb(float(budget)),
            )
            steps.append(oar.solvers.propose_collective(asked).steps)
        alone = time.perf_counter() - began
        solve = _batched(table, np.eye(classes)[labels], query, int(np.median(steps)))
        first, again = _timed(solve), _timed(solve)
        context = (
            f"{len(BUDGETS)} cells: one by one {readable(alone)}, {int(np.median(steps))} steps each in the middle"
        )
        yield Row(
            f"vmapped steps alone / solving cell by cell, {people} × {features}, {classes} classes",
            again / alone,
            "×",
            None,
            f"{context}; compiling the batch {readable(first - again)}",
        )


def _timed(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _blobs(people: int, features: int, classes: int) -> tuple[NDArray, NDArray, NDArray]:
    rng = np.random.default_rng(0)
    centres, labels = 1.2 * rng.standard_normal((classes, features)), rng.integers(0, classes, people)
    table = centres[labels] + rng.standard_normal((people, features))
    return table, labels, 0.3 * centres[1] + 0.7 * centres[0]


def _batched(table: NDArray, shares: NDArray, query: NDArray, steps: int) -> Callable[[], Any]:
    """Return a function that takes so many steps for all budgets at once."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    (people, features), classes = table.shape, shares.shape[1]

    def logits(theta: Any, points: Any) -> Any:
        return points @ theta[: classes * features].reshape(classes, features).T + theta[classes * features :]

    def risk(theta: Any, points: Any) -> Any:
        scores = logits(theta, points)
        losses = jax.nn.logsumexp(scores, axis=1) - (scores * shares).sum(axis=1)
        return losses.mean() + RIDGE / 2 * (theta[: classes * features] ** 2).sum() + 1e-9 * (theta**2).sum()

    def goal_loss(theta: Any) -> Any:
        scores = logits(theta, query)
        return jax.nn.logsumexp(scores) - scores[1]

    def solved(theta: Any, points: Any, right: Any) -> Any:
        return jnp.linalg.solve(jax.hessian(risk)(theta, points), right)

    def refitted(theta: Any, points: Any, times: int) -> Any:
        return jax.lax.fori_loop(0, times, lambda _, now: now - solved(now, points, jax.grad(risk)(now, points)), theta)

    def arrived(budget: Any) -> Any:
        def step(_: int, state: Any) -> Any:
            theta, moves = state
            points = table + moves
            theta = refitted(theta, points, REFIT)
            adjoint = solved(theta, points, jax.grad(goal_loss)(theta))
            slopes = -jax.grad(lambda moved: jax.grad(risk)(theta, moved) @ adjoint)(points)
            moves -= 0.3 * budget * slopes / (jnp.linalg.norm(slopes, axis=1, keepdims=True) + 1e-30)
            lengths = jnp.linalg.norm(moves, axis=1, keepdims=True)
            return theta, moves * jnp.minimum(1.0, budget / jnp.maximum(lengths, 1e-30))

        unmoved = refitted(jnp.zeros(classes * (features + 1)), table, 8)
        theta, moves = jax.lax.fori_loop(0, steps, step, (unmoved, jnp.zeros((people, features))))
        return goal_loss(refitted(theta, table + moves, REFIT))

    together = jax.jit(jax.vmap(arrived))
    return lambda: together(jnp.asarray(BUDGETS)).block_until_ready()
