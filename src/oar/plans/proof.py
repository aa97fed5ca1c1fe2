"""Proofs about every plan that an audit would accept: by the referee, who re-computes them, and by nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Proof:
    """A bound on the goal loss of all that may be done, and whether the goal is out of reach.

    Attributes:
        bound: no moves within the limits have a lower goal loss. Rounding, ties and what an audit lets pass are on the
            safe side: they can only lower it.
        impossible: whether no moves within the limits reach the goal.
        by: what was computed to know that; "" where nothing is proved.
    """

    bound: float = -np.inf
    impossible: bool = False
    by: str = ""


class Hints(NamedTuple):
    """Hints of a solver that make a proof short; nothing in them is believed.

    Attributes:
        multipliers: (r,) for the inequalities that separate the query's own moves from the goal.
        slopes: (o, d + 1), the matrix of a linear model: how far to go to see the refit's own well.
        excluded: multipliers for each neighbourhood of k people, by who is in it.
    """

    multipliers: Array | None = None
    slopes: Array | None = None
    excluded: dict[tuple[int, ...], Array] | None = None
