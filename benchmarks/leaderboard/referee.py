"""The referee: what moves are worth, by scikit-learn's own fit to tight tolerance, and whether they are allowed.

It shares no code with any contender. scikit-learn minimises C Σ ℓ_i + ½‖W‖², which is the operator's risk over l2 for
C = 1/(N·l2). With two classes it fits one vector w in place of two rows ±w/2, whose penalty would be half as large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.leaderboard.problems import Stated

TIGHT = 1e-10
ROUNDING = 1e-9  # of the budget: what floating point may add to a move


@dataclass(frozen=True)
class Verdict:
    """What moves are worth.

    Attributes:
        loss: −log of the goal's probability after the refit; NaN where moves mean nothing.
        reached: whether the goal is what is predicted.
        longest: the longest move, in budgets.
        kept: whether all moves are numbers and within the budget.
    """

    loss: float
    reached: bool
    longest: float
    kept: bool


class Referee:
    """Judges moves of one problem; a fit starts from the last one, which changes its time and not its end."""

    def __init__(self, stated: Stated) -> None:
        from sklearn.linear_model import LogisticRegression

        self.stated = stated
        strength = 1.0 / (len(stated.features) * stated.l2)
        self._estimator = LogisticRegression(
            C=strength, solver="newton-cholesky", tol=TIGHT, max_iter=1_000, warm_start=True
        )

    def judge(self, moves: NDArray[np.float64] | None) -> Verdict:
        """Refit on the moved data; None means that nobody moves."""
        stated = self.stated
        if moves is None:
            moves = np.zeros_like(stated.features)
        if moves.shape != stated.features.shape or not np.isfinite(moves).all():
            return Verdict(np.nan, False, np.nan, False)
        longest = float(np.sqrt(np.einsum("nd,nd->n", moves, moves, dtype=np.float64).max())) / stated.budget
        with threadpool_limits(1, "blas"):  # two threads on a busy machine may take thirty times as long as one
            fitted = self._estimator.fit(stated.features + moves, stated.labels)
        logs = fitted.predict_log_proba(stated.query[None])[0]
        return Verdict(-float(logs[stated.goal]), bool(logs.argmax() == stated.goal), longest, longest <= 1 + ROUNDING)
