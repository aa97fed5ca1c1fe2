"""A training whose moves are of some features alone, measured in cost: u = costs · δ, for members and query alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import ByColumns, Columns

Array = NDArray[np.float64]


class CostUnits:
    """Implements `Training` around another one; only what speaks of features changes.

    Args:
        training: with features (n, d).
        columns: (r,) the features that may move.
        costs: (r,) what a unit of each costs.
        query: (d,) the query, for the features that do not move.
        made: (n, r) moves made already, in cost.
    """

    def __init__(
        self, training: ByColumns, columns: Columns, costs: Array, query: Array, made: Array | None = None
    ) -> None:
        self._training, self._columns, self._costs, self._query, self._made = training, columns, costs, query, made
        self.dimensions = columns.size

    def __getattr__(self, name: str) -> Any:
        """Ask the training itself for everything else."""
        return getattr(self._training, name)

    @property
    def point(self) -> Array:
        """The query (r,), in cost."""
        return self._query[self._columns] * self._costs

    def moved(self, moves: Array | None) -> Any:
        """Return everyone's features after moves in cost."""
        return self._training.moved(self._all_moves(moves), self._columns)

    def _all_moves(self, moves: Array | None) -> Array | None:
        """Return these moves and those made before, in the features' own units; None where there are neither."""
        there = [some for some in (moves, self._made) if some is not None]
        return sum(there[1:], there[0]) / self._costs if there else None

    def from_there(self, made: Array) -> CostUnits:
        """Return the same training, with everybody's moves counted from these (n, r), in cost."""
        made = made if self._made is None else self._made + made
        return CostUnits(self._training, self._columns, self._costs, self._query, made)

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_u s_i for everyone."""
        return self._training.score_gradients(parameters, features, signal, self._columns) / self._costs

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the loss of a query in cost, ∇_θ L, and ∇_u L."""
        loss, pull, slope = self._training.goal(parameters, self._person(query), target)
        return loss, pull, slope[self._columns] / self._costs

    def goal_after(self, parameters: Array, moves: Array | None) -> Any:
        """Return the loss, ∇_θ L and ∂L/∂u (n, r) where queries are members who move with their data; else None."""
        ask = getattr(self._training, "goal_after", None)
        if ask is None:
            return None
        found = ask(parameters, self._all_moves(moves), self._columns)
        return None if found is None else (*found[:2], found[2] / self._costs)

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the model's outputs for a query in cost."""
        return self._training.outputs(parameters, self._person(query))

    def _person(self, query: Array) -> Array:
        person = self._query.copy()
        person[self._columns] = query / self._costs
        return person
