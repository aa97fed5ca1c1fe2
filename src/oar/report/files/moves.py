"""Files of moves: moves.csv for spreadsheets and moves.parquet for programs, both in raw units."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import is_flag, is_number, is_whole
from oar.files import replace_atomically, write_text
from oar.people.tables.spreadsheet import harmless_csv
from oar.plans import Plan
from oar.plans.moves.changes_table import changed_cells, columns_of

if TYPE_CHECKING:
    import pandas


def changes_of(plan: Plan) -> pandas.DataFrame:
    """Return a row for each value that changes: person, column, before, after; of plain numbers as of tables."""
    return changed_cells(plan, columns_of(plan.problem.people))


def write_csv(changes: pandas.DataFrame, path: Path) -> None:
    """Write changes for spreadsheets: a text that would be taken for a formula begins with an apostrophe."""
    write_text(path, harmless_csv(changes), private=True)


def write_parquet(changes: pandas.DataFrame, path: Path) -> bool:
    """Write changes for programs, and say whether it could be done: it needs pyarrow.

    A column of a Parquet file has one type, so `before` and `after` are texts, and where they are numbers they are
    also in `before_number` and `after_number`.
    """
    import pandas

    if not has_pyarrow():
        return False
    persons = changes["person"]
    persons = persons.astype(np.int64) if all(map(is_whole, persons)) else persons.map(str).astype(object)
    typed = {"person": persons, "column": changes["column"].astype(str)}
    for side in ("before", "after"):
        typed[side] = changes[side].map(str).astype(object)
        typed[f"{side}_number"] = changes[side].map(_number).astype(np.float64)
    with replace_atomically(path, private=True) as file:
        pandas.DataFrame(typed).to_parquet(file, index=False)
    return True


def has_pyarrow() -> bool:
    """Report whether Parquet files can be written."""
    return find_spec("pyarrow") is not None


def _number(value: Any) -> float:
    return float(value) if is_flag(value) or is_number(value) else np.nan
