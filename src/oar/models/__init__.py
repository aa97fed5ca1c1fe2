"""The operator's models: what is retrained."""

from oar.models.autodiff.custom import Custom, from_equinox
from oar.models.autodiff.mlp import MLP
from oar.models.batch_norm.layers import BatchNorm, Dense
from oar.models.batch_norm.model import TestTimeBatchNorm
from oar.models.centroid.nearest_centroid import Centroids, NearestCentroid
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.differentiable import Differentiable
from oar.models.linear.losses import LinearSVM, Ridge, SoftmaxRegression
from oar.models.naive_bayes import GaussianNaiveBayes
from oar.models.protocol import Model
from oar.models.torch.model import from_torch
from oar.models.wrap.ensemble import Ensemble
from oar.models.wrap.scaled import Scaled

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
