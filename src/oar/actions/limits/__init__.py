"""Limits of what people can do to a table's columns: bounds, links, rules, and those that are read off data."""
