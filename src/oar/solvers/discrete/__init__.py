"""Greedy and exchange searches: integer moves, labels, strikes."""
