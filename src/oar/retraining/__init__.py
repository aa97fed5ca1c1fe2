"""Contributions and refits: `contribution` is everything that people hand in, `retraining` what a refit makes of it."""
