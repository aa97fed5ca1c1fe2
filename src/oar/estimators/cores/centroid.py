"""scikit-learn's NearestCentroid: the paper's own model, solved exactly, and audited by the estimator itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.estimators.cores.protocol import Array, Core, refused
from oar.estimators.rows import RowConversion, trained, up_to_last, weight_argument
from oar.models.centroid.nearest_centroid import Centroids, NearestCentroid
from oar.people import Population


@dataclass(frozen=True, eq=False)
class CentroidTwin(NearestCentroid):
    """Nearest centroid as an estimator has it; `oar.Problem(people, estimator, …)` makes it."""

    estimator: Any = None  # an unfitted clone of what was given

    def __repr__(self) -> str:
        return f"CentroidTwin({self.estimator!r})"

    def check(self, people: Population) -> None:
        """Raise where nearest centroid, or the estimator, cannot be fitted to these people."""
        super().check(people)
        if people.weights is not None and people.first_weights is people.weights:
            weight_argument(self.estimator, people.weights)  # which it does not know

    def original(self, people: Population, features: Array) -> OriginalCentroids:
        """Train the estimator itself on people with these features (n, d) and their labels."""
        handing = RowConversion(people, table=False)
        fitted, _ = trained(self.estimator, handing.handed(people, features))
        return OriginalCentroids(fitted, handing)

    def fit(self, people: Population) -> Centroids:
        """Train the estimator itself, and read its centroids."""
        self.check(people)
        features = np.asarray(people.features, dtype=np.float64)
        ours = super().fit(people)
        positions = self.original(people, features).positions
        return Centroids(positions, ours.class_weights, np.maximum(ours.sizes, np.abs(positions).max(axis=1)))


class OriginalCentroids(NamedTuple):
    """The estimator itself, fitted, and how people are handed to it."""

    estimator: Any
    handing: RowConversion

    @property
    def positions(self) -> Array:
        """Its centroids (k, d), classes in the people's order."""
        return CentroidCore().read(self.estimator, self.handing.class_places(self.estimator.classes_))

    def predict(self, features: Array) -> NDArray[np.intp]:
        """Return the class codes that it predicts for people (m, d)."""
        return self.handing.class_places(self.estimator.predict(self.handing.rows(features)))


@dataclass(frozen=True)
class CentroidCore(Core):
    """NearestCentroid at the end of a pipeline, in closed form on what stands before it."""

    name = "NearestCentroid"
    equivariant = True

    def check(self, people: Population) -> None:
        """Raise where people have weights, which the estimator does not know."""
        if people.weights is not None and people.first_weights is people.weights:
            raise OptionError(
                "weights: NearestCentroid cannot be trained with weights, and people have some; leave them out of the "
                "Population."
            )

    def training(self, rows: Array, people: Population) -> Any:
        """Bind class means to rows as the estimator sees them."""
        return NearestCentroid().training(people.with_features(np.asarray(rows, dtype=np.float64)))

    def read(self, fitted: Any, places: NDArray[np.intp]) -> Array:
        """Return centroids_, classes in the people's order."""
        return np.asarray(fitted.centroids_, dtype=np.float64)[np.argsort(places)]

    def own_parameters(self, training: Any, flat: Array) -> Array:
        """Return the prototypes (k, d')."""
        return np.asarray(flat, dtype=np.float64).reshape(training.targets.shape[1], -1)

    def outputs(self, parameters: Array, rows: Array) -> Array:
        """Return minus the distances to all centroids."""
        return -np.linalg.norm(np.asarray(rows)[:, None] - parameters, axis=-1)

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp]) -> Array:
        """Return the same by the estimator's own centroids and scikit-learn's distances."""
        from sklearn.metrics import euclidean_distances

        last, seen = up_to_last(fitted, rows)
        return -euclidean_distances(np.asarray(seen, dtype=np.float64), self.read(last, places))


def centroid_core(estimator: Any) -> CentroidCore:
    """Return what a NearestCentroid behind a front is differentiated by; raise where it is another model."""
    centroid_twin(estimator)
    return CentroidCore()


def centroid_twin(estimator: Any) -> CentroidTwin:
    """Return the twin of an unfitted NearestCentroid; raise where it is another model than the paper's."""
    if estimator.metric != "euclidean":
        raise refused(estimator, f"metric={estimator.metric!r}", "whose centroids are no means", "'euclidean'")
    if estimator.shrink_threshold is not None:
        raise refused(estimator, "shrink_threshold", "which moves centroids by steps", "shrink_threshold=None")
    priors = getattr(estimator, "priors", "uniform")
    if not (isinstance(priors, str) and priors == "uniform"):
        raise refused(estimator, "priors", "which make it no model of distances alone", "priors='uniform'")
    return CentroidTwin(estimator)
