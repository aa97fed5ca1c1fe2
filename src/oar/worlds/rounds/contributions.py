"""Contributions of all actors in a round: each actor's people, and the operator's training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Population
from oar.worlds.people import crowds
from oar.worlds.people.crowds import Register
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, View
from oar.worlds.rounds.read_only import sealed
from oar.worlds.rounds.refusals import allowed


@dataclass(frozen=True, eq=False)
class Act:
    """One actor's part in a round: its people, as positions (m,) in the crowd, their deed, and how far each moves."""

    name: str
    mine: Rows
    deed: Deed
    lengths: Array

    def acting(self, crowd: Crowd) -> NDArray[np.bool_]:
        """Return who of them (m,) changes or withholds its data."""
        return self.deed.acts(crowd.codes[self.mine])

    def acted(self, crowd: Crowd) -> bool:
        """Report whether it changes any data."""
        return bool(self.acting(crowd).any()) or self.deed.counts(crowd.codes[self.mine])["added"] > 0

    def only(self, some: Rows, crowd: Crowd) -> Act:
        """Return the same with only some members acting, by position in `mine`, and the same share of added points."""
        does = np.zeros(self.mine.size, dtype=bool)
        does[some] = True
        deed = self.deed.if_only(does, crowd.codes[self.mine])
        if deed.added is not None:
            count = len(deed.added[0]) * some.size // max(self.mine.size, 1)
            deed = replace(deed, added=(deed.added[0][:count], deed.added[1][:count]))
        return Act(self.name, self.mine, deed, np.where(does, self.lengths, 0.0))


def memberships(actors: Sequence[Any], crowd: Crowd, number: int, lots: Any, taken: Sequence[Rows] = ()) -> list[Rows]:
    """Return each actor's people: a person claimed by several belongs to the first, and a `taken` one to nobody.

    `lots(actor)` returns an actor's random numbers.
    """
    free, found = np.ones(crowd.size, dtype=bool), []
    for rows in taken:
        free[rows] = False
    for actor in actors:
        claimed = np.asarray(actor.members(sealed(crowd), number, lots(actor)))
        claimed = claimed if claimed.size else claimed.astype(np.intp)  # an empty list is one of floats
        whole = claimed.ndim == 1 and claimed.dtype.kind in "iu"
        inside = claimed.size == 0 or (claimed.min() >= 0 and claimed.max() < crowd.size)
        if not whole or not inside or np.unique(claimed).size < claimed.size:
            raise DataError(
                f"{actor.name!r} in round {number}: members must be different positions 0 to {crowd.size - 1}, got "
                f"{claimed!r}."
            )
        mine = claimed.astype(np.intp)
        mine = mine[free[mine]]
        free[mine] = False
        found.append(sealed(mine))
    return found


def done_by(actor: Any, caps: Caps, view: View) -> Act:
    """Return an actor's deed; raise where it exceeds the limits with which the actor began.

    `view` is the world's own, which checks deeds. The actor gets a read-only copy, so that it cannot change data of the
    world, the operator or another actor; and the world keeps a copy of its answer.
    """
    parts = ("crowd", "mine", "deployed", "past", "spent")
    handed_out = replace(view, **{part: sealed(getattr(view, part)) for part in parts})
    done, lengths = allowed(actor.name, caps, actor.act(handed_out), view)
    return Act(actor.name, view.mine, done, sealed(lengths))


@dataclass(frozen=True, eq=False)
class RoundContributions:
    """The contributions of a round under a model: all deeds, everyone's records, and the operator's data.

    These are the people, and the position in the crowd of each row (−1: an added point).
    """

    acts: tuple[Act, ...]
    on_record: Crowd
    people: Population
    origin: Rows

    @property
    def acting(self) -> set[str]:
        """Who did anything, by name."""
        return {act.name for act in self.acts if act.acted(self.on_record)}


def handed_in(register: Register, crowd: Crowd, acts: tuple[Act, ...], relabel: Any) -> RoundContributions:
    """Return everybody's contributions together.

    `relabel(rows, features)` gives the codes of people who moved and whose actor contributes no labels.
    """
    if not any(act.acted(crowd) for act in acts):
        return RoundContributions(acts, crowd, sealed(register.of_crowd(crowd)), sealed(np.arange(crowd.size)))
    data, origin = crowds.handed_in(crowd, [(act.mine, act.deed) for act in acts], relabel)
    if not origin.size:
        raise DataError("deeds: somebody's data must be left to train on, got a round in which everyone leaves.")
    weights = None if crowd.weights is None else data.weights
    people = register.people(data.features, data.codes, weights)
    return RoundContributions(acts, crowd, sealed(people), sealed(origin))
