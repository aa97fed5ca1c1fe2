"""Names of people: as the caller's index has them, or their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.people import Population


def row_names(people: Population, rows: Any = slice(None)) -> Any:
    """Return what people in some rows are called: by the caller's index, or by their position where there is none."""
    names = np.arange(people.size) if people.index is None else people.index
    return names[rows]
