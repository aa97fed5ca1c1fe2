"""Gradients through training with jaxopt (no longer maintained): python run_jaxopt.py FOLDER, in its own environment.

`LBFGS(implicit_diff=True)` refits from the last refit on and is differentiated by conjugate gradients, jaxopt's own
choice for symmetric problems.
"""

from __future__ import annotations

import sys
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # jaxopt says on import that nobody looks after it

import jaxopt  # noqa: E402
from moving import Task  # noqa: E402
from through_jax import counting, solve  # noqa: E402


def main(folder):
    task = Task(folder, "jax", "jaxopt")
    count = counting(task)

    def counting_cg(product, vector, **options):
        def told(direction):
            count(1)
            return product(direction)

        return jaxopt.linear_solve.solve_cg(told, vector, tol=1e-6, **options)

    def fit(risk, start, moves):
        solver = jaxopt.LBFGS(risk, tol=1e-7, maxiter=2_000, implicit_diff=True, implicit_diff_solve=counting_cg)
        found = solver.run(start, moves)
        return found.params, found.state.num_fun_eval

    solve(task, fit)


if __name__ == "__main__":
    main(*sys.argv[1:])
