"""Fitting to a small gradient, and solving with the Hessian there."""
