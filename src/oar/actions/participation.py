"""Who takes part: everyone, a mask, a random share, or whatever a function of the population says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.people import Population
from oar.people.tables import check_index, is_series

Mask = NDArray[np.bool_]
Participants = None | float | NDArray[np.bool_] | Callable[[Population], Any]


def participation_mask(participants: Any, seed: int | None, people: Population) -> Mask | None:
    """Return who takes part as a boolean array, or None where everyone does."""
    if participants is None:
        return None
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
            "participants: must be None, a share between 0 and 1, a boolean mask, or a function of the population "
            f"that returns one; got {'a ' + type(participants).__name__} of type {mask.dtype}. "
            "For a list of positions, build a mask: mask = numpy.zeros(n, bool); mask[positions] = True."
        )
    if mask.shape != (people.size,):
        raise DataError(f"participants: must have one entry for each of the {people.size} people, got {mask.shape}.")
    return mask.copy()  # the caller may change its own


def is_share(participants: Any) -> bool:
    """Report whether this is a number (a share), not a mask or a function."""
    return isinstance(participants, int | float | np.integer | np.floating) and not isinstance(participants, bool)


def check_participants(participants: Any, seed: int | None) -> None:
    """Raise for a share outside [0, 1], and for a seed that would do nothing."""
    if is_share(participants):
        if not 0.0 <= participants <= 1.0:
            raise DataError(f"participants: a share must be between 0 and 1, got {participants}.")
        if seed is not None and (not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0):
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
