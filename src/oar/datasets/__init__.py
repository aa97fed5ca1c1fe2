"""Data sets that ship with the package, and loaders for those that do not."""

from oar.datasets.census import adult
from oar.datasets.credit import german_credit
from oar.datasets.dataset import Dataset, TableDataset
from oar.datasets.iris_flowers import iris
from oar.datasets.mnist_raw import mnist_images
from oar.datasets.mnist_shipped import mnist_decoder, mnist_embedding, mnist_provenance

__all__ = [
    "Dataset",
    "TableDataset",
    "adult",
    "german_credit",
    "iris",
    "mnist_decoder",
    "mnist_embedding",
    "mnist_images",
    "mnist_provenance",
]
