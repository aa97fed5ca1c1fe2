"""Plausible moves: after a move, other people must be about as near as they usually are to each other.

The distance between two people is the root of the sum of the squares of what each column's difference would cost:
Euclidean in cost, whatever norm budgets have, so that it means the same for every action. A place is plausible if its
k-th nearest among the people before any move (a member itself left out) is at most as far as a quantile of that
distance over the people themselves; or no farther than it is from where its own mover stands, so that staying is always
plausible. This is the concern of FACE (Poyiadzi et al. 2020): advice into a region where nobody lives is no advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, check_whole, choose, is_number, with_near_names
from oar.errors import DataError
from oar.people.tables.encoding import Array

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
ROUNDING = 1e-10  # share of a distance
NOBODY = -1  # stands for somebody who is no member


@with_near_names
@dataclass(frozen=True)
class Plausible:
    """The plausibility that is asked of moves: how near others must be afterwards.

    Attributes:
        neighbours: k, how many people must be near.
        share: of the people, whose k-th nearest is near enough.
    """

    neighbours: int = 10
    share: float = 0.95

    def __post_init__(self) -> None:
        check_whole("plausible neighbours", self.neighbours)
        fits = is_number(self.share) and 0 <= self.share <= 1
        meant = "0.95 lets people go where 95 % of them could live"
        check_that(fits, "plausible share", "a share of the people, from 0 to 1", self.share, meant)

    @staticmethod
    def of(value: Any) -> Plausible | None:
        """Read a share, the settings as a TOML file gives them, or what is one already."""
        match value:
            case None | Plausible():
                return value
            case Mapping():
                for key in value:
                    choose("plausible", key, ("neighbours", "share"))
                return Plausible(**value)
        wanted = "a share such as 0.95, or oar.limits.Plausible(neighbours=10, share=0.95)"
        check_that(is_number(value), "plausible", wanted, value)
        return Plausible(share=value)  # as it is: a whole number may be beyond any float, which is refused

    def check(self, people: int) -> None:
        """Refuse more neighbours than there are others."""
        if self.neighbours >= people:
            raise DataError(
                f"plausible neighbours: must be fewer than the {people:,} people, because nobody is its own "
                f"neighbour, got {self.neighbours}; ask for fewer."
            )


class Everywhere:
    """The neighbourhood where moves need not be plausible: every place is near enough."""

    bounded = False

    def near(self, rows: Array, who: Rows, before: Array) -> Mask:
        """Report that all rows (m, d) are."""
        return np.ones(len(rows), dtype=bool)


EVERYWHERE = Everywhere()


class Neighbourhood:
    """The positions of people (n, d) before any move, and how near is near enough; `scales` (d,) make distances."""

    bounded = True
    """Whether there are places that are not near enough."""

    def __init__(self, plausible: Plausible, features: Array, scales: Array) -> None:
        from scipy.spatial import cKDTree

        plausible.check(len(features))
        self.neighbours, self.scales = int(plausible.neighbours), scales
        self._tree = cKDTree(features * scales)
        self.own = self.distances(features, np.arange(len(features)))
        self.far = float(np.quantile(self.own, plausible.share))

    def distances(self, rows: Array, who: Rows, most: float = np.inf) -> Array:
        """Return how far the k-th nearest is from rows (m, d), ∞ beyond `most`: it need not be looked for there.

        `who` are members, left out of their own, or NOBODY.
        """
        if not len(rows):
            return np.zeros(0)
        places = rows * self.scales
        near, found = self._tree.query(places, k=self.neighbours + 1, distance_upper_bound=most, workers=-1)
        itself = (found == who[:, None]).any(axis=1)
        # Where a member is among its k + 1 nearest, the last of them is the k-th of the others.
        return np.where(itself, near[:, -1], near[:, -2])

    def near(self, rows: Array, who: Rows, before: Array) -> Mask:
        """Report which rows (m, d) are plausible for people who stand at `before` (m, d)."""
        fine = self.distances(rows, who, self.far * (1 + ROUNDING)) <= self.far * (1 + ROUNDING)
        rest = np.flatnonzero(~fine)
        fine[rest] = self.distances(rows[rest], who[rest]) <= self.distances(before[rest], who[rest]) * (1 + ROUNDING)
        return fine
