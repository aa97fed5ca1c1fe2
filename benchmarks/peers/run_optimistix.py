"""Gradients straight through training with optimistix: python run_optimistix.py FOLDER, in an environment of its own.

BFGS refits from the last refit on, `ImplicitAdjoint` differentiates through it with lineax's conjugate gradients (its
default adjoint took twice as long and three times the memory), and `jax.value_and_grad` sees
one function from moves to the query's loss. Everything is in float64 and compiled as one step.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import lineax
import optimistix
from descent import descend
from moving import Task

jax.config.update("jax_enable_x64", True)


def main(folder):
    task = Task(folder, "jax", "optimistix", "lineax", "equinox")
    features, labels, query = (jnp.asarray(values) for values in (task.features, task.labels, task.query))

    def counted(passes):
        task.passes += int(passes)

    class CountingCG(lineax.CG):
        """Conjugate gradients that say how many products they took."""

        def compute(self, state, vector, options):
            """Solve as always; there is one call home for each solve, not for each product."""
            solution, result, stats = super().compute(state, vector, options)
            jax.debug.callback(counted, stats["num_steps"])
            return solution, result, stats

    solver = optimistix.BFGS(rtol=1e-7, atol=1e-7)
    adjoint = optimistix.ImplicitAdjoint(CountingCG(rtol=1e-6, atol=1e-9))
    convex = frozenset({lineax.positive_semidefinite_tag})

    def risk(parameters, moves):
        logits = (features + moves) @ parameters[:, :-1].T + parameters[:, -1]
        own = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        loss = (jax.nn.logsumexp(logits, axis=1) - own).mean()
        return loss + 0.5 * task.l2 * (parameters[:, :-1] ** 2).sum()

    def loss(moves, start):
        found = optimistix.minimise(
            risk, solver, start, moves, adjoint=adjoint, max_steps=2_000, tags=convex, throw=False
        )
        fitted = found.value
        goal_loss = -jax.nn.log_softmax(fitted[:, :-1] @ query + fitted[:, -1])[task.goal]
        return goal_loss, (fitted, found.stats["num_steps"])

    compiled = jax.jit(jax.value_and_grad(loss, has_aux=True))
    refitted = jnp.zeros((task.classes, features.shape[1] + 1))

    def evaluate(moves):
        nonlocal refitted
        (value, (refitted, steps)), gradient = compiled(moves, refitted)
        counted(steps + 1)  # a step of BFGS is an evaluation with its gradient; everyone's gradients are one more
        return value, gradient

    @jax.jit
    def step(moves, gradient, length):
        norms = jnp.linalg.norm(gradient, axis=1, keepdims=True)
        moves = moves - length * gradient / jnp.where(norms > 0, norms, 1.0)
        return moves / jnp.maximum(jnp.linalg.norm(moves, axis=1, keepdims=True) / task.budget, 1.0)

    descend(task, evaluate, step, jnp.zeros_like(features))


if __name__ == "__main__":
    main(*sys.argv[1:])
