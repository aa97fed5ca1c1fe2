"""The store of a study: one SQLite file that several processes share."""
