"""What the limits of a table say and what moves cost, once more, with plain pandas on the table's own units.

Nothing of the package's code is used, only its declarations (schema and limits), so that it can judge OAR and others
alike. Tables are in ranks: an ordinal's level is its number in the schema; everything else is as in the frame.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

ROUNDING = 1e-9  # of a bound, a link or a budget; whole numbers, levels and immutables are compared exactly


def in_ranks(frame: pd.DataFrame, schema: Any) -> pd.DataFrame:
    """Return the schema's columns with ordinals as ranks, booleans as booleans and categories as plain words."""
    columns = {}
    for column in schema:
        values = frame[column.name]
        if column.kind == "ordinal":
            columns[column.name] = values.map({level: rank for rank, level in enumerate(column.levels)}).astype(int)
        elif column.kind == "category":
            columns[column.name] = values.astype(str).astype(object)
        else:
            columns[column.name] = values.astype(bool) if column.kind == "boolean" else values
    return pd.DataFrame(columns, index=frame.index)


def moved_table(before: pd.DataFrame, moves: pd.DataFrame, schema: Any) -> tuple[pd.DataFrame, pd.Series]:
    """Return the table after moves of its coordinates, and how many columns of each person are no value at all.

    Coordinates are called "column", or "column=level" for the levels of a category, of which exactly one must be 1.
    """
    after, nonsense = {}, pd.Series(0, index=before.index)
    for column in schema:
        values = before[column.name]
        if column.kind == "category":
            names = [f"{column.name}={level}" for level in column.levels]
            shares = np.column_stack([(values == level).to_numpy(float) for level in column.levels])
            shares = shares + moves[names].to_numpy()
            nonsense += ~(np.isin(shares, (0.0, 1.0)).all(axis=1) & (shares.sum(axis=1) == 1.0))
            after[column.name] = np.array(column.levels, dtype=object)[shares.argmax(axis=1)]
        else:
            after[column.name] = values.astype(float) + moves[column.name]
    return pd.DataFrame(after, index=before.index), nonsense


def broken_limits(before: pd.DataFrame, after: pd.DataFrame, schema: Any, limits: Any) -> pd.DataFrame:
    """Return who breaks what: a row a person, a column a rule. Who was outside before may stay, but go no further."""
    broken = {}
    for column in schema:
        name, limit = column.name, limits.columns.get(column.name)
        was, now = before[name], after[name]
        if column.kind == "category":
            broken[f"{name}: an existing level"] = ~now.isin(column.levels)
            if limit is not None and limit.levels is not None:
                broken[f"{name}: a permitted level"] = (now != was) & ~now.isin(limit.levels)
        else:
            was, now = was.astype(float), now.astype(float)
            lower, upper = _span(column, limit)
            slack = ROUNDING * (1 + was.abs())
            broken[f"{name}: at least {lower}"] = ~(now >= np.minimum(was, lower) - slack)
            broken[f"{name}: at most {upper}"] = ~(now <= np.maximum(was, upper) + slack)
            if column.kind != "number":
                broken[f"{name}: whole"] = now != now.round()
            if limit is not None and limit.step is not None:
                steps = (now - was) / limit.step
                broken[f"{name}: in steps"] = (steps - steps.round()).abs() > 1e-6
            if limit is not None and limit.direction is not None:
                broken[f"{name}: only {limit.direction}"] = now < was if limit.direction == "up" else now > was
        if limit is not None and limit.immutable:
            broken[f"{name}: immutable"] = now != was
    for link in limits.links:
        broken[link] = _breaks_link(link, before, after)
    return pd.DataFrame(broken, index=before.index)


def costs(before: pd.DataFrame, after: pd.DataFrame, schema: Any, limits: Any, people: pd.DataFrame) -> pd.DataFrame:
    """Return what each person's change of each column costs; `people` is the table whose standard deviations count."""
    found = {}
    for column in schema:
        name, limit = column.name, limits.columns.get(column.name)
        price = 1.0 if limit is None else limit.cost
        if column.kind == "category":
            found[name] = price * (after[name] != before[name])
            continue
        if column.kind == "boolean":
            unit = 1.0
        elif limit is not None and limit.unit is not None:
            unit = limit.unit
        else:
            unit = people[name].astype(float).std(ddof=0) or 1.0
        found[name] = price * (after[name].astype(float) - before[name].astype(float)).abs() / unit
    return pd.DataFrame(found, index=before.index)


def _span(column: Any, limit: Any) -> tuple[float, float]:
    """Return the least and the largest value, of an ordinal as ranks."""
    ends = [-np.inf, np.inf]
    if column.kind in ("boolean", "ordinal"):
        ends = [0, 1 if column.kind == "boolean" else len(column.levels) - 1]
    for place, bound in enumerate(() if limit is None else (limit.lower, limit.upper)):
        if bound is not None:
            value = column.levels.index(bound) if column.kind == "ordinal" else bound
            ends[place] = max(ends[0], value) if place == 0 else min(ends[1], value)
    return ends[0], ends[1]


def _breaks_link(link: str, before: pd.DataFrame, after: pd.DataFrame) -> pd.Series:
    """Report who breaks "left <= right" after the move, and further than before."""
    parts = re.fullmatch(r"([^<>=]+)(<=|>=)([^<>=]+)", link)
    if parts is None:
        raise ValueError(f"the benchmark's checker reads links with one <= or >=, got {link!r}")
    left, sign, right = parts.groups()
    excess = f"({left}) - ({right})" if sign == "<=" else f"({right}) - ({left})"
    excess = re.sub(r"change\((\w+)\)", r"change_of_\1", excess)
    names = [name for name in before if re.search(rf"\b(change_of_)?{name}\b", excess)]
    old, new = before[names].astype(float), after[names].astype(float)
    stood = old.join((old - old).add_prefix("change_of_")).eval(excess)
    stands = new.join((new - old).add_prefix("change_of_")).eval(excess)
    return ~(stands <= np.maximum(stood, 0.0) + ROUNDING * (1 + old.abs().sum(axis=1)))
