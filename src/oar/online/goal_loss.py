"""What the queries want of θ after a round, as one loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.goals import Wish
from oar.goals.wishes import Aggregate, mean
from oar.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Aim:
    """Who asks for what.

    Attributes:
        wishes: what each query wants.
        points: (q, d) where they stand before any move.
        members: (q,) who of all rounds' people they are, where they move with their own data; else None.
        together: how their losses become one.
    """

    wishes: tuple[Wish, ...]
    points: Array
    members: NDArray[np.intp] | None
    together: Aggregate

    @classmethod
    def of(cls, problem: Problem, together: Aggregate | None, by: int | None) -> Aim:
        """Read it from a problem of all rounds' people; of several classes that will do, `by` is aimed at."""
        wishes = problem.wishes if by is None else tuple(wish.by(by) for wish in problem.wishes)  # type: ignore[union-attr]
        return cls(wishes, problem.asked.points, problem.asked.members, together or mean)

    def places(self, moves: Array | None) -> Array:
        """Return where the queries stand, (q, d), after everyone's moves (n, d)."""
        return self.points if moves is None or self.members is None else self.points + moves[self.members]

    def at(self, training: Any, parameters: Array, moves: Array | None) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L (p,), and ∇_x L of each query (q, d)."""
        places = self.places(moves)
        each = [wish.judged(training, parameters, place) for wish, place in zip(self.wishes, places, strict=True)]
        loss, shares = self.together(np.array([one[0] for one in each]))
        pull = sum(share * one[1] for share, one in zip(shares, each, strict=True))
        return loss, np.asarray(pull), np.array([share * one[2] for share, one in zip(shares, each, strict=True)])
