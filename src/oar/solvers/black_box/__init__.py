"""Solvers for black boxes, which can only be trained and asked for predictions."""
