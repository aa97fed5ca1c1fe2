"""Several queries' losses as one, with how much each of them counts: ∂(one)/∂L_j.

    mean     (1/q) Σ L_j
    worst    τ log (1/q) Σ e^{L_j/τ}, below the largest by at most τ log q; τ is a share of the losses at first
    share    (1/q) Σ σ((L_j − ℓ_j)/τ_j), about the share that does not get its goal: who is far from the edge ℓ_j, on
             either side, counts little

Audits judge by the mean, by the largest, and by the share itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Aggregate = Callable[[Array], tuple[float, Array]]

KINDS = ("mean", "worst", "share")
SOFT = 0.05  # of the largest loss at first: τ of the worst case
WIDE = 0.5  # of a query's edge: τ of a share


def mean(losses: Array) -> tuple[float, Array]:
    """Return the mean."""
    return float(losses.mean()), np.full(losses.size, 1 / losses.size)


def worst(at_first: Array) -> Aggregate:
    """Return a smooth largest, for losses that are these (q,) before anybody moves."""
    width = SOFT * max(float(np.abs(at_first).max()), np.finfo(float).tiny)

    def largest(losses: Array) -> tuple[float, Array]:
        top = losses.max()
        kept = np.exp((losses - top) / width)
        return float(top + width * np.log(kept.mean())), kept / kept.sum()

    return largest


def failing(edges: Array) -> Aggregate:
    """Return a smooth share of the queries whose losses are above their edges (q,)."""
    from scipy.special import expit

    widths = WIDE * edges

    def share(losses: Array) -> tuple[float, Array]:
        high = expit((losses - edges) / widths)
        return float(high.mean()), high * (1 - high) / widths / losses.size

    return share
