"""Individuals, who game the deployed model, or follow advice that assumes that it is fixed.

Both take the shortest move to their goal under the deployed model (`shortest_moves`). A strategic individual moves if
that pays: with a gain of 1 for the goal and a cost c‖δ‖, the best response to the deployed model is to cross the
boundary if ‖δ‖ ≤ 1/c, and to stay otherwise (Hardt et al. 2016). An advised individual receives a move and a promised
class, and follows the advice or not. The world checks the promise from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions.sets.norms import Norm
from oar.checks import with_near_names
from oar.typing import Label
from oar.worlds.actors.common import Mask, Movers, code_of, refuse_values
from oar.worlds.actors.shortest_moves import shortest_moves
from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Deed, View


@with_near_names
@dataclass(frozen=True)
class StrategicIndividuals(Movers):
    """Strategic individuals, who best-respond to the deployed model, each for itself.

    Each of them without the prediction `goal` makes the shortest move to it, and slightly more, if the move is within
    its budget and worth its cost; all others stay. The move is the shortest one if boundaries are flat (linear models,
    nearest centroid). For other models it is found by search, which may miss a move.

    Args:
        share: the share of arrivals who are strategic, drawn once for each person.
        goal: the label that each of them wants for itself.
        budget: how far each can move.
        norm: 1, 2 or numpy.inf.
        cost: c, of moving by 1, where the goal is worth 1: nobody moves farther than 1/c. 0 means that moves are free.
        name: their name in records.
    """

    share: float
    goal: Label
    budget: float
    norm: Any = 2
    cost: float = 0.0
    name: str = "strategic individuals"

    def act(self, view: View) -> Deed:
        """Cross the boundary if that is possible and pays."""
        reach = self.budget if self.cost == 0 else min(self.budget, 1 / self.cost)
        moves, asked, found = ways(view, self.goal, self.norm, reach)
        lengths = self.norm.length(moves[found])
        note = {"wanting": int(asked.sum()), "moved": int(found.sum()), "distance": float(lengths.sum())}
        return Deed(moves=moves, note=note)


@with_near_names
@dataclass(frozen=True)
class AdvisedIndividuals(Movers):
    """People who receive individual recourse: a move to the goal, as of `StrategicIndividuals`, for a fixed model.

    Args:
        share: the share of arrivals who ask for advice, drawn once for each person.
        goal: the label that each of them wants for itself.
        budget: how far each can move; a person for whom no move within it is found gets no advice.
        norm: 1, 2 or numpy.inf.
        follow: the share of the advised who follow the advice; the others do not move, and their advice is recorded
            too.
        beyond: the length that advice adds to the shortest move, as a share of it, within the budget: advice at the
            boundary itself is the first to fail.
        name: their name in records.
    """

    share: float
    goal: Label
    budget: float
    norm: Any = 2
    follow: float = 1.0
    beyond: float = 0.0
    name: str = "advised individuals"

    def act(self, view: View) -> Deed:
        """Advise everyone with a move to the goal, and move those who follow."""
        moves, asked, found = ways(view, self.goal, self.norm, self.budget)
        code = code_of(self.goal, view.crowd.classes, "goal")
        moves = self._further(view, moves, found, code)
        told, promised = view.crowd.features[view.mine] + moves, np.where(found, code, -1).astype(np.intp)
        count = round(self.follow * int(found.sum()))
        followers = np.zeros(found.size, dtype=bool)
        followers[view.rng.permutation(np.flatnonzero(found))[:count]] = True
        note = {"wanting": int(asked.sum()), "advised": int(found.sum()), "moved": int(followers.sum())}
        return Deed(moves=np.where(followers[:, None], moves, 0.0), advice=(told, promised), note=note)

    def _further(self, view: View, moves: Array, found: Mask, code: int) -> Array:
        """Return moves that go on beyond the boundary where the model still predicts the goal there."""
        if self.beyond == 0 or not found.any():
            return moves
        lengths = self.norm.length(moves[found])
        factors = np.minimum(1 + self.beyond, np.maximum(self.budget * (1 - 1e-12) / lengths, 1.0))
        longer = moves.copy()
        longer[found] *= factors[:, None]
        rows, model = view.crowd.features[view.mine], view.operator.model
        kept = predictions(model, view.deployed.parameters, rows + longer) == code
        return np.where((kept & found)[:, None], longer, moves)


def ways(view: View, goal: Any, norm: Norm, reach: float) -> tuple[Array, Mask, Mask]:
    """Return the shortest moves (m, d) of an actor's people, who of them lacks the goal, and who can reach it."""
    model, parameters, code = view.operator.model, view.deployed.parameters, code_of(goal, view.crowd.classes, "goal")
    refuse_values(model)
    rows = view.crowd.features[view.mine]
    moves, found = np.zeros_like(rows, dtype=np.float64), np.zeros(len(rows), dtype=bool)
    asked = predictions(model, parameters, rows) != code if len(rows) else found
    if asked.any():
        classes = len(view.crowd.classes)
        moves[asked], found[asked] = shortest_moves(model, parameters, rows[asked], code, norm, reach, classes)
    return moves, asked, found
