"""Policies without a plan: nothing, individual recourse for each member, or one response to a signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.actions.perturb import check_budget
from oar.checks import with_near_names
from oar.errors import OptionError
from oar.online import FullRefit
from oar.online.bound_training import shares_units, update_of
from oar.online.rollout import Aim
from oar.people import Population
from oar.problem import Problem
from oar.worlds.actors.common import code_of
from oar.worlds.actors.individuals import ways
from oar.worlds.collective import CollectiveView, room_of
from oar.worlds.deployed.predictions import predictions
from oar.worlds.people.crowds import pooled, register_of
from oar.worlds.protocol import Array, Deed


@with_near_names
@dataclass(frozen=True)
class DoNothing:
    """The policy in which no member acts."""

    def __call__(self, view: CollectiveView) -> Deed:
        """Return no deed."""
        return Deed()


@with_near_names
@dataclass(frozen=True)
class Individually:
    """The policy in which each member follows individual recourse for itself, as if the deployed model were fixed.

    Every member without the query's goal as its prediction receives the shortest move to it, if that is within its
    budget, and makes it. These moves are advice, whose validity is recorded.

    Args:
        margin: the distance of the move beyond the boundary, in the same direction: advice on the boundary itself
            rarely survives a refit. It is part of the move; a person without the budget for it gets no advice.
    """

    margin: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", check_budget(self.margin, "margin"))

    def __call__(self, view: CollectiveView) -> Deed:
        """Return everybody's own way."""
        view.collective.only_moves("Individually")
        goal = view.collective.query.goal
        if isinstance(goal, set | frozenset) or not np.isscalar(goal):
            raise OptionError(f"policy: Individually needs a single label as goal, got {goal!r}; use another policy.")
        rows, caps = view.crowd.features[view.mine], view.collective.caps
        moves, _, found = ways(view, goal, caps.norm, caps.budget)
        code, lengths = code_of(goal, view.crowd.classes, "goal"), caps.norm.length(moves)
        moves *= (1 + self.margin / np.where(lengths > 0, lengths, 1.0))[:, None]
        found &= lengths + self.margin <= room_of(caps, view)
        if self.margin > 0:  # past the boundary a third class may come
            there = rows[found] + moves[found]
            found[found] = predictions(view.operator.model, view.deployed.parameters, there) == code
        moves = np.where(found[:, None], moves, 0.0)
        return Deed(moves=moves, advice=(rows + moves, np.where(found, code, -1)))


@with_near_names
@dataclass(frozen=True)
class OneShot:
    """The policy of one signal from the deployed model and one response to it: every member moves as far as it may.

    The signal is the gradient of the goal loss at the deployed parameters through the operator's own rule, applied to
    the unmoved arrivals: dL/dδ_i for everyone, in one step back (`Rule.pull_back`). Members respond with the largest
    move against it. With nearest centroid this is the paper's heuristic.
    """

    def __call__(self, view: CollectiveView) -> Deed:
        """Return everybody's answer."""
        view.collective.only_moves("OneShot")
        caps = view.collective.caps
        return Deed(moves=caps.norm.maximise(-slopes_of(view), room_of(caps, view)))


def acting_rule(view: CollectiveView) -> Any:
    """Return the operator's update rule; an operator without one counts as a full refit."""
    return getattr(view.operator, "rule", None) or FullRefit()


def read_before(view: CollectiveView) -> tuple[Population, ...]:
    """Return the earlier batches that the rule still reads in this round, as far as the collective knows them."""
    reads = acting_rule(view).reads
    return view.past if reads is None else view.past[len(view.past) - min(reads - 1, len(view.past)) :]


def slopes_of(view: CollectiveView) -> Array:
    """Return dL/dδ (m, d) for every member: the goal loss, differentiated through the operator's own next update."""
    rule, model, register = acting_rule(view), view.operator.model, register_of(view.crowd)
    if not hasattr(rule, "pull_back"):
        raise OptionError(f"policy: OneShot asks the rule for a signal, and {rule.name} has no pull_back; add one.")
    people = pooled((*read_before(view), register.of_crowd(view.crowd)))  # whom the rule reads if nobody moves
    newest = np.arange(people.size) >= people.size - view.crowd.size
    shared = shares_units(model)
    update = update_of(model, people, newest, view.number, view.deployed.flat if shared else None)
    # Behind a scaler θ means something only to the people whom it was fitted to: there, these as they are.
    at = view.deployed.flat if shared else np.asarray(rule.update(update))
    goal = Problem(register.every_class, model, view.collective.query, Perturb(0.0))  # among all of the world's classes
    _, pull, _ = Aim.of(goal, None, None).at(update.training, at, None)
    pulled = rule.pull_back(update, at, pull)
    return np.asarray(pulled.moves, dtype=np.float64)[newest][view.mine]
