"""How much each person's data count in the centroids of a round.

A rule that takes nearest centroid from μ_c to κ_c μ_c + (1 − κ_c) mean_c makes every centroid an average of people,

    μ_c^t = Σ_{i∈c} ω_{t,i} x_i + (what was given at first):     ω_i ← κ_c ω_i + [i is read] (1 − κ_c) w_i / W_c.

So a move δ_i shifts its class's centroid in round t by exactly ω_{t,i} δ_i, and plans over time are solved exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.models import NearestCentroid
from oar.online.problem import OnlineProblem
from oar.online.refits import Array
from oar.online.stream import HISTORY

Rows = NDArray[np.intp]


def centroid_weights(problem: OnlineProblem, number: int | None = None) -> Array:
    """Return ω_{t,i} (n,) for the centroids after round t = `number`; None means the last.

    History's entries are those of people who do not move.
    """
    kept_share = getattr(problem.rule, "kept_share", None)
    if not isinstance(problem.model, NearestCentroid) or kept_share is None:
        raise OptionError(
            f"rule: {problem.rule.name} with {problem.model.name} does not make averages of people; exact weights are "
            "for nearest centroid, and for rules that say what share of a centroid they keep (kept_share)."
        )
    last = problem.rounds - 1 if number is None else number
    if not 0 <= last < problem.rounds:
        raise OptionError(f"number: must be a round, from 0 to {problem.rounds - 1}, got {number!r}.")
    stream, started = problem.stream, problem.started
    people = stream.people
    codes = people.codes(0, people.size)
    given = np.ones(people.size) if people.weights is None else people.weights
    weights = np.zeros(people.size)
    if started and problem.start is None:
        _add(weights, stream.rows(HISTORY), codes, given, np.zeros(len(people.classes)))
    for now in range(last + 1):
        rows = stream.read_by(problem.rule.reads, now)
        totals = np.bincount(codes[rows], weights=given[rows], minlength=len(people.classes))
        kept = np.asarray(kept_share(totals / totals.sum(), started or now > 0))
        weights *= kept[codes]
        _add(weights, rows, codes, given, kept)
    return weights


def _add(weights: Array, rows: Rows, codes: NDArray[np.int32], given: Array, kept: Array) -> None:
    """Add (1 − κ_c) w_i / W_c of these rows."""
    totals = np.bincount(codes[rows], weights=given[rows], minlength=kept.size)
    shares = np.divide(1 - kept, totals, out=np.zeros_like(kept), where=totals > 0)
    weights[rows] += shares[codes[rows]] * given[rows]
