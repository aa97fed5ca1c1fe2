"""The paper's model: each class is its mean, and nearer means likelier.

    p(y | x) = exp(−‖x − μ_y‖) / Σ_c exp(−‖x − μ_c‖)          (distance, not squared)

The loss at goal g is −log p(g | x) = log(1 + Σ_{c≠g} exp(d_g − d_c)), with d_c = ‖x − μ_c‖.
Where two centroids are equally near, `predict` names the class with the lower code; the audit does
not count such a tie as a success.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.checks import check_kind, check_that, with_near_names
from oar.errors import DataError
from oar.models.differentiable import Differentiable
from oar.models.protocol import asked_of_rows, class_code
from oar.people import Population

EXACT_SIZES = 1 << 15
FITTED_MEANS = "what oar.NearestCentroid().fit(people) returns"


@dataclass(frozen=True)
class Centroids:
    """The parameters of nearest centroid: one mean a class, and the class's total training weight.

    `sizes` (k,) is how large the class's feature values are on average: its mean's rounding error is in proportion.
    """

    positions: NDArray[np.float64]
    class_weights: NDArray[np.float64]
    sizes: NDArray[np.float64]


@with_near_names
@dataclass(frozen=True)
class NearestCentroid(Differentiable):
    """Nearest centroid with distances as logits.

    >>> people = Population([[0.0], [2.0], [5.0]], ["no", "no", "yes"])
    >>> NearestCentroid().fit(people).positions.ravel()
    array([1., 5.])
    """

    name = "nearest-centroid"
    convex = True
    equivariant = True
    holds_class_means = True
    by_jax = False
    plain_means = True
    keeps_absent = True

    def check(self, people: Population) -> None:
        """Raise unless there is one label a person, and at least two classes that all weigh something."""
        if people.has_label_rows:
            raise DataError("labels: nearest centroid needs one label a person, got rows of numbers; give hard labels.")
        people.find_classes(_stride(people))
        if len(people.classes) < 2:
            raise DataError(
                f"labels: nearest centroid needs at least two classes, got only {people.classes[0]!r}; "
                "add people of another class."
            )
        people.check_class_weights()

    def training(self, people: Population) -> Any:
        """Bind the model to people, with everything in closed form."""
        from oar.models.centroid.training import CentroidTraining  # which reads this file

        return CentroidTraining(self, people)

    @with_near_names
    def fit(self, people: Population) -> Centroids:
        """Return the weighted class means: one pass over the data, O(k·d + chunk) of memory."""
        people.check_class_weights()
        sums, totals, sizes, sampled = people.feature_sums(_stride(people))
        if not np.isfinite(sums).all():
            raise DataError("features: so large that their sums overflow; rescale them (for example to thousands).")
        if not totals.all():  # of people who are read in parts, classes may have been told
            empty = people.classes[int(np.argmin(totals))]
            raise DataError(f"labels: every class needs some weight to be fitted, got none for class {empty!r}.")
        positions = sums / totals[:, None]
        sizes = np.maximum(sizes / np.where(sampled > 0, sampled, 1.0), np.abs(positions).max(axis=1))
        return Centroids(positions, totals.copy(), sizes)

    @asked_of_rows
    def distances(self, parameters: Centroids, features: ArrayLike) -> NDArray[np.float64]:
        """Return Euclidean distances to every centroid, shape (..., k)."""
        check_kind("parameters", parameters, Centroids, FITTED_MEANS)
        rows, width = np.asarray(features, dtype=np.float64), parameters.positions.shape[1]
        check_that(rows.shape[-1] == width, "features", f"{width} a person, as the centroids have", rows.shape)
        offsets = rows[..., None, :] - parameters.positions
        return np.linalg.norm(offsets, axis=-1)

    def _all_outputs(self, parameters: Centroids, features: ArrayLike) -> NDArray[np.float64]:
        return -self.distances(parameters, features)

    @asked_of_rows
    def goal_loss(self, parameters: Centroids, features: ArrayLike, goal: int) -> NDArray[np.float64]:
        """Return −log p(goal | x), shape (...)."""
        found = self.distances(parameters, features)
        return goal_loss(found, class_code(goal, found.shape[-1]))

    @asked_of_rows
    def predict(self, parameters: Centroids, features: ArrayLike) -> NDArray[np.intp]:
        """Return the code of the nearest class, shape (...)."""
        return self.distances(parameters, features).argmin(axis=-1)


def _stride(people: Population) -> int:
    """Sizes only set the width of a tie, so a few per cent of a large population are enough to know them."""
    return 1 if people.size <= EXACT_SIZES else 64


def goal_loss(distances: NDArray[np.float64], goal: int) -> NDArray[np.float64]:
    """Return log(1 + Σ_{c≠g} exp(d_g − d_c)) over the last axis."""
    return loss_and_margin(distances, goal)[0]


def loss_and_margin(distances: NDArray[np.float64], goal: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log(1 + Σ_{c≠g} exp(d_g − d_c)) and min_{c≠g} d_c − d_g, both over the last axis.

    Written so that neither a large exponent overflows nor a small loss drowns in the 1, and so that the memory
    order of the distances is kept: a sweep's lie class by class, where sums over classes are fastest.
    """
    exponents = distances[..., goal, None] - distances
    exponents[..., goal] = -np.inf  # leaves the goal out of maximum and sum
    lead = exponents.max(axis=-1)
    highest = np.maximum(lead, 0.0)
    exponents -= highest[..., None]
    total = np.exp(exponents, out=exponents).sum(axis=-1)
    # With m = highest: log(1 + Σ e^t) = m + log(e^(−m) + Σ e^(t − m)) = m + log1p(Σ e^(t − m) − (1 − e^(−m))).
    return highest + np.log1p(total + np.expm1(-highest)), -lead


def odds_against(distances: NDArray[np.float64], goal: int) -> NDArray[np.float64]:
    """Return log Σ_{c≠g} exp(d_g − d_c) over the last axis: they rise with the loss, and tell losses of 0.0 apart.

    >>> distances = np.array([[0.0, 2000.0], [0.0, 3000.0]])
    >>> goal_loss(distances, 0), odds_against(distances, 0)
    (array([0., 0.]), array([-2000., -3000.]))
    """
    return np.asarray(np.logaddexp.reduce(distances[..., goal, None] - np.delete(distances, goal, axis=-1), axis=-1))


def rival_ties(parameters: Centroids, features: NDArray[np.float64], goal: int) -> NDArray[np.float64]:
    """Return (k,) how much farther each rival must at least be than the goal's centroid not to be called as near.

    Means carry a rounding error in proportion to the numbers that they average, so an exact tie comes out as a
    difference of some 1e-15 of them; 1e-13 is safely above that and far below anything real. Only the two classes of
    a duel and the query count: somebody else's large numbers do not blur it. The goal's own entry is 0.
    """
    scale = np.maximum(np.maximum(parameters.sizes, parameters.sizes[goal]), np.abs(features).max())
    ties = 1e-13 * scale
    ties[goal] = 0.0
    return ties
