"""Moves by an action of one's own: within the balls that hold its sets, and inside by the author's own measure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.actions.own_action import Who, asked
from oar.people import Chunk
from oar.referee.limits.moves import LIMIT_SLACK, MOST, MoveCheck, MoveSums, trainable

Array = NDArray[np.float64]


class OwnMoveCheck(MoveCheck):
    """Every member's move against its ball, and against its set as `Action.violations` measures it."""

    def check(self, chunk: Chunk, moves: Array) -> Array:
        """Measure the moves of some consecutive people; return those that can be trained on, and zero for others."""
        action = self.problem.own_action
        assert action is not None
        moves = super().check(chunk, moves)
        movers = np.flatnonzero(moves.any(axis=1))
        who = Who(np.asarray(chunk.features, dtype=np.float64)[movers], chunk.start + movers)
        allowed = self.problem.allowance.of(chunk.start, chunk.stop)
        excess = np.zeros(len(moves))
        if movers.size:
            excess[movers] = asked(action, "violations", moves[movers], who)
        beyond = ~(excess <= LIMIT_SLACK * allowed)  # also where the author's measure is no number
        told = tuple(
            f"{self._called(chunk.start + int(row))} leaves the set of {action.name!r} by {excess[row]:.6g}"
            for row in np.flatnonzero(beyond)[:MOST]
        )
        self._sums += MoveSums(first=told, offenders=int(np.count_nonzero(beyond)))
        return trainable(moves, beyond) if told else moves

    def check_query(self, move: Array) -> Array:
        """Report any move of the query: the sets of an action of one's own are members'."""
        if move.any():
            self._query = ("the query moves, and the action is for members alone",)
        return trainable(move[None])[0]
