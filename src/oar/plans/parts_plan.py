"""A plan for people who are not in memory: the walk, from which everyone's move follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.people import Chunk
from oar.people.parts.population import StreamedPopulation
from oar.plans.cards.card import Card
from oar.plans.plan import Plan
from oar.streaming.passes import BLOCK, SignalPath, Spec, in_memory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SignalPathPlan(Plan):
    """Moves by a walk: every member finds its own from its data, the walk, and its budget.

    Attributes:
        walk: the steps.
        spec: the model, units and limits that they are taken with.
        parameters, signal: θ and v (p,) at the last refit, in the features' own units.
        training: who keeps moves on disk that need not be walked again; None where nobody does.
    """

    walk: SignalPath
    spec: Spec
    parameters: Array
    signal: Array
    training: Any = None

    rows_at_a_time = BLOCK

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people of the problem's population."""
        return self.mover().of_chunk(chunk)

    def signature(self) -> bytes:
        """Return the walk's name, and the units that it is walked in."""
        return self.walk.key.encode() + self.spec.centre.tobytes() + self.spec.scale.tobytes()

    def mover(self) -> SignalPathMoves:
        """Return what hands out moves, and can be sent to another machine."""
        return SignalPathMoves(self.spec, self.walk)

    def moves(self, features: Any = None, labels: Any = None, budget: Any = None) -> Any:
        """Refuse: there is no array of them; `write_moves` writes them to files."""
        people = self.problem.people
        assert isinstance(people, StreamedPopulation)
        raise OptionError(
            f"plan: {people.size:,} people's moves are not in memory; use plan.write_moves(folder), which writes them "
            "part by part, or people.loaded() before planning."
        )

    def card(self) -> Card:
        """Refuse: whether a card does as well as the walk is not known."""
        raise OptionError("plan: plans for people in parts have no card yet; use plan.write_moves(folder).")

    def _actors(self) -> list[str]:
        return [f"{self.problem.people.size:,} members move by a walk of {len(self.walk.strides)} steps"]


@dataclass(frozen=True, eq=False)
class SignalPathMoves:
    """Moves along a signal path; those that were kept on disk at its end need not be computed again."""

    spec: Spec
    walk: SignalPath

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        return in_memory(chunk, self.spec).moves(self.walk) + 0.0
