"""A plan as a table again: everyone as they are after it, and what changed, in the caller's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import FREE
from oar.errors import DataError
from oar.people.tables.arrays import index_of_row
from oar.people.tables.encoding import Encoding
from oar.people.tables.schema import Column, Schema

if TYPE_CHECKING:
    from oar.people import Population
    from oar.plans.plan import Plan

Array = NDArray[np.float64]
QUERY = "query"  # who it is in a table of changes
LABEL = "label"  # the column of labels, where the target has no name
LEAVER = "all data", "given", "withheld"  # column, before and after of somebody who leaves


def columns_of(people: Population) -> Encoding:
    """Return the columns of a table of changes: the people's own, or of plain features a number each."""
    if people.encoding is not None:
        return people.encoding
    names = people.names or (f"feature {number}" for number in range(people.dimensions))
    return Encoding(Schema(tuple(Column(str(name), "number") for name in names)), (np.float64,) * people.dimensions)


def target_of(people: Population) -> str:
    """Return what the labels' column is called in a table of changes: a name that no feature has."""
    name = people.target or LABEL
    while name in columns_of(people).schema.names:
        name += "_"
    return name


def moved_table(plan: Plan) -> Any:
    """Return a DataFrame with everyone's values after the plan: index, columns, levels and dtypes are the caller's."""
    return encoding_of(plan).decode(_after(plan), plan.problem.people.index)


def query_after(plan: Plan) -> Any:
    """Return a DataFrame of one row: the query after its own move, with the index that it came with."""
    point = plan.problem.query_features + plan.query_move
    return encoding_of(plan).decode_row(point, index_of_row(plan.problem.query.features)).frame


def changed_cells(plan: Plan, columns: Encoding) -> Any:
    """Return a DataFrame with one row for each value that changes: who, which of the columns, before, after.

    Members come in their order, each with its values, its label and whether it leaves; the query comes last.
    """
    import pandas

    before, names = np.asarray(plan.problem.people.features, dtype=np.float64), plan.problem.people.row_names
    parts = _moved_cells(columns, before, _after(plan), names) + plan.lever_cells()
    query = plan.problem.first_query[None]  # where several ask nobody of them moves
    own = _moved_cells(columns, query, query + plan.query_move, pandas.Index([QUERY]))
    return pandas.concat([pandas.concat(parts).sort_index(kind="stable"), *own], ignore_index=True)


def lever_cells(plan: Plan, targets: Array, away: NDArray[np.bool_]) -> list[Any]:
    """Return the labels (n, k) that change and who leaves (n,), each with the positions of its people as index."""
    names, rows = plan.problem.people.row_names, np.flatnonzero(away)
    left = _cells(names, rows, LEAVER[0], [LEAVER[1]] * rows.size, [LEAVER[2]] * rows.size)
    return [_changed_labels(plan, targets, names), left]


def _moved_cells(encoding: Encoding, before: Array, after: Array, names: Any) -> list[Any]:
    """Return the features that differ, column by column, each with the positions of its people as index."""
    old, new = encoding.decode(before), encoding.decode(after)
    parts = []
    for name in encoding.schema.names:
        place = encoding.places[name]
        rows = np.flatnonzero((before[:, place] != after[:, place]).any(axis=1))
        told = (_told(encoding.schema[name], table[name].iloc[rows]) for table in (old, new))
        parts.append(_cells(names, rows, name, *told))
    return parts


def _told(column: Column, values: Any) -> Any:
    """Return a column's values one by one; whole numbers as such, also where gaps have made floats of them."""
    import pandas

    whole = column.whole and not column.levels and pandas.api.types.is_float_dtype(values.dtype)
    return values.to_numpy(np.float64).astype(np.int64).astype(object) if whole else values.to_numpy(object)


def _changed_labels(plan: Plan, targets: Array, names: Any) -> Any:
    """Return the labels that differ; a soft label is a dict of classes and their shares."""
    people, values = plan.problem.people, plan.problem.regresses
    before = people.target_rows(values)
    rows = np.flatnonzero((before != targets).any(axis=1))

    def label(row: Array) -> Any:
        if values:
            return float(row[0])
        shares = {each: float(share) for each, share in zip(people.classes, row, strict=True) if share}
        return next(iter(shares)) if len(shares) == 1 else shares

    return _cells(names, rows, target_of(people), *([label(row) for row in each[rows]] for each in (before, targets)))


def _cells(names: Any, rows: NDArray[np.intp], column: Any, before: Any, after: Any) -> Any:
    import pandas

    cells = {"person": names[rows], "column": column, "before": before, "after": after}
    series = {name: pandas.Series(cell, index=rows, dtype=object) for name, cell in cells.items()}
    return pandas.DataFrame(series, index=rows)


def encoding_of(plan: Plan) -> Encoding:
    """Return the columns of a table's people; raise where they have no schema."""
    encoding = plan.problem.people.encoding
    if encoding is None:
        instead = "plan.write_moves(folder)" if plan.problem.people.streamed else "plan.moves()"
        raise DataError(
            f"plan: its people have no schema, so there is no table to give back; use {instead}, or make people with "
            "oar.Population.from_frame(df, target=…)."
        )
    return encoding


def _after(plan: Plan) -> Array:
    """Return everyone's features after the plan: a few digits and steps of a few digits make a few digits."""
    before = np.asarray(plan.problem.people.features, dtype=np.float64)
    after = before + np.asarray(plan.moves(), dtype=np.float64)
    places = plan.problem.people.encoding.places if plan.problem.people.encoding else {}
    limits = plan.problem.limits.columns if plan.problem.limits else {}
    for place in (places[name].start for name in places if limits.get(name, FREE).step):
        old, new = before[:, place], after[:, place]
        some = np.flatnonzero(old != new)
        some = some[_few_digits(old[some]) == old[some]]
        new[some] = _few_digits(new[some])
    return after


def _few_digits(values: Array) -> Array:
    """Return numbers to the digits that sums do not blur: 745.04 for 745.0399999999998."""
    return np.array([float(f"{value:.12g}") for value in values])
