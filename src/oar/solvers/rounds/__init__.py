"""Solvers for problems over several rounds of retraining."""
