"""WHAT IS RETRAINED: the operator's model."""

from oar.models.base import Model
from oar.models.batch_norm import TestTimeBatchNorm
from oar.models.batch_norm_layers import BatchNorm, Dense
from oar.models.custom import Custom, from_equinox
from oar.models.differentiable import Differentiable
from oar.models.ensemble import Ensemble
from oar.models.gaussian import GaussianNaiveBayes
from oar.models.linear import LinearSVM, Ridge, SoftmaxRegression
from oar.models.mlp import MLP
from oar.models.nearest_centroid import Centroids, NearestCentroid
from oar.models.prototypes import PrototypeNetwork
from oar.models.scaled import Scaled
from oar.models.torch_model import from_torch

__all__ = [
    "MLP",
    "BatchNorm",
    "Centroids",
    "Custom",
    "Dense",
    "Differentiable",
    "Ensemble",
    "GaussianNaiveBayes",
    "LinearSVM",
    "Model",
    "NearestCentroid",
    "PrototypeNetwork",
    "Ridge",
    "Scaled",
    "SoftmaxRegression",
    "TestTimeBatchNorm",
    "from_equinox",
    "from_torch",
]
