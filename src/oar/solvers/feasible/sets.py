"""Feasible sets of a descent: three operations, from which the others follow; everyone's ball and region.

project    the nearest moves in the set
respond    the linear maximisation oracle: the moves of the set that lower a linear loss the most
gap        the Frank–Wolfe gap, ⟨g, δ⟩ − min ⟨g, ·⟩ over the set, in the set's own metric

A table's regions answer the same questions in coordinates of cost. Their gap is bounded from above by what no response
exceeds (`Region.farthest`), which is close to the gap itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm
from oar.actions.sets.region import Region
from oar.models.training import Array

Rows = NDArray[np.intp]
BLOCK = 2_048  # people at a time, so that what is only passed on stays in the cache


Moves = TypeVar("Moves")
Gradient = TypeVar("Gradient")


class FeasibleMoves(ABC, Generic[Moves, Gradient]):
    """The feasible moves of everyone, and the metric in which a descent measures."""

    @abstractmethod
    def project(self, moves: Moves) -> Moves:
        """Return the nearest moves within everyone's limits."""

    @abstractmethod
    def ahead(self, moves: Moves, gradient: Gradient, length: float) -> tuple[Moves, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""

    def aim(self, moves: Moves, gradient: Gradient, length: float, response: str) -> tuple[Moves, float]:
        """Return what a step aims at, and the slope of the way there; `response` as in `DescentSettings`."""
        return self.ahead(moves, gradient, length)

    @abstractmethod
    def between(self, moves: Moves, aim: Moves, share: float) -> Moves:
        """Return the moves at this share of the way from feasible moves to a feasible aim."""

    @abstractmethod
    def gap(self, moves: Moves, gradient: Gradient) -> float:
        """Return the Frank–Wolfe gap, or an upper bound of it that is close."""

    @abstractmethod
    def span(self, gradient: Gradient) -> float:
        """Return the step at which the steepest gradient makes the largest budget, after its gap was asked for."""

    @abstractmethod
    def compare(self, before: tuple[Moves, Gradient], after: tuple[Moves, Gradient]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""


class FeasibleSet(FeasibleMoves[Array, Array]):
    """A convex set of everyone's moves (n, d), rows by rows, with the metric ⟨a, b⟩ = Σ_i w_i ⟨a_i, b_i⟩.

    Attributes:
        norm: how a row's move is measured.
        radii: (n,), how far each row may move; 0 for rows that stay.
        weights: (n,), w.
        is_ball: whether the set is a product of plain norm balls.
    """

    is_ball: bool = False
    weights: Array

    if TYPE_CHECKING:  # fields of one set are properties of another

        @property
        def norm(self) -> Norm:
            """How a row's move is measured."""
            ...

        @property
        def radii(self) -> Array:
            """How far each row may move."""
            ...

    @abstractmethod
    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient; where it is 0, to stay."""

    @abstractmethod
    def smaller(self, share: float) -> FeasibleSet:
        """Return the same with budgets of this share."""

    def inner(self, left: Array, right: Array) -> float:
        """Return Σ w_i ⟨a_i, b_i⟩."""
        return float((self.weights * np.einsum("nd,nd->n", left, right)).sum())

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim = self.project(moves - length * gradient)
        return aim, self.slope(gradient, moves, aim)

    def aim(self, moves: Array, gradient: Array, length: float, response: str) -> tuple[Array, float]:
        """Return the end of a projected step, or for "frank-wolfe" everyone's best response; and the slope there."""
        if response == "spectral":
            return self.ahead(moves, gradient, length)
        aim = self.respond(gradient)
        return aim, self.slope(gradient, moves, aim)

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w_i ⟨g_i, δ'_i − δ_i⟩: how fast the loss changes on the way from moves δ to the aim δ'."""
        return self.inner(gradient, aim - moves)

    def between(self, moves: Array, aim: Array, share: float) -> Array:
        """Return the moves at this share of the way from feasible moves to a feasible aim."""
        # Between two points of a convex set one can leave it by rounding only, but must not.
        return aim if share == 1 else self.project(moves + share * (aim - moves))

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards."""
        change, turn = after[0] - before[0], after[1] - before[1]
        return self.inner(change, change), self.inner(change, turn), self.gap(*after)

    def span(self, gradient: Array) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        steepest = float(np.abs(gradient[self.radii > 0]).max(initial=0.0))
        return float(self.radii.max(initial=0.0)) / steepest if steepest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class FeasibleBalls(FeasibleSet):
    """Everyone's ball: radii (n + 1,) around where they stand, zero for those who stay; weights (n + 1,).

    The first n are the members, with weights w̄; the last is the query, with weight 1.
    """

    norm: Norm
    radii: Array
    weights: Array
    is_ball = True

    def smaller(self, share: float) -> FeasibleBalls:
        """Return the same with budgets of this share."""
        return replace(self, radii=share * self.radii)

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limit."""
        return self.norm.project(moves, self.radii)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient: the full move against it."""
        return self.norm.maximise(-gradient, self.radii)

    def ahead(self, moves: Array, gradient: Array, length: float) -> tuple[Array, float]:
        """Return where a projected step of this length against the gradient leads, and the slope of the way there."""
        aim, slope = np.empty_like(moves), 0.0
        for some in self._blocks():
            here, uphill = moves[some], gradient[some]
            aim[some] = there = self.norm.project(here - length * uphill, self.radii[some])
            slope += self._inner(some, uphill, there - here)
        return aim, slope

    def slope(self, gradient: Array, moves: Array, aim: Array) -> float:
        """Return Σ w̄_i ⟨g_i, δ'_i − δ_i⟩: how fast the loss changes on the way from moves δ to the aim δ'."""
        return sum(self._inner(some, gradient[some], aim[some] - moves[some]) for some in self._blocks())

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return the Frank–Wolfe gap."""
        return sum(self._gap(some, moves[some], gradient[some]) for some in self._blocks())

    def compare(self, before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[float, float, float]:
        """Return ⟨s, s⟩ and ⟨s, y⟩, with s the change of moves and y that of gradients, and the gap afterwards.

        `before` and `after` are moves and gradients. One reading of them, because reading is what takes time.
        """
        squared = curvature = gap = 0.0
        for some in self._blocks():
            moves, gradient = (now[some] for now in after)
            change, turn = moves - before[0][some], gradient - before[1][some]
            squared += self._inner(some, change, change)
            curvature += self._inner(some, change, turn)
            gap += self._gap(some, moves, gradient)
        return squared, curvature, gap

    def _blocks(self) -> Iterator[slice]:
        for first in range(0, self.radii.size, BLOCK):
            yield slice(first, first + BLOCK)

    def _inner(self, some: slice, left: Array, right: Array) -> float:
        """Return Σ w̄_i ⟨a_i, b_i⟩ over some people."""
        return float(self.weights[some] @ np.einsum("nd,nd->n", left, right))

    def _gap(self, some: slice, moves: Array, gradient: Array) -> float:
        each = self.radii[some] * self.norm.dual.length(gradient) + np.einsum("nd,nd->n", gradient, moves)
        return float(self.weights[some] @ np.maximum(each, 0.0))


@dataclass(frozen=True, eq=False)
class FeasibleRegions(FeasibleSet):
    """The regions of n members and, last, the query; weights (n + 1,): w̄ of the members, 1 of the query."""

    region: Region
    weights: Array

    @property
    def norm(self) -> Norm:
        """The norm of the budgets."""
        return self.region.norm

    @property
    def radii(self) -> Array:
        """The budgets (n + 1,)."""
        return self.region.radii

    def smaller(self, share: float) -> FeasibleRegions:
        """Return the same with budgets of this share."""
        return replace(self, region=replace(self.region, radii=share * self.radii))

    @property
    def nobody_moves(self) -> bool:
        """Whether nobody may move at all."""
        rows, columns, _ = self._movable
        return not len(rows) or not columns.size

    def project(self, moves: Array) -> Array:
        """Return the nearest moves within everyone's limits."""
        rows, columns, region = self._movable
        found = np.zeros_like(moves)
        if not columns.size:
            return found
        places = _places(rows, columns, moves.shape)
        found[places] = region.project(moves[places])
        return found

    @cached_property
    def _movable(self) -> tuple[Rows, Rows, Region]:
        """Who may move, which coordinates, and the region of these."""
        rows = np.flatnonzero(self.radii > 0)
        region = self.region.of(rows)
        columns = region.movable
        return rows, columns, region.along(columns)

    def respond(self, gradient: Array) -> Array:
        """Return everyone's best response to a gradient, all but exactly; "stay" where it is 0."""
        return self._aim(gradient)[0]

    def gap(self, moves: Array, gradient: Array) -> float:
        """Return an upper bound of the Frank–Wolfe gap."""
        each = self._aim(gradient)[1] + np.einsum("nd,nd->n", gradient, moves)
        return float((self.weights * np.maximum(each, 0.0)).sum())

    def _aim(self, gradient: Array) -> tuple[Array, Array]:
        """Return best responses, and what no response exceeds (n + 1,), as ⟨−g, u⟩."""
        aim, most = np.zeros_like(gradient), np.zeros(len(gradient))
        rows, columns, region = self._movable
        if columns.size:
            places = _places(rows, columns, gradient.shape)
            aim[places], most[rows] = region.farthest(-gradient[places])
        return aim, most


def _places(rows: Rows, columns: Rows, shape: tuple[int, ...]) -> Any:
    """Return what picks these rows and columns: all columns of leading rows, as is usual, without a copy."""
    if columns.size == shape[1] and rows.size and rows[-1] == rows.size - 1:
        return slice(rows.size)
    return np.ix_(rows, columns)
