"""Gradients through training with jaxopt (no longer maintained): python run_jaxopt.py FOLDER, in its own environment.

`LBFGS(implicit_diff=True)` refits from the last refit on and is differentiated by conjugate gradients, jaxopt's own
choice for symmetric problems. Everything is in float64 and compiled as one step.
"""

from __future__ import annotations

import sys
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # jaxopt says on import that nobody looks after it

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jaxopt  # noqa: E402
from descent import descend  # noqa: E402
from moving import Task  # noqa: E402

jax.config.update("jax_enable_x64", True)


def main(folder):
    task = Task(folder, "jax", "jaxopt")
    features, labels, query = (jnp.asarray(values) for values in (task.features, task.labels, task.query))

    def counted(passes):
        task.passes += int(passes)

    def counting_cg(product, vector, **options):
        def told(direction):
            jax.debug.callback(counted, 1)
            return product(direction)

        return jaxopt.linear_solve.solve_cg(told, vector, tol=1e-6, **options)

    def risk(parameters, moves):
        logits = (features + moves) @ parameters[:, :-1].T + parameters[:, -1]
        own = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        loss = (jax.nn.logsumexp(logits, axis=1) - own).mean()
        return loss + 0.5 * task.l2 * (parameters[:, :-1] ** 2).sum()

    solver = jaxopt.LBFGS(risk, tol=1e-7, maxiter=2_000, implicit_diff=True, implicit_diff_solve=counting_cg)

    def loss(moves, start):
        found = solver.run(start, moves)
        fitted = found.params
        goal_loss = -jax.nn.log_softmax(fitted[:, :-1] @ query + fitted[:, -1])[task.goal]
        return goal_loss, (fitted, found.state.num_fun_eval)

    compiled = jax.jit(jax.value_and_grad(loss, has_aux=True))
    refitted = jnp.zeros((task.classes, features.shape[1] + 1))

    def evaluate(moves):
        nonlocal refitted
        (value, (refitted, evaluations)), gradient = compiled(moves, refitted)
        counted(evaluations + 1)  # a value with its gradient is one pass; everyone's gradients are one more
        return value, gradient

    @jax.jit
    def step(moves, gradient, length):
        norms = jnp.linalg.norm(gradient, axis=1, keepdims=True)
        moves = moves - length * gradient / jnp.where(norms > 0, norms, 1.0)
        return moves / jnp.maximum(jnp.linalg.norm(moves, axis=1, keepdims=True) / task.budget, 1.0)

    descend(task, evaluate, step, jnp.zeros_like(features))


if __name__ == "__main__":
    main(*sys.argv[1:])
