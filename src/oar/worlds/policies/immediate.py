"""What a collective may do in a round without a plan: nothing, each for itself, or one answer to a signal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oar.actions.perturb import check_budget
from oar.errors import OptionError, with_near_names
from oar.online.training.binding import shares_units, update_of
from oar.worlds.actors.common import code_of
from oar.worlds.actors.shortest_moves import shortest_moves
from oar.worlds.collective import CollectiveView, room_of
from oar.worlds.deployed.predictions import predictions
from oar.worlds.policies.foresight import acting_rule, aim_of, next_training_set
from oar.worlds.protocol import Array, Deed


@with_near_names
@dataclass(frozen=True)
class DoNothing:
    """Nobody does anything."""

    def __call__(self, view: CollectiveView) -> Deed:
        """Return no deed."""
        return Deed()


@with_near_names
@dataclass(frozen=True)
class Individually:
    """Each member follows individual recourse for itself, as if the deployed model would stay as it is.

    Everybody who is not predicted the query's goal is told the shortest way to where it is, if that is within its
    budget, and goes there. Where people were told to go is advice, whose validity is recorded.

    Args:
        margin: how much further than the boundary everybody is told to go, on the same way: advice on the boundary
            itself hardly survives any refit. It counts as part of the move; who has not the budget is given no advice.
    """

    margin: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a margin that cannot be."""
        object.__setattr__(self, "margin", check_budget(self.margin, "margin"))

    def __call__(self, view: CollectiveView) -> Deed:
        """Return everybody's own way."""
        view.collective.only_moves("Individually")
        goal = view.collective.query.goal
        if isinstance(goal, set | frozenset) or not np.isscalar(goal):
            raise OptionError(f"policy: Individually needs a single label as goal, got {goal!r}; use another policy.")
        code = code_of(goal, view.crowd.classes, "goal")
        model, parameters = view.operator.model, view.deployed.parameters
        rows, caps = view.crowd.features[view.mine], view.collective.caps
        moves, promised = np.zeros_like(rows), np.full(len(rows), -1)
        asks = np.flatnonzero(predictions(model, parameters, rows) != code)
        own, found = shortest_moves(
            model, parameters, rows[asks], code, caps.norm, caps.budget, len(view.crowd.classes)
        )
        lengths = caps.norm.length(own)
        own = own * (1 + self.margin / np.where(lengths > 0, lengths, 1.0))[:, None]
        found &= lengths + self.margin <= room_of(caps, view)[asks]
        if self.margin > 0:  # past the boundary a third class may come
            found[found] = predictions(model, parameters, rows[asks[found]] + own[found]) == code
        moves[asks[found]], promised[asks[found]] = own[found], code
        return Deed(moves=moves, advice=(rows + moves, promised))


@with_near_names
@dataclass(frozen=True)
class OneShot:
    """One signal from the model that is deployed, and one answer to it: every member goes as far as it may.

    The signal is what the operator's own rule makes of the goal loss at the deployed parameters, had it read those who
    arrive as they are: dL/dδ_i for everyone, in one step back (`Rule.pull_back`). Members answer with the largest move
    against it. With nearest centroid that is the paper's heuristic.
    """

    def __call__(self, view: CollectiveView) -> Deed:
        """Return everybody's answer."""
        view.collective.only_moves("OneShot")
        caps = view.collective.caps
        return Deed(moves=caps.norm.maximise(-slopes_of(view), room_of(caps, view)))


def slopes_of(view: CollectiveView) -> Array:
    """Return dL/dδ (m, d) for every member: the goal loss, differentiated through the operator's own next update."""
    people, newest = next_training_set(view)
    rule, model = acting_rule(view), view.operator.model
    if not hasattr(rule, "pull_back"):
        raise OptionError(f"policy: OneShot asks the rule for a signal, and {rule.name} has no pull_back; add one.")
    shared = shares_units(model)
    update = update_of(model, people, newest, view.number, view.deployed.flat if shared else None)
    # Behind a scaler θ means something only to the people whom it was fitted to: there, these as they are.
    at = view.deployed.flat if shared else np.asarray(rule.update(update))
    _, pull, _ = aim_of(view).at(update.training, at, None)
    pulled = rule.pull_back(update, at, pull)
    return np.asarray(pulled.moves, dtype=np.float64)[newest][view.mine]
