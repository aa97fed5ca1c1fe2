"""Moves from and to arrays, tables and files."""
