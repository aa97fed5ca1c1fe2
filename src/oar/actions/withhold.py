"""A data strike: some members withhold their data, and the operator trains without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import SomeOf, check_most, check_share, members
from oar.checks import with_near_names
from oar.people import Population
from oar.typing import Participants


@with_near_names
@dataclass(frozen=True, eq=False, repr=False)
class Withhold(SomeOf):
    """A data strike: a limited number of members withhold their data (a training weight of 0).

    The last people of a class stay, because a classifier cannot be fitted to an empty class.

    Args:
        most: the largest number who may leave; if it exceeds the participants, all of them but the last of each class.
        share: in its place, the largest share of the participants who may leave (rounded down).
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
        self._check(most=check_most, share=check_share)

    def limits(self, people: Population) -> WithholdLimits:
        """Return which of these people may leave, and how many."""
        mask = members(self.participants, self.seed, people)
        return WithholdLimits(mask, self._quota(mask))


@dataclass(frozen=True, eq=False)
class WithholdLimits:
    """A resolved strike: who may leave (n,), and how many of them; nobody where it is not given."""

    mask: NDArray[np.bool_]
    most: int
    given: bool = True


NO_LEAVERS = WithholdLimits(np.zeros(1, dtype=bool), 0, given=False)
