"""The query's own moves."""
