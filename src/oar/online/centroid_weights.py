"""The weight of each person's data in the centroids of a round.

A rule that takes nearest centroid from μ_c to κ_c μ_c + (1 − κ_c) mean_c makes every centroid an average of people,

    μ_c^t = Σ_{i∈c} ω_{t,i} x_i + (what was given at first):     ω_i ← κ_c ω_i + [i is read] (1 − κ_c) w_i / W_c.

So a move δ_i shifts its class's centroid in round t by exactly ω_{t,i} δ_i, and plans over time are solved exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_whole, with_near_names
from oar.errors import DataError, OptionError
from oar.online.problem import OnlineProblem
from oar.online.rules.refits import Array, class_totals, read_in
from oar.online.stream import HISTORY


@with_near_names
def centroid_weights(problem: OnlineProblem, number: int | None = None) -> Array:
    """Return ω_{t,i} (n,) for the centroids after round t = `number`; None means the last.

    History's entries are those of people who do not move.
    """
    kept_share = getattr(problem.rule, "kept_share", None)
    if not problem.model.plain_means or kept_share is None:
        raise OptionError(
            f"rule: {problem.rule.name} with {problem.model.name} does not make averages of people; exact weights are "
            "for nearest centroid, and for rules that say what share of a centroid they keep (kept_share)."
        )
    last = problem.rounds - 1 if number is None else number
    if not (is_whole(last) and 0 <= last < problem.rounds):
        raise DataError(f"number: must be a round, from 0 to {problem.rounds - 1}, got {number!r}.")
    stream, reads, started = problem.stream, problem.rule.reads, problem.started
    people, batches = stream.people, class_totals(stream)
    totals = [read_in(batches, reads, now) for now in range(last + 1)]
    kept = [np.asarray(kept_share(read / read.sum(), started or now > 0)) for now, read in enumerate(totals)]
    codes = people.codes(0, people.size)
    given = people.row_weights
    weights = np.zeros(people.size)

    def add(rows: NDArray[np.intp], shares: Array, total: Array) -> None:
        weights[rows] += (shares / np.where(total > 0, total, 1.0))[codes[rows]] * given[rows]

    if started and problem.start is None:
        add(stream.rows(HISTORY), np.ones_like(batches[0]), batches[0])
    # where nothing is kept, nothing before counts
    first = max((now for now in range(last + 1) if not kept[now].any()), default=0)
    for now in range(first, last + 1):
        weights *= kept[now][codes]
        add(stream.read_by(reads, now), 1 - kept[now], totals[now])
    return weights
