"""Who changes what, as files: moves.csv for spreadsheets and moves.parquet for programs, both in raw units."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError
from oar.files import replace_atomically
from oar.people.wording import nearest, shown
from oar.plans import Plan
from oar.plans.plan import MemberPlan
from oar.problem import Problem

if TYPE_CHECKING:
    import pandas

SAME = 1e-9  # share of a number: files may have fewer digits
COLUMNS = ("person", "column", "before", "after")
# What makes a spreadsheet take a text for a formula, also in full width and after spaces, or ends a cell; and an
# apostrophe, so that one is taken away again only where one was put.
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "'")
ENDS = ("\t", "\r", "\n")


def changes_of(plan: Plan) -> pandas.DataFrame:
    """Return a row for each value that changes: person, column, before, after; of plain numbers as of tables."""
    import pandas

    people = plan.problem.people
    if people.encoding is not None:
        return plan.changes()
    moves = np.asarray(plan.moves(), dtype=np.float64)
    rows, columns = np.nonzero(moves)
    before = np.asarray(people.features, dtype=np.float64)[rows, columns]
    index = pandas.RangeIndex(people.size) if people.index is None else people.index
    names = np.array(people.names or [f"feature {number}" for number in range(people.dimensions)], dtype=object)
    return pandas.DataFrame(
        {
            "person": index[rows],
            "column": names[columns],
            "before": before,
            "after": before + moves[rows, columns],
        }
    )


def write_csv(changes: pandas.DataFrame, path: Path) -> None:
    """Write changes for spreadsheets: a text that would be taken for a formula begins with an apostrophe."""
    with replace_atomically(path) as file:
        file.write(harmless_csv(changes).encode())


def harmless_csv(table: pandas.DataFrame) -> str:
    """Return a table as CSV whose texts are no formulas; whole numbers stay whole beside others."""
    import pandas

    cells = {name: pandas.Series([neutral(cell) for cell in table[name]], dtype=object) for name in table.columns}
    return pandas.DataFrame(cells).rename(columns=neutral).to_csv(index=False, lineterminator="\n")


def write_parquet(changes: pandas.DataFrame, path: Path) -> bool:
    """Write changes for programs, and say whether it could be done: it needs pyarrow.

    A column of a Parquet file has one type, so `before` and `after` are texts, and where they are numbers they are
    also in `before_number` and `after_number`.
    """
    import pandas

    if not has_pyarrow():
        return False
    typed = {"person": _persons(changes["person"]), "column": changes["column"].astype(str)}
    for side in ("before", "after"):
        typed[side] = changes[side].map(str).astype(object)
        typed[f"{side}_number"] = changes[side].map(_number).astype(np.float64)
    with replace_atomically(path) as file:
        pandas.DataFrame(typed).to_parquet(file, index=False)
    return True


def has_pyarrow() -> bool:
    """Report whether Parquet files can be written."""
    return find_spec("pyarrow") is not None


def neutral(cell: Any) -> Any:
    """Return a cell that no spreadsheet computes; numbers stay numbers.

    >>> neutral("=1+1"), neutral("a=b"), neutral(-3.5)
    ("'=1+1", 'a=b', -3.5)
    """
    return f"'{cell}" if isinstance(cell, str) and _computed(cell) else cell


def _computed(text: str) -> bool:
    return text.startswith(ENDS) or text.lstrip().startswith(FORMULA)


def restored(cell: Any) -> Any:
    """Return a cell as it was before it was made harmless.

    >>> restored("'=1+1"), restored("''tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") else cell


def plan_from(problem: Problem, changes: pandas.DataFrame) -> MemberPlan:
    """Return the plan in which these changes are made, as `write_csv` wrote them.

    Raises:
        DataError: for a person, a column or a value that these people do not have, also before the move; labels and
            leavers are not read.
    """
    people = problem.people
    missing = [name for name in COLUMNS if name not in changes.columns]
    if missing:
        raise DataError(f"moves: must have the columns {', '.join(COLUMNS)}, got none called {missing[0]!r}.")
    names = people.schema.names if people.schema is not None else tuple(people.names or ())
    before = np.asarray(people.features, dtype=np.float64)
    index = range(people.size) if people.index is None else people.index
    places = {str(name): place for place, name in enumerate(index)}
    after = before.copy()
    for line, cells in enumerate(zip(*(changes[name] for name in COLUMNS), strict=True)):
        person, column, stood, value = map(restored, cells)
        if str(person) not in places:
            raise DataError(f"moves: row {line} is about {shown(person)}, who is not among these people.")
        if column not in names:
            raise DataError(f"moves: row {line} must name a feature, got {shown(column)}.{nearest(column, names)}")
        row = places[str(person)]
        _set(problem, after[row], str(column), value, line)
        was = before[row].copy()
        _set(problem, was, str(column), stood, line)
        if not np.allclose(was, before[row], rtol=SAME, atol=0.0):
            raise DataError(
                f"moves: row {line} says that {shown(column)} of {shown(person)} is {shown(stood)} before, and in "
                "these data it is not; are the moves for another version of the data?"
            )
    return MemberPlan(problem, np.zeros(people.dimensions), after - before)


def _set(problem: Problem, row: Any, name: str, value: Any, line: int) -> None:
    """Put a value, in the table's words, into a person's coordinates."""
    people = problem.people
    try:
        if people.encoding is None:
            row[list(people.names or ()).index(name)] = float(value)
            return
        column, place = people.encoding.schema[name], people.encoding.places[name]
        words = [str(level) for level in column.levels]
        if column.kind == "category":
            row[place] = np.eye(len(words))[words.index(str(value))]
        elif column.kind == "ordinal":
            row[place] = words.index(str(value))
        elif column.kind == "boolean":
            row[place] = {"true": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "0": 0.0, "0.0": 0.0}[str(value).lower()]
        else:
            row[place] = float(value)
    except (ValueError, KeyError):
        raise DataError(f"moves: row {line} puts {shown(value)} into {shown(name)}, which it cannot hold.") from None


def _persons(persons: pandas.Series) -> pandas.Series:
    """Return people's names as whole numbers where they all are, and as texts otherwise."""
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in persons):
        return persons.astype(np.int64)
    return persons.map(str).astype(object)


def _number(value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        return float(value)
    return float(value) if isinstance(value, int | float | np.number) else np.nan
