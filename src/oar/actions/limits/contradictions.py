"""Contradictions between two linear statements about a table's values, named as a pair."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oar.people.tables.schema import Schema

Statement = tuple[Mapping[str, float], float]
"""Factors α by column, and a constant c, of α·x + c ≤ 0."""


class PossibleValues:
    """The values that a table's columns can have: whole numbers where they are, and few where levels are few."""

    def __init__(self, schema: Schema) -> None:
        self._spans = {
            column.name: (0.0, 1.0) if column.kind == "boolean" else (0.0, len(column.levels) - 1.0)
            for column in schema
            if column.kind in ("boolean", "ordinal")
        }
        self._whole = {column.name for column in schema if column.whole}

    def both(self, one: Statement, other: Statement) -> bool:
        """Report whether some values satisfy both statements: by a programme if they share columns."""
        from scipy.optimize import linprog

        if not one[0].keys() & other[0].keys():
            return self._least(one) <= 0 and self._least(other) <= 0
        names = sorted({*one[0], *other[0]})
        rows, rights = [], []
        for factors, constant in (one, other):
            unit = max(map(abs, factors.values())) or 1.0  # HiGHS takes 1e30 for infinity
            rows.append([factors.get(name, 0.0) / unit for name in names])
            rights.append(-constant / unit)
        bounds = [self._spans.get(name, (None, None)) for name in names]
        whole = np.array([name in self._whole for name in names], dtype=int)  # as a list, SciPy 1.13 does not take it
        found = linprog(np.zeros(len(names)), A_ub=rows, b_ub=rights, bounds=bounds, integrality=whole, method="highs")
        return found.status != 2

    def _least(self, statement: Statement) -> float:
        """Return the least α·x + c."""
        factors, constant = statement
        free = (-np.inf, np.inf)
        ends = (min(factor * end for end in self._spans.get(name, free)) for name, factor in factors.items() if factor)
        return constant + sum(ends)
