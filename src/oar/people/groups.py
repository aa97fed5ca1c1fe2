"""People by group: by the values of a column, of several, or as given."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from oar.checks import choose
from oar.errors import DataError
from oar.people.population import Population
from oar.people.tables.arrays import check_index, is_series

MOST_VALUES = 10  # different numbers in a column up to which each is a group of its own
MISSING = "missing"
PARTS = 4  # groups of about equal size into which other columns of numbers are cut


def grouped(people: Population, groups: Any) -> Any:
    """Return everyone's group as a Series: of a column by its name, of several, or as given.

    Columns are as they were before any move. One of numbers with more than ten different values is cut into quarters of
    the people. Missing values are a group of their own.
    """
    import pandas

    if isinstance(groups, str):
        return _column(people, groups)
    if isinstance(groups, list | tuple) and groups and all(isinstance(name, str) for name in groups):
        known = _known(people)
        if all(name in known for name in groups) or len(groups) != people.size:
            parts = [_column(people, name).astype(str) for name in groups]
            return pandas.Series(map(", ".join, zip(*parts, strict=True)), name=", ".join(groups), dtype=object)
    if is_series(groups):
        check_index(groups, people.index, "groups")
        groups = pandas.Series(groups.to_numpy(), name=groups.name)
    if np.ndim(groups) != 1 or len(groups) != people.size:
        got = f"{np.shape(groups)}" if np.ndim(groups) else repr(groups)
        raise DataError(
            f"groups: must be a column's name, several names, or one value for each of the {people.size} people, got "
            f"{got}."
        )
    return _cut(pandas.Series(groups).reset_index(drop=True))


def _known(people: Population) -> tuple[str, ...]:
    columns = tuple(people.names or ()) if people.encoding is None else people.encoding.schema.names
    return columns if people.target is None else (*columns, people.target)


def _column(people: Population, name: str) -> Any:
    import pandas

    known = _known(people)
    if not known:
        raise DataError(f"groups: people have no names of columns, got {name!r}; give one value for each person.")
    choose("groups", name, known)
    if name == people.target:
        values: Any = people.own_labels()
    elif people.encoding is None:
        values = people.numbers(known.index(name))
    else:
        values = people.encoding.decode(np.asarray(people.features, dtype=np.float64))[name].to_numpy(object)
    return _cut(pandas.Series(values, name=name).infer_objects())


def _cut(values: Any) -> Any:
    """Cut numbers of many values at quartiles of two digits, nobody's own number; missing values are a group."""
    import pandas

    numeric = pandas.api.types.is_numeric_dtype(values.dtype) and not pandas.api.types.is_bool_dtype(values.dtype)
    if numeric and values.nunique() > MOST_VALUES:
        ends = sorted({float(f"{end:.1e}") for end in values.quantile([part / PARTS for part in range(1, PARTS)])})
        between = [f"{low:g} to {high:g}" for low, high in pairwise(ends)]
        names = [f"up to {ends[0]:g}", *between, f"above {ends[-1]:g}"]
        values = pandas.cut(values, [-np.inf, *ends, np.inf], labels=names)
    if values.isna().any():
        values = values.astype(object).map(str).where(values.notna(), MISSING)
    return values
