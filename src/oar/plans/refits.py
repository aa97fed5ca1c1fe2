"""Refits to a part of a plan, where only some act, or not quite as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oar.retraining.contribution import Contribution
from oar.retraining.retraining import Refit, RefitResult, retraining_of
from oar.retraining.side_effects import Effects

if TYPE_CHECKING:
    from oar.plans.plan import Plan

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Refits:
    """Refits of a plan's model on what people might do.

    Attributes:
        features: (n, d) everyone before any move.
        before, planned: what everyone hands in without the plan, every part an array, and with all of it.
        actors: (n,) who moves, is relabelled or leaves.
    """

    def __init__(self, plan: Plan) -> None:
        self.retraining = retraining_of(plan.problem)
        self.problem, self.query_move = plan.problem, plan.query_move
        self.features, self.before = self.retraining.features, self.retraining.before
        self.planned = plan.contribution()
        self.actors: Mask = self.planned.acts(self.before)

    @property
    def moves(self) -> Array:
        """Everyone's planned move (n, d)."""
        return self.planned.parts[0]

    def if_only(self, acting: Mask) -> Contribution:
        """Return what everyone hands in if of the actors only these (n,) act."""
        return self.planned if acting[self.actors].all() else self.planned.if_only(acting, self.before)

    def refit(self, contribution: Contribution) -> Refit | None:
        """Return a refit; None where there is none."""
        return self.retraining.refit(contribution)

    def verdict(self, contribution: Contribution, query_moves: bool = True) -> RefitResult:
        """Refit and judge the query, which makes its own move or not."""
        return self.retraining.verdict(contribution, self.query_move if query_moves else 0.0)


def effects(plan: Plan) -> Effects | None:
    """Return what a plan does to others, where its problem limits that; None where the model cannot be refitted."""
    refits = Refits(plan)
    refit = refits.refit(refits.planned)
    return None if refit is None else refits.retraining.effects(refit)
