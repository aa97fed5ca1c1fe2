"""Tables that may be opened in a spreadsheet: no text of theirs is computed there."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

# What makes a spreadsheet take a text for a formula, also in full width and after spaces, or ends a cell; and an
# apostrophe, so that one is taken away again only where one was put.
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "'")
ENDS = ("\t", "\r", "\n")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


def harmless_csv(table: pandas.DataFrame, json: Collection[str] = ()) -> str:
    """Return a table as CSV whose texts are no formulas; whole numbers stay whole, as do numbers in columns of JSON."""
    import pandas

    def cell_of(name: Any, cell: Any) -> Any:
        return cell if name in json and isinstance(cell, str) and _NUMBER.fullmatch(cell) else neutral(cell)

    cells = {name: pandas.Series([cell_of(name, one) for one in table[name]], dtype=object) for name in table.columns}
    return pandas.DataFrame(cells).rename(columns=neutral).to_csv(index=False, lineterminator="\n")


def neutral(cell: Any) -> Any:
    """Return a cell that no spreadsheet computes; numbers stay numbers.

    >>> neutral("=1+1"), neutral("a=b"), neutral(-3.5)
    ("'=1+1", 'a=b', -3.5)
    """
    computed = isinstance(cell, str) and (cell.startswith(ENDS) or cell.lstrip().startswith(FORMULA))
    return f"'{cell}" if computed else cell


def restored(cell: Any) -> Any:
    """Return a cell as it was before it was made harmless.

    >>> restored("'=1+1"), restored("''tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") else cell
