"""Class weights, how much people of each class count: `class_weight`, as scikit-learn reads it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import DataError
from oar.estimators.cores.protocol import Array
from oar.people import Population

BALANCED = "balanced"


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """The `class_weight` that an estimator was given, not yet bound to people.

    Attributes:
        given: a dict from labels to weights, or "balanced".
        by_number: whether "balanced" counts people rather than their weights.
    """

    given: Any
    by_number: bool = False

    @classmethod
    def of(cls, estimator: Any) -> ClassWeights | None:
        """Return those of an estimator; None where all classes count alike."""
        given = estimator.class_weight
        if not given:
            return None
        return cls(given, by_number=type(estimator).__name__ == "RidgeClassifier" or not _weighs_people())

    def fixed(self, people: Population) -> Array | None:
        """Return a dict's weights (k,) in the order of the people's classes; None where they follow from who is there.

        scikit-learn itself reads the dict: which keys go with which labels is its own affair.
        """
        if self.given == BALANCED:
            return None
        from sklearn.utils.class_weight import compute_class_weight

        labels = np.array(people.classes)
        classes = np.unique(labels)
        try:
            found = compute_class_weight(self.given, classes=classes, y=classes)
        except ValueError as reason:
            raise DataError(f"class_weight: must be of the people's classes {people.classes}: {reason}") from None
        return np.asarray(found, dtype=np.float64)[np.searchsorted(classes, labels)]

    def balanced(self, shares: Array, weights: Array) -> Array:
        """Return Σw / (k W_c) (k,) for class shares (n, k) and weights (n,) of those who are there."""
        counts = (np.sign(weights) if self.by_number else weights) @ shares
        return counts.sum() / (counts.size * counts)


def _weighs_people() -> bool:
    """Report whether this scikit-learn balances classes by people's weights: older ones count people."""
    from sklearn.utils.class_weight import compute_class_weight

    return "sample_weight" in inspect.signature(compute_class_weight).parameters
