"""The rule by which a member finds out alone whether another label of its is wanted, or that it leaves.

With s(x, c) the score of a member at x with label c, which promises the query's loss to fall by its share of all
weights times s, a member with label a at x

    hands in the label b    where s(x, b) − s(x, a) is at least a threshold of (a, b),
    leaves                  where −s(x, a) is at least a threshold of a.

Where several would do, the one that is farthest above its threshold counts. A pair without a threshold is not asked
for. Thresholds are round: they are published, and lie between two people's own values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.pictures.notebook import ShownAsText

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
AWAY = -1  # in place of a label: who leaves has none


@dataclass(frozen=True)
class Threshold:
    """What is asked of people with one label, another one or to leave (`AWAY`), and what that must be worth."""

    label: int
    to: int
    least: float


@dataclass(frozen=True)
class LabelRule:
    """Thresholds, and which share of the plan's gain is kept where everyone goes by them, rounded down (or None)."""

    thresholds: tuple[Threshold, ...]
    keeps: float | None = None

    def decided(self, values: Array, codes: Codes) -> Codes:
        """Return everyone's label (n,) by this rule, `AWAY` for who leaves, from s(x, c) (n, k) and labels (n,)."""
        found, best = codes.copy(), np.full(len(codes), -1.0)
        for one in self.thresholds:
            above = worth(values, codes, one.to) - one.least
            asked = (codes == one.label) & (above >= 0) & (above > best)
            found[asked], best[asked] = one.to, above[asked]
        return found


def worth(values: Array, codes: Codes, to: int) -> Array:
    """Return what it is worth (n,) that people with these labels hand in another one, or leave."""
    own = values[np.arange(len(codes)), codes]
    return -own if to == AWAY else values[:, to] - own


@dataclass(frozen=True, eq=False)
class LabelAnswer(ShownAsText):
    """The response of one member to a card that asks for other labels, or for leavers.

    Attributes:
        label: the label that it hands in; its own where it does not change.
        changed: whether that is another one.
        leaves: whether it takes its data away.
        move: how it changes its values, as cards of moves say it: numbers, a Series, or an `Answer` of a table; of who
            leaves no change.
    """

    label: object
    changed: bool
    leaves: bool
    move: object

    def __str__(self) -> str:
        if self.leaves:
            return "take your data away"
        said = f"hand in the label {self.label!r}" if self.changed else "keep your label"
        return f"{said}\n{self.move}"
