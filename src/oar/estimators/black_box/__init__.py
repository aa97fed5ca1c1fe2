"""Models that are only trained and asked."""
