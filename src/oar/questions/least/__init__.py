"""The least budget, the fewest members, the break-even share."""
