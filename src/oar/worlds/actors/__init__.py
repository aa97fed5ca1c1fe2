"""Everybody else who acts in a world."""
