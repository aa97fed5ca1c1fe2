"""German credit over the years."""
