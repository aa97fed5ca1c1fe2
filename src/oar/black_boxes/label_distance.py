"""A goal loss for models that say nothing but labels: how far from the query the nearest place is that has the goal.

A label alone is 0 or 1, which tells a search nothing until it is over. So the model is asked, all at once, about places
on the straight ways from the query to some people who are labelled as is wanted; the length of the shortest way to such
a place, in standard deviations of the features, is 0 where the query itself gets the goal and falls as the boundary
comes nearer. Where no place is found the loss is the length of the longest way, and a half more. These people, and so
the places, are settled before anybody moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.people import Population

Array = NDArray[np.float64]
WAYS, PLACES = 24, 16  # people to go to, and places on each way
NOWHERE = 1.5


@dataclass(frozen=True, eq=False)
class LabelDistance:
    """Places (w·s, d) relative to the query, by how far along the way they are, and their lengths (w·s,)."""

    places: Array
    lengths: Array

    @classmethod
    def of(cls, people: Population, codes: tuple[int, ...], point: Array) -> LabelDistance:
        """Return the ways from a query (d,) to the nearest people of the classes that it wants."""
        features = np.asarray(people.features, dtype=np.float64)
        spreads = features.std(axis=0)
        scaled = np.where(spreads > 0, spreads, 1.0)
        wanted = np.flatnonzero(np.isin(people.codes(0, people.size), codes))
        ways = features[wanted] - point
        lengths = np.sqrt(((ways / scaled) ** 2).sum(axis=1))
        near = np.argsort(lengths, kind="stable")[:WAYS]
        shares = np.arange(1, PLACES + 1) / PLACES
        return cls(
            (shares[:, None, None] * ways[near]).reshape(-1, features.shape[1]),
            np.outer(shares, lengths[near]).ravel(),
        )

    def asked(self, point: Array) -> Array:
        """Return whom to ask about (1 + w·s, d): the query, and the places around it."""
        return np.vstack([point, point + self.places])

    def loss(self, reached: NDArray[np.bool_]) -> float:
        """Return the distance, from whether each of those asked about has the goal."""
        if reached[0]:
            return 0.0
        if not reached[1:].any():
            return NOWHERE * float(self.lengths.max(initial=1.0))
        return float(self.lengths[reached[1:]].min())
