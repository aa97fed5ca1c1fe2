"""The paper's claim, "collective recourse is more effective than individual recourse at a given ε", in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oar_paper.figure2.curves import BudgetCurves
from oar_paper.figure2.pairs import AllPairs

# Losses are searched to a relative gap of 1e-8; only differences well above that are called strict.
STRICT = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The comparison of individual and collective recourse when everyone takes part.

    Attributes:
        pairs: how many ordered pairs; cells: how many (pair, ε > 0).
        never_worse: whether the collective's loss is nowhere higher (by more than 1e-6).
        strict_pairs: in how many pairs it is strictly lower at every ε > 0; tied_cells: cells where it is not.
        smallest_gain, largest_gain: of individual − collective over all cells.
        paper_pair_largest_gain, paper_pair_smallest_gain: the same for the paper's own pair.
        earlier_flips: in how many pairs the collective's minimal budget is strictly smaller; in the others both tie.
        earlier_pairs: which those are, as (goal, source) labels.
    """

    pairs: int
    cells: int
    never_worse: bool
    strict_pairs: int
    tied_cells: int
    smallest_gain: float
    largest_gain: float
    paper_pair_smallest_gain: float
    paper_pair_largest_gain: float
    earlier_flips: int
    earlier_pairs: list[tuple[int, int]]


def compare(curves: BudgetCurves, pairs: AllPairs) -> Comparison:
    """Compare at every budget above zero."""
    positive = pairs.budgets > 0
    gains = (pairs.losses["individual"] - pairs.losses["collective"])[:, positive]
    own = (curves.curves["individual"].losses - curves.curves["collective"].losses)[curves.budgets > 0]
    earlier = pairs.collective_minimum < pairs.individual_minimum - STRICT
    return Comparison(
        pairs=len(pairs.pairs),
        cells=gains.size,
        never_worse=bool((gains >= -STRICT).all() and (own >= -STRICT).all()),
        strict_pairs=int(np.count_nonzero((gains > STRICT).all(axis=1))),
        tied_cells=int(np.count_nonzero(gains <= STRICT)),
        smallest_gain=float(gains.min()),
        largest_gain=float(gains.max()),
        paper_pair_smallest_gain=float(own.min()),
        paper_pair_largest_gain=float(own.max()),
        earlier_flips=int(np.count_nonzero(earlier)),
        earlier_pairs=[(pair.goal, pair.source) for pair, first in zip(pairs.pairs, earlier, strict=True) if first],
    )
