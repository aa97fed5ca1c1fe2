"""Operators: who retrains, and when."""
