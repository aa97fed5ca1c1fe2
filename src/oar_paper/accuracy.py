"""Nearest centroid's training accuracy beside the paper's, with scikit-learn's own estimator as a witness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.datasets import Dataset, mnist_provenance
from oar.models import NearestCentroid
from oar.people import Population

Array = NDArray[np.float64]
PAPER_IRIS, PAPER_MNIST = 0.96, 0.83


@dataclass(frozen=True)
class Accuracy:
    """One row of the table.

    Attributes:
        data: which data, prepared how.
        accuracy: the share of training people whose own class is predicted.
        paper: what the paper reports for this data set.
        as_in_the_paper: whether this is the preparation that the paper states.
        centroid_difference: the largest difference of a coordinate from scikit-learn's centroids.
        different_labels: for how many people scikit-learn's `NearestCentroid` predicts another label.
    """

    data: str
    accuracy: float
    paper: float
    as_in_the_paper: bool
    centroid_difference: float
    different_labels: int


@dataclass(frozen=True)
class AccuracyTable:
    """All rows, and what the shipped embedding's own record says about MNIST."""

    rows: list[Accuracy]
    mnist_recorded: dict[str, float]
    mnist_training: dict[str, float]
    mnist_final_loss: float


def accuracy_table(iris: Dataset, mnist: Dataset) -> AccuracyTable:
    """Fit all preparations; `scikit-learn` is the witness for each."""
    raw = iris.features
    standardised = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    provenance = mnist_provenance()
    return AccuracyTable(
        rows=[
            measure("Iris, four raw features", raw, iris.labels, PAPER_IRIS, as_in_the_paper=True),
            measure("Iris, petal length and width only", raw[:, 2:], iris.labels, PAPER_IRIS),
            measure("Iris, four standardised features", standardised, iris.labels, PAPER_IRIS),
            measure(
                "MNIST, ten-dimensional embedding", mnist.features, mnist.labels, PAPER_MNIST, as_in_the_paper=True
            ),
        ],
        mnist_recorded=provenance["nearest_centroid_accuracy"],
        mnist_training=provenance["settings"],
        mnist_final_loss=provenance["final_loss"],
    )


def measure(
    data: str, features: Array, labels: NDArray[np.int64], paper: float, as_in_the_paper: bool = False
) -> Accuracy:
    """Fit one preparation and compare it with scikit-learn's fit."""
    from sklearn.neighbors import NearestCentroid as Witness

    model, people = NearestCentroid(), Population(features, labels)
    centroids = model.fit(people)
    predicted = np.asarray(people.classes)[model.predict(centroids, features)]
    witness = Witness().fit(features, labels)
    return Accuracy(
        data=data,
        accuracy=float(np.mean(predicted == labels)),
        paper=paper,
        as_in_the_paper=as_in_the_paper,
        centroid_difference=float(np.abs(witness.centroids_ - centroids.positions).max()),
        different_labels=int(np.count_nonzero(witness.predict(features) != predicted)),
    )
