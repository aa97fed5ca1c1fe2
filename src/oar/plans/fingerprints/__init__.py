"""Digests of what models and functions do."""
