"""Solvers around solvers: several queries, side effects, the most useful members."""
