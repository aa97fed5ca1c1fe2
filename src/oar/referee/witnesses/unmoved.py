"""Refits of unmoved people, kept for as long as many plans for the same people and model are audited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable
from oar.people import Population
from oar.referee.witnesses.refits import WitnessRefit, refit

# What is kept, by model and people, which are kept with it: the number of an object that is gone is used again.
Kept = dict[tuple[int, int], tuple[Differentiable, Population, WitnessRefit]]
MOST = 32  # models whose refits are kept; of some, they hold people's features
_KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_unmoved_refits(kept: Any) -> Iterator[None]:
    """Keep refits of unmoved people in this dict while the block runs, and use those that are there.

    They are the same refits, to the last bit: neither plans nor queries have a part in them.
    """
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def unmoved_refit(model: Differentiable, people: Population, features: NDArray[np.float64]) -> WitnessRefit:
    """Refit to people as they are, from scratch, or as it was kept."""
    kept = _KEPT.get()
    if kept is None:
        return refit(model, people, features)
    place = id(model), id(people)
    if place in kept:
        return kept[place][2]
    found = refit(model, people, features)
    for oldest in list(kept)[: max(0, len(kept) - MOST + 1)]:
        kept.pop(oldest, None)  # another thread may have been quicker
    kept[place] = model, people, found
    return found
