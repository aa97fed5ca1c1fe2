"""A plan as a table again: everyone as they are after it, and what changed, in the caller's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError
from oar.people.encoding import Encoding

if TYPE_CHECKING:
    from oar.plans.plan import Plan


def moved_table(plan: Plan) -> Any:
    """Return a DataFrame with everyone's values after the plan: index, columns, levels and dtypes are the caller's."""
    encoding, people = _encoding(plan), plan.problem.people
    return encoding.decode(_after(plan), people.index)


def changed_cells(plan: Plan) -> Any:
    """Return a DataFrame with one row for each value that changes: who, which column, before, after."""
    import pandas

    encoding, people = _encoding(plan), plan.problem.people
    before, after = encoding.decode(_before(plan), people.index), encoding.decode(_after(plan), people.index)
    parts = []
    for name in encoding.schema.names:
        place = encoding.places[name]
        rows = np.flatnonzero((_before(plan)[:, place] != _after(plan)[:, place]).any(axis=1))
        old, new = before[name].iloc[rows], after[name].iloc[rows]
        parts.append(
            pandas.DataFrame(
                {"person": old.index, "column": name, "before": old.to_numpy(object), "after": new.to_numpy(object)},
                index=rows,
            )
        )
    return pandas.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _encoding(plan: Plan) -> Encoding:
    encoding = plan.problem.people.encoding
    if encoding is None:
        raise DataError(
            "plan: its people have no schema, so there is no table to give back; use plan.moves(), or make people with "
            "oar.Population.from_frame(df, target=…)."
        )
    return encoding


def _before(plan: Plan) -> Any:
    return np.asarray(plan.problem.people.features, dtype=np.float64)


def _after(plan: Plan) -> Any:
    return _before(plan) + np.asarray(plan.moves(), dtype=np.float64)
