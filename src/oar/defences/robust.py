"""Robust averages in place of class means, on which a few people have little effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oar.checks import with_near_names
from oar.defences.base import Defence
from oar.errors import OptionError
from oar.models.centroid.robust_centroids import ClassMean, MedianOfBlocks, RobustCentroids, TrimmedMean


@with_near_names
@dataclass(frozen=True)
class TrimmedCentroids(Defence):
    """Nearest centroid with trimmed class means: of each class and coordinate, both ends are left out.

    With m people in a class, ⌊share · m⌋ are left out at either end (as by `scipy.stats.trim_mean`), never all.

    Args:
        share: above 0 and below 0.5.
    """

    share: float
    name: ClassVar[str] = "trimmed centroids"

    def __post_init__(self) -> None:
        TrimmedMean(self.share)

    def model_for(self, model: Any) -> RobustCentroids:
        """Return nearest centroid with these averages."""
        return _robust(self, model, TrimmedMean(self.share))


@with_near_names
@dataclass(frozen=True)
class MedianOfMeans(Defence):
    """Nearest centroid with the coordinate-wise median of the means of random blocks of each class.

    Args:
        blocks: the number of blocks of a class; a class of fewer people has one person in each block.
        seed: the seed of the random assignment to blocks.
    """

    blocks: int
    seed: int = 0
    name: ClassVar[str] = "median of means"

    def __post_init__(self) -> None:
        MedianOfBlocks(self.blocks, self.seed)

    def model_for(self, model: Any) -> RobustCentroids:
        """Return nearest centroid with these averages."""
        return _robust(self, model, MedianOfBlocks(self.blocks, self.seed))


def _robust(defence: Defence, model: Any, mean: ClassMean) -> RobustCentroids:
    if not model.plain_means:
        raise OptionError(
            f"defence: {defence.name} are for oar.NearestCentroid(), got {getattr(model, 'name', model)}; for other "
            "models use StrongerPenalty, ClippedInfluence or DistanceFilter."
        )
    return RobustCentroids(mean)
