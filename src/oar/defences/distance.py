"""A filter that leaves out people far from the centre of their class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oar.checks import check_number, with_near_names
from oar.defences.base import Defence, Prepared
from oar.errors import OptionError
from oar.people import Population


@with_near_names
@dataclass(frozen=True)
class DistanceFilter(Defence):
    """A distance filter: leaves out the people farthest from the weighted mean of their class.

    Distances are in the features' own units. A class is never emptied: of m people ⌊share · m⌋ are left out, which is
    fewer than all, and the person nearest to the class's centre stays, however small the radius. For models that
    predict values all people form one class. People of weight 0 are neither counted nor left out.

    Args:
        share: the share of each class that is left out, above 0 and below 1.
        radius: instead of a share, the distance beyond which people are left out.
    """

    share: float | None = None
    radius: float | None = None
    name: ClassVar[str] = "distance filter"

    def __post_init__(self) -> None:
        if (self.share is None) == (self.radius is None):
            raise OptionError(
                f"share, radius: must be one of the two, got share={self.share!r} and radius={self.radius!r}."
            )
        if self.share is not None:
            check_number("share", self.share, above=0, below=1)
        else:
            check_number("radius", self.radius, above=0)

    def prepared(self, people: Population, model: Any, parameters: Any, rng: np.random.Generator) -> Prepared:
        """Leave out the farthest of each class."""
        kept = np.ones(people.size, dtype=bool)
        features, weights = np.asarray(people.features, dtype=np.float64), people.row_weights
        codes = np.zeros(people.size) if getattr(model, "regresses", False) else people.codes(0, people.size)
        for code in np.unique(codes):
            rows = np.flatnonzero((codes == code) & (weights > 0))
            if not rows.size:
                continue
            centre = np.average(features[rows], axis=0, weights=weights[rows])
            distances = np.linalg.norm(features[rows] - centre, axis=1)
            order = distances.argsort(kind="stable")
            if self.share is not None:
                kept[rows[order[rows.size - int(self.share * rows.size) :]]] = False
            else:
                kept[rows[order[1:]]] = distances[order[1:]] <= self.radius
        return Prepared(people if kept.all() else people.some(np.flatnonzero(kept)), kept)
