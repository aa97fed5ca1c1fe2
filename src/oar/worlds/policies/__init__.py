"""Policies of a collective."""
