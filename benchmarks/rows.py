"""One line of the table: a measured figure, its target, and what it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """A figure with its target; the smaller, the better.

    Attributes:
        name: what was measured.
        values: one figure a round; the median is reported, the quartiles show the noise.
        unit: what the figure counts: "×" for ratios.
        most: the target, an upper bound; None for context rows.
        context: absolute times and other detail; where nothing could be measured, why.
        digits: how many digits the table shows.
    """

    name: str
    values: float | NDArray[np.float64]
    unit: str = "×"
    most: float | None = None
    context: str = ""
    digits: int = 3

    @property
    def measured(self) -> bool:
        """Whether there is a figure."""
        return bool(np.all(np.isfinite(self.values)))

    @property
    def value(self) -> float:
        """The median."""
        return float(np.median(self.values))

    @property
    def spread(self) -> tuple[float, float] | None:
        """The quartiles, where there are several figures."""
        if np.size(self.values) < 2:
            return None
        low, high = np.quantile(self.values, [0.25, 0.75])
        return float(low), float(high)

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None where there is none, or no figure."""
        return None if self.most is None or not self.measured else self.value <= self.most

    def as_json(self) -> dict[str, Any]:
        """Return everything, unrounded."""
        return {
            "name": self.name,
            "value": self.value if self.measured else None,
            "quartiles": self.spread,
            "unit": self.unit,
            "target_at_most": self.most,
            "passed": self.passed,
            "context": self.context,
        }


def skipped(name: str, reason: str, most: float | None = None) -> Row:
    """Return the row of something that cannot be measured here."""
    return Row(name, np.nan, "", most, f"skipped: {reason}")


@dataclass(frozen=True)
class Effort:
    """How thorough a run is.

    Attributes:
        rounds: how often fast things are measured.
        slow_rounds: how often things that take seconds are measured.
        most_people: the size of the largest population.
        many_people: the size of the largest population for the projected gradient.
    """

    rounds: int
    slow_rounds: int
    most_people: int
    many_people: int


FULL = Effort(rounds=15, slow_rounds=5, most_people=10_000_000, many_people=1_000_000)
QUICK = Effort(rounds=5, slow_rounds=3, most_people=1_000_000, many_people=100_000)
