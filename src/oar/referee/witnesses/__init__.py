"""Witnesses: the implementations that refit in the audit, independent of the solvers."""
