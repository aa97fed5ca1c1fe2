"""The cheapest change of one person."""
