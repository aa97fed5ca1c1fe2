"""The contribution of all people to the operator's training, as one value.

Whatever is planned, tried, published or simulated ends as three arrays: moves of features, targets, weights. A part
that is None is as it was before anybody acted, so that nobody need make an array of zeros, and a retraining sees at
once what it need not look at again. Arrays are not written to once they are part of a contribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array
from oar.people import Population

Mask = NDArray[np.bool_]
PARTS = ("moves", "targets", "weights")


@dataclass(frozen=True, eq=False)
class Contribution:
    """The contribution of everyone; a part is None where it is unchanged.

    Attributes:
        moves: (n, d) changes of features.
        targets: (n, k) class shares in the order of the classes, or values (n, m) to be regressed.
        weights: (n,), of which 0 means that somebody hands in nothing.
    """

    moves: Array | None = None
    targets: Array | None = None
    weights: Array | None = None

    @staticmethod
    def of(people: Population, regresses: bool) -> Contribution:
        """Return what people hand in as they are, every part an array."""
        moves = np.zeros((people.size, people.dimensions))
        return Contribution(moves, people.target_rows(regresses), people.row_weights)

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """Moves, targets and weights."""
        return self.moves, self.targets, self.weights

    @property
    def only_moves(self) -> bool:
        """Whether targets and weights are as they were."""
        return self.targets is None and self.weights is None

    def with_moves(self, moves: Array | None) -> Self:
        """Return the same with other moves (n, d)."""
        return replace(self, moves=moves)

    def leavers_stay(self) -> Self:
        """Return the same with nobody moving who hands in nothing: they would in vain."""
        if self.moves is None or self.weights is None:
            return self
        return replace(self, moves=np.where(self.weights[:, None] > 0, self.moves, 0.0))

    def over(self, before: Contribution) -> tuple[Any, Any, Any]:
        """Return moves, targets and weights, with whatever is as it was taken from `before`."""
        moves, targets, weights = (
            old if own is None else own for own, old in zip(self.parts, before.parts, strict=True)
        )
        return moves, targets, weights

    def beyond(self, before: Contribution) -> Self:
        """Return the same, with None for whatever is the very array of `before`."""
        same = {part: None for part, own, old in zip(PARTS, self.parts, before.parts, strict=True) if own is old}
        return replace(self, **same) if same else self

    def acts(self, before: Contribution) -> Mask:
        """Return who (n,) hands in something else than `before`, of which targets and weights are arrays."""
        acts = np.zeros(len(before.parts[2]), dtype=bool)
        for own, old in zip(self.over(before), before.parts, strict=True):
            if own is not old:
                differs = own != (0.0 if old is None else old)
                acts |= differs.any(axis=1) if differs.ndim > 1 else differs
        return acts

    def if_only(self, acting: Mask, before: Contribution) -> Self:
        """Return the same if only these (n,) act, and all others hand in what they did `before`."""
        moves = None if self.moves is None else self.moves * acting[:, None]
        targets, weights = (
            None if own is None else np.where(acting.reshape(-1, *[1] * (own.ndim - 1)), own, old)
            for own, old in zip(self.parts[1:], before.parts[1:], strict=True)
        )
        return replace(self, moves=moves, targets=targets, weights=weights)

    def handed_in(self, people: Population, regresses: bool) -> Population:
        """Return the people with the targets and weights that they hand in; features are for whoever trains to move."""
        if self.only_moves:
            return people
        _, rows, weights = self.over(Contribution(None, people.target_rows(regresses), people.weights))
        return people.contributing(weights, rows, regresses)
