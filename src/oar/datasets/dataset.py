"""A data set as this package hands it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels, with the names and the origin that belong to them.

    Every loader returns fresh arrays, so changing them changes nobody else's.

    Attributes:
        name: what it is called.
        features: (n, d) float64, one row a person.
        labels: (n,) int64; label c is called `class_names[c]`.
        feature_names: d names.
        class_names: one name a class.
        source: citation and licence, in one line.
    """

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    source: str

    def __repr__(self) -> str:
        """Show sizes rather than numbers."""
        people, dimensions = self.features.shape
        return f"Dataset({self.name!r}, {people:,} × {dimensions}, {len(self.class_names)} classes)"
