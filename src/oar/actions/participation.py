"""Who takes part: everyone, a mask, a random share, a group by columns, what a function says, or the most useful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.groups import check_group, group_mask
from oar.actions.quota import brief
from oar.checks import is_whole
from oar.errors import DataError, OptionError, with_near_names
from oar.people import Population
from oar.people.tables.arrays import check_index, is_series
from oar.typing import Participants

Mask = NDArray[np.bool_]


@with_near_names
@dataclass(frozen=True, eq=False)
class Best:
    """The most useful members, as participants of `oar.Perturb`: whoever plans the moves chooses them.

    For nearest centroid on plain features the choice is proved to be the best; elsewhere it is the best that was found
    by ranking members by what they would gain, and refitting.

    Args:
        number: how many of them.
        among: whom to choose from, as any other `participants`; None means everyone.

    >>> Best(3, among={"town": "Zürich"})
    Best(3, among={'town': 'Zürich'})
    """

    number: int
    among: Participants = None

    def __post_init__(self) -> None:
        """Check what can be checked without the people."""
        if not is_whole(self.number) or self.number < 1:
            raise DataError(
                f"Best: must be a whole number of members ≥ 1, got {self.number!r}; for a share of them use "
                "participants=share."
            )
        if isinstance(self.among, Best):
            raise OptionError("among: must be another kind of participants, got another Best; keep the smaller one.")

    def check(self, eligible: int) -> None:
        """Raise where there are too few to choose from."""
        if self.number > eligible:
            raise DataError(
                f"Best: must be at most the number of members who may take part and whose data count, {eligible}, got "
                f"{self.number}; ask for fewer, or choose among more."
            )

    def __repr__(self) -> str:
        """Show how many, and of whom."""
        if self.among is None:
            return f"Best({self.number})"
        return f"Best({self.number}, among={brief(self.among)})"


def participation_mask(participants: Any, seed: int | None, people: Population) -> Mask | None:
    """Return who takes part as a boolean array, or None where everyone does; of Best, whom it chooses from."""
    if isinstance(participants, Best):
        participants = participants.among
    if participants is None:
        return None
    if isinstance(participants, Mapping):
        return _group(participants, people)
    if is_share(participants):
        return random_members(people.size, float(participants), 0 if seed is None else seed)
    if callable(participants):
        participants = participants(people)
        if participants is None:
            raise DataError("participants: the function must return a boolean mask, got None.")
    if is_series(participants):
        check_index(participants, people.index, "participants")
        participants = participants.to_numpy()
    mask = np.asarray(participants)
    if mask.dtype != bool:
        raise DataError(
            "participants: must be None, a share between 0 and 1, a boolean mask, a group by columns such as "
            '{"column": value}, or a function of the population that returns a mask; got '
            f"{'a ' + type(participants).__name__} of type {mask.dtype}. "
            "For a list of positions, build a mask: mask = numpy.zeros(n, bool); mask[positions] = True."
        )
    if mask.shape != (people.size,):
        raise DataError(f"participants: must have one entry for each of the {people.size} people, got {mask.shape}.")
    return mask.copy()  # the caller may change its own


def _group(columns: Mapping[str, Any], people: Population) -> Mask:
    if people.streamed:
        raise OptionError(
            "participants: a group by columns needs everybody in memory, got people in parts; give a mask or a share, "
            "or use people.loaded() if they fit."
        )
    return group_mask(columns, people)


def is_share(participants: Any) -> bool:
    """Report whether this is a number (a share), not a mask or a function."""
    return isinstance(participants, int | float | np.integer | np.floating) and not isinstance(participants, bool)


def check_participants(participants: Any, seed: int | None, action: str = "Perturb") -> None:
    """Raise for a share outside [0, 1], a group of nothing, and for a seed that would do nothing."""
    if isinstance(participants, Best):
        if action != "Perturb":
            raise OptionError(
                f"participants: oar.Best chooses who moves, so it is for oar.Perturb alone, got it for oar.{action}; "
                "its own limit (most=... or share=...) already picks the most useful ones."
            )
        participants = participants.among
    if isinstance(participants, Mapping):
        check_group(participants)
    if is_share(participants):
        if not 0.0 <= participants <= 1.0:
            raise DataError(f"participants: a share must be between 0 and 1, got {participants}.")
        if seed is not None and (not is_whole(seed) or seed < 0):
            raise DataError(f"seed: must be a whole number ≥ 0, got {seed!r}.")
    elif seed is not None:
        raise OptionError("seed: is only used to draw a random share of participants; leave it out.")


def random_order(size: int, seed: int) -> NDArray[np.intp]:
    """Return a random order of the people; the first m of it are the m drawn for any share."""
    return np.random.default_rng(seed).permutation(size)


def members_in_share(size: int, share: float) -> int:
    """Return how many people a share is, rounded to the nearest."""
    return round(share * size)


def random_members(size: int, share: float, seed: int) -> Mask:
    """Draw a share of the people. Shares of one seed are nested: a larger one contains a smaller one."""
    mask = np.zeros(size, dtype=bool)
    mask[random_order(size, seed)[: members_in_share(size, share)]] = True
    return mask
