"""The version, in one place; everything that is written to disk carries it."""

__version__ = "0.1.0"
