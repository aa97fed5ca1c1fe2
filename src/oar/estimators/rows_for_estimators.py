"""How people are handed to somebody else's estimator: what it is trained on, and what it is asked about.

Nothing that is handed over is shared with us: rows are made anew every time, so that an estimator that changes its
inputs in place changes nothing of ours. Whoever has no weight has left, and is not handed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Population

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EstimatorData:
    """What an estimator is trained on: rows as it sees them, labels or values, and weights where people have any."""

    rows: Any
    labels: Any
    weights: Array | None


@dataclass(frozen=True, eq=False)
class RowConversion:
    """The way from features (n, d), as planning has them, to what an estimator is given.

    Attributes:
        people: whose columns and classes these are.
        table: of people with a schema: whether the estimator sees the table as it came, columns, levels and dtypes
            included; otherwise it sees coordinates, an array of numbers. Of a frame of numbers it sees a frame, and of
            an array an array.
        codes: whether it is given classes as 0, 1, …, rather than labels as they came.
        regresses: whether labels are values.
    """

    people: Population
    table: bool = True
    codes: bool = False
    regresses: bool = False

    def rows(self, features: Array) -> Any:
        """Return people (m, d) as the estimator is to see them."""
        encoding, names = self.people.encoding, self.people.names
        if encoding is not None:
            return encoding.decode(features) if self.table else np.array(features, dtype=np.float64)
        if names is None:
            return np.array(features, dtype=np.float64)
        import pandas

        return pandas.DataFrame(np.array(features, dtype=np.float64), columns=list(names))

    def handed(self, people: Population, features: Array) -> EstimatorData:
        """Return what is trained on: `people` with their labels and weights, at `features` (n, d)."""
        present, labels, left = self.told(people)
        return EstimatorData(self.rows(features[present]), labels, left)

    def told(self, people: Population) -> tuple[Any, NDArray[Any], Array | None]:
        """Return who is there (a mask or slice), and their labels and weights as the estimator is given them."""
        weights = people.weights
        present = slice(None) if weights is None or (weights > 0).all() else weights > 0
        left = None if weights is None else np.array(weights[present], dtype=np.float64)
        # Who had no weights before somebody left has none afterwards: an estimator need not know what weights are.
        if left is not None and people.first_weights is not weights and (left == 1.0).all():
            left = None
        return present, self._labels(people)[present], left

    def _labels(self, people: Population) -> NDArray[Any]:
        if self.regresses:
            values = people.value_rows()
            return values[:, 0].copy() if values.shape[1] == 1 else values.copy()
        one_label_each(people)
        codes = people.codes(0, people.size)
        if self.codes:
            return np.array(codes, dtype=np.int64)
        if people.has_label_rows:
            return np.array([people.classes[code] for code in codes])
        return np.array(people.labels)

    def class_places(self, classes: Any) -> NDArray[np.intp]:
        """Return where each class (k,) of an estimator's own list is among the people's."""
        ours = list(range(len(self.people.classes))) if self.codes else list(self.people.classes)
        try:
            return np.array([ours.index(label) for label in classes], dtype=np.intp)
        except ValueError:
            raise DataError(
                f"estimator: must predict the people's classes {ours[:6]}, got {list(classes)[:6]}; does it change "
                "labels by itself?"
            ) from None


def one_label_each(people: Population) -> None:
    """Raise where somebody has a label between classes."""
    if people.has_label_rows and not np.isin(people.class_rows(), (0.0, 1.0)).all():
        raise DataError(
            "labels: an estimator is trained on one label a person, got soft ones; use a model of oar.models, "
            "or Relabel(most=…) rather than soft labels."
        )
