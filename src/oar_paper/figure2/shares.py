"""Partial participation: goal loss against the share of participants, at one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.questions import break_even, minimal_budget
from oar.recourse import collective, individual, joint
from oar_paper.case import Case, Pair
from oar_paper.figure2.curves import Curve, curve
from oar_paper.figure2.pairs import collective_losses, query_losses

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShareCurves:
    """Figure 2's second axis.

    Attributes:
        budget: ε; individual: the individual's audited loss at it, which needs no participants.
        shares: of all people, drawn at random; the draws are nested.
        curves: audited, for the collective and for joint moves.
        break_even: the share of every class from which on the collective beats the individual; None if it never does.
        pairs, pair_losses, pair_individual, pair_break_even: for every pair swept: the collective's exact losses
            (pairs, shares), the individual's best loss found (pairs,), and the break-even share, None if there is none.
    """

    budget: float
    shares: Array
    individual: float
    curves: dict[str, Curve]
    break_even: float | None
    pairs: list[Pair]
    pair_losses: Array
    pair_individual: Array
    pair_break_even: list[float | None]


def study_budget(case: Case) -> float:
    """Return the budget of everything that needs one: twice the collective's minimal budget for the paper's pair.

    At the minimal budget itself everyone would have to take part; at twice as much about half of them suffice.
    """
    return 2 * float(minimal_budget(case.problem(1.0)))


def share_curves(case: Case, pairs: list[Pair], shares: Sequence[float], seed: int) -> ShareCurves:
    """Solve and audit the paper's pair at every share, and sweep all pairs."""
    budget, grid = study_budget(case), np.asarray(shares)

    def problem_at(share: float):
        return case.problem(budget, share=share, seed=seed)

    return ShareCurves(
        budget=budget,
        shares=grid,
        individual=individual(case.problem(budget)).loss,
        curves={"collective": curve(collective, problem_at, grid), "joint": curve(joint, problem_at, grid)},
        break_even=break_even(case.problem(budget)).share,
        pairs=pairs,
        pair_losses=collective_losses(case, pairs, np.array([budget]), shares, seed)[:, :, 0],
        pair_individual=query_losses(case, pairs, np.array([budget]), members=False)[:, 0],
        pair_break_even=[break_even(case.problem(budget, pair)).share for pair in pairs],
    )
