"""Grids of problems: budgets, shares, queries, models and seeds, kept in a file that survives a kill."""

from oar.studies.result import Study
from oar.studies.study import study

__all__ = ["Study", "study"]
