"""People who are not in memory, read part by part."""
