"""Label changes: labellers give some people another label, or everyone a slightly different soft one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import SomeOf, check_most, check_share, members
from oar.checks import check_that, is_listing, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.people import Population
from oar.typing import Label, Participants

LARGEST_SOFT = 1e100  # past that, squares of targets overflow


@with_near_names
@dataclass(frozen=True, eq=False, repr=False)
class Relabel(SomeOf):
    """Changes of some members' labels. Give one of `most`, `share` and `soft` as the limit.

    Args:
        most: the largest number of labels that may be flipped.
        share: in its place, the largest share of the participants' labels that may be flipped (rounded down).
        soft: in place of both, how far every participant's soft label, a point of the simplex, may move in total
            variation (½‖y' − y‖₁, at most 1): the share of it that is given to other classes. Where values are
            regressed, how far its target may move (‖y' − y‖₂).
        to: the labels that may be given, a list; None means any class's. A soft label gains in these classes alone.
        participants: whose labels may change: None (everyone's), a boolean mask, a share, a group by columns
            (a dict), or a function of the Population.
        seed: with a share of participants: the seed of the draw (0 if left out).

    >>> Relabel(most=3, to=["yes"])
    Relabel(most=3, to=['yes'])
    """

    most: int | None = None
    share: float | None = None
    soft: float | None = None
    to: Sequence[Label] | None = None
    participants: Participants = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self._check(most=check_most, share=check_share, soft=_check_soft)
        if self.to is not None:
            some = is_listing(self.to) and len(list(self.to)) > 0
            check_that(some, "to", "a list of the labels that may be given", self.to, "use to=[label]")
            object.__setattr__(self, "to", list(self.to))

    def limits(self, people: Population, regresses: bool, name: str) -> RelabelLimits:
        """Return whose labels may change, how many and into what; raise where that does not suit model `name`."""
        if regresses and self.soft is None:
            raise OptionError(
                f"Relabel: flips labels between classes, and {name} predicts values, which have none; "
                "use Relabel(soft=...), by which every target may move so much."
            )
        if regresses and self.to:
            raise OptionError(f"to: is for classes, and {name} predicts values, got {self.to!r}; leave it out.")
        if not regresses and (self.soft or 0.0) > 1:
            why = "because a soft label cannot give away more than all of itself"
            raise DataError(f"soft: must be at most 1, {why}, got {self.soft}.")
        mask = members(self.participants, self.seed, people)
        size = people.value_rows().shape[1] if regresses else len(people.classes)
        given = [people.coding.position(label, "to") for label in self.to or ()] or range(size)
        return RelabelLimits(mask, self._quota(mask), self.soft, np.isin(np.arange(size), given))


@dataclass(frozen=True, eq=False)
class RelabelLimits:
    """A resolved relabelling."""

    mask: NDArray[np.bool_]  # (n,), whose labels may change
    most: int  # how many of them may be flipped; 0 for soft labels
    soft: float | None  # how far each soft label or target may move; None for flips
    allowed: NDArray[np.bool_]  # (k,), the classes that may be given
    given: bool = True  # whether anybody asked for it; where nobody did, nobody's label may change


NO_LABELS = RelabelLimits(np.zeros(1, dtype=bool), 0, None, np.zeros(1, dtype=bool), given=False)


def _check_soft(soft: Any) -> float:
    fits = is_number(soft) and 0.0 <= soft <= LARGEST_SOFT
    check_that(fits, "soft", "a finite number ≥ 0", soft, "it is how far each soft label may move")
    return float(soft)
