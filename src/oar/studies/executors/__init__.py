"""Executors and workers: who answers the cells of a study."""
