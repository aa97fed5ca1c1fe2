"""Fewer refits: the operator responds late, or at random times.

No data are lost: in a world, everything that has arrived since the last update is one batch at the next update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oar.checks import check_number, check_whole, with_near_names
from oar.defences.base import Defence


@with_near_names
@dataclass(frozen=True)
class Delayed(Defence):
    """A refit only once every `every` rounds: in the last of them.

    Args:
        every: the number of rounds from one refit to the next; at least 2.

    >>> [Delayed(3).retrains(number, np.random.default_rng(0)) for number in range(6)]
    [False, False, True, False, False, True]
    """

    every: int
    name: ClassVar[str] = "delayed retraining"

    def __post_init__(self) -> None:
        """Refuse what would change nothing."""
        check_whole("every", self.every, 2)

    def retrains(self, number: int, rng: np.random.Generator) -> bool:
        """Return whether this is the last of `every` rounds."""
        return (number + 1) % self.every == 0


@with_near_names
@dataclass(frozen=True)
class RandomRetraining(Defence):
    """A refit in a round with some probability, drawn anew in every round.

    Args:
        probability: above 0 and below 1.
    """

    probability: float
    name: ClassVar[str] = "random retraining"

    def __post_init__(self) -> None:
        check_number("probability", self.probability, above=0, below=1)

    def retrains(self, number: int, rng: np.random.Generator) -> bool:
        """Draw whether there is a refit."""
        return bool(rng.random() < self.probability)
