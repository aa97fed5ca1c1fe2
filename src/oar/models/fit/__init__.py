"""Fits to a small gradient, and linear solves with the Hessian there."""
