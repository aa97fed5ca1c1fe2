"""Data subjects: populations, and how they are read."""

from oar.people.population import Chunk, Population
from oar.people.tables.files import read_table
from oar.people.tables.schema import Column, Schema

__all__ = ["Chunk", "Column", "Population", "Schema", "read_table"]
