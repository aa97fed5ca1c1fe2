"""Foresight of a collective: the people whom the update rule will read next, and the expected arrivals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.errors import DataError
from oar.online import FullRefit, OnlineProblem, Stream
from oar.online.bound_training import shares_units
from oar.online.stream import HISTORY
from oar.people import Population
from oar.worlds.collective import CollectiveView
from oar.worlds.people.crowds import pooled, register_of
from oar.worlds.people.labels import depends_on_decisions, once_decided
from oar.worlds.people.random_streams import drawn_share
from oar.worlds.protocol import Crowd, Rows


def acting_rule(view: CollectiveView) -> Any:
    """Return the operator's update rule; an operator without one counts as a full refit."""
    return getattr(view.operator, "rule", None) or FullRefit()


def read_before(view: CollectiveView) -> tuple[Population, ...]:
    """Return the earlier batches that the rule still reads in this round, as far as the collective knows them."""
    reads = acting_rule(view).reads
    return view.past if reads is None else view.past[len(view.past) - min(reads - 1, len(view.past)) :]


def _expected(view: CollectiveView, number: int) -> Crowd:
    """Return expected arrivals of a round, with decisions as of the present model."""
    crowd = view.arrivals.draw(number, view.rng)
    if not depends_on_decisions(view.arrivals):
        return crowd
    model, features = view.operator.model, crowd.features
    return once_decided(view.arrivals, model, view.deployed, crowd, features, number, view.rng)


def _expected_members(view: CollectiveView, crowd: Crowd, number: int) -> Rows:
    """Return the members among expected arrivals: present members stay members, the others are drawn.

    Planners do not know people's uniform draws. The draw of a person who is present and not a member is not below the
    adoption a; it is below a' > a, of a later round, with probability (a' − a)/(1 − a). A member's draw is below a' < a
    with probability a'/a.
    """
    collective, everyone = view.collective, np.arange(crowd.size)
    here, mine = (np.isin(crowd.persons, some) for some in (view.crowd.persons, view.crowd.persons[view.mine]))
    now, then = collective.adoption(view.number), collective.adoption(number)
    joining = max(then - now, 0.0) / (1 - now) if now < 1 else 0.0
    members = np.isin(everyone, collective.members(crowd, number, view.rng)) & ~here
    staying = min(then / now, 1.0) if now > 0 else 1.0
    for share, some in ((joining, here & ~mine & collective.may(crowd)), (staying, mine)):
        members[drawn_share(share, np.flatnonzero(some), crowd, view.rng)] = True
    return np.flatnonzero(members)


def problem_ahead(view: CollectiveView, ahead: int, goal_for: str, *, real: bool) -> OnlineProblem:
    """Return the online problem of this round and the `ahead` − 1 next ones.

    The people of later rounds are drawn from the arrivals, and so are those of this round unless it is `real`: then
    they are the actual arrivals. In later rounds the collective's share are members, including present members who
    return. If the collective has a `total`, all rows of a person share the rest of it. The problem assumes that labels
    stay, that nobody else acts, and that the operator has no defence besides its model.

    All earlier batches that are still read count as one: a window that moves on leaves them together.
    """
    caps, collective = view.collective.caps, view.collective
    register, batches, budgets, persons = register_of(view.crowd), [], [], []
    for number in range(view.number, view.number + ahead):
        here = real and number == view.number
        crowd = view.crowd if here else _expected(view, number)
        members = view.mine if here else _expected_members(view, crowd, number)
        batches.append(register.of_crowd(crowd))
        budgets.append(np.where(np.isin(np.arange(crowd.size), members), caps.budget, 0.0))
        persons.append(crowd.persons)
    before, rule, shared = read_before(view), acting_rule(view), caps.total < np.inf
    if rule.reads is not None and rule.reads > 1 + ahead:
        rule = FullRefit()  # the window reads all that there is
    # Rounds' people, and after them who was there before; classes are the world's, also those that all lack.
    sizes, rest = [batch.size for batch in batches], sum(batch.size for batch in before)
    stream = Stream(pooled((*batches, *before)), np.repeat([*range(ahead), HISTORY], [*sizes, rest]))
    if shared:  # of the history everyone is somebody else
        known = np.concatenate(persons)
        stream = replace(stream, who=np.append(known, int(known.max(initial=0)) + 1 + np.arange(rest)))
    # How far persons may still move in all remaining rounds; ∞ where rounds do not share a budget.
    left = [np.maximum(caps.total - view.spent_by(some), 0.0) for some in persons]
    try:
        return OnlineProblem(
            stream,
            view.operator.model,
            rule,
            collective.query,
            [Perturb(np.minimum(each, most), norm=caps.norm) for each, most in zip(budgets, left, strict=True)],
            goal_for=goal_for,
            shared=np.concatenate([*left, np.zeros(rest)]) if shared else False,
            start=view.deployed.parameters if shares_units(view.operator.model) else None,
        )
    except DataError as reason:
        since = f" (Rounds are counted from round {view.number}, in which this is planned.)" if view.number else ""
        raise DataError(f"{reason}{since}") from None
