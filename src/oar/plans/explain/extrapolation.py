"""Plans that leave the range of the data: where nobody is, a model's word is worth little, and so is advice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.people.wording import counted, shown
from oar.plans.moves.table_out import columns_of
from oar.plans.plan import Plan

MUCH = 0.25  # of a column's range, past its least or largest value
MOST_NAMED = 3
Array = NDArray[np.float64]


def beyond_range(plan: Plan) -> tuple[str, ...]:
    """Return one warning if moves leave the range of the data by much, or below 0 where nobody is; nothing otherwise.

    Columns are plain features, numbers and whole numbers: levels and flags cannot leave their values. Of people in
    parts nothing is said.
    """
    people = plan.problem.people
    if people.streamed:
        return ()
    before, moves = np.asarray(people.features, dtype=np.float64), np.asarray(plan.moves(), dtype=np.float64)
    columns, found = columns_of(people), []
    for name in (column.name for column in columns.schema if column.kind in ("number", "integer")):
        place = columns.places[name].start
        moved = moves[:, place] != 0
        if moved.any():
            least, most = float(before[:, place].min()), float(before[:, place].max())
            after = before[moved, place] + moves[moved, place]
            said = _said(after, least, most)
            if said:
                found.append(f"{shown(name)} goes to {said} (observed: {least:g} to {most:g})")
    if not found:
        return ()
    more = f", and so do {counted(len(found) - MOST_NAMED, 'other', 'others')}" if len(found) > MOST_NAMED else ""
    return (
        f"Moves leave the range of the data by much: {', '.join(found[:MOST_NAMED])}{more}; limits keep them within it "
        "(oar.Limits.observed).",
    )


def _said(after: Array, least: float, most: float) -> str:
    """Return the value that is farthest out, if any is by much."""
    room = MUCH * (most - least)
    low, high = float(after.min()), float(after.max())
    negative = least >= 0 and low < 0 and low < -1e-9 * most
    if not negative and low >= least - room and high <= most + room:
        return ""
    return f"{low:g}" if negative or least - low > high - most else f"{high:g}"
