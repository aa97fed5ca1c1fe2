"""WHAT IS RETRAINED: the operator's model."""

from oar.models.base import Model
from oar.models.differentiable import Differentiable
from oar.models.linear import LinearSVM, Ridge, SoftmaxRegression
from oar.models.nearest_centroid import Centroids, NearestCentroid

__all__ = ["Centroids", "Differentiable", "LinearSVM", "Model", "NearestCentroid", "Ridge", "SoftmaxRegression"]
