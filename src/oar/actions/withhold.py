"""A data strike: some members withhold their data, and the operator trains without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import check_participants, participation_mask
from oar.actions.quota import brief, check_most, check_one_of, check_share, quota
from oar.errors import with_near_names
from oar.people import Population
from oar.typing import Participants


@with_near_names
@dataclass(frozen=True, eq=False)
class Withhold:
    """Leaving: at most so many members take their data away (a training weight of 0).

    The last people of a class stay: a model of classes cannot be fitted to one that nobody is left in.

    Args:
        most: how many may leave; more than take part means all of them but the last of each class.
        share: or, at most this share of the participants may leave (rounded down).
        participants: who may leave: None (everyone), a boolean mask, a share, a group by columns (a dict), or a
            function of the Population.
        seed: with a share of participants: the seed of the draw (0 if left out).

    >>> Withhold(most=5)
    Withhold(most=5)
    """

    most: int | None = None
    share: float | None = None
    participants: Participants = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the people."""
        check_one_of("Withhold", most=self.most, share=self.share)
        if self.most is not None:
            object.__setattr__(self, "most", check_most(self.most))
        if self.share is not None:
            object.__setattr__(self, "share", check_share(self.share))
        check_participants(self.participants, self.seed, "Withhold")

    def limits(self, people: Population) -> WithholdLimits:
        """Say which of these people may leave, and how many."""
        mask = participation_mask(self.participants, self.seed, people)
        mask = np.ones(people.size, dtype=bool) if mask is None else mask
        return WithholdLimits(mask, quota(self.most, self.share, int(mask.sum())))

    def __repr__(self) -> str:
        """Show what was set."""
        shown = (f"{name}={brief(value)}" for name, value in vars(self).items() if value is not None)
        return f"Withhold({', '.join(shown)})"


@dataclass(frozen=True, eq=False)
class WithholdLimits:
    """A resolved strike: who may leave (n,), and how many of them."""

    mask: NDArray[np.bool_]
    most: int
