"""WHAT IS RETRAINED: the operator's model."""

from oar.models.base import Model
from oar.models.nearest_centroid import Centroids, NearestCentroid

__all__ = ["Centroids", "Model", "NearestCentroid"]
