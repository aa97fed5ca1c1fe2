"""WHO: the data subjects, and how they are read."""

from oar.people.population import Chunk, Population

__all__ = ["Chunk", "Population"]
