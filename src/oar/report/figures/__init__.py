"""Figures, and the data that they show."""
