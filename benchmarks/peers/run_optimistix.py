"""Gradients straight through training with optimistix: python run_optimistix.py FOLDER, in an environment of its own.

BFGS refits from the last refit on, `ImplicitAdjoint` differentiates through it with lineax's conjugate gradients (its
default adjoint took twice as long and three times the memory), and `jax.value_and_grad` sees one function from moves to
the query's loss.
"""

from __future__ import annotations

import sys

import lineax
import optimistix
from moving import Task
from through_jax import counting, solve


def main(folder):
    task = Task(folder, "jax", "optimistix", "lineax", "equinox")
    count = counting(task)

    class CountingCG(lineax.CG):
        """Conjugate gradients that say how many products they took."""

        def compute(self, state, vector, options):
            """Solve as always; there is one call home for each solve, not for each product."""
            solution, result, stats = super().compute(state, vector, options)
            count(stats["num_steps"])
            return solution, result, stats

    solver = optimistix.BFGS(rtol=1e-7, atol=1e-7)
    adjoint = optimistix.ImplicitAdjoint(CountingCG(rtol=1e-6, atol=1e-9))
    convex = frozenset({lineax.positive_semidefinite_tag})

    def fit(risk, start, moves):
        found = optimistix.minimise(
            risk, solver, start, moves, adjoint=adjoint, max_steps=2_000, tags=convex, throw=False
        )
        return found.value, found.stats["num_steps"]  # a step of BFGS is an evaluation with its gradient

    solve(task, fit)


if __name__ == "__main__":
    main(*sys.argv[1:])
