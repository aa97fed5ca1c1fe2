"""Contributions of all actors in a round: who acts for whom, and what the operator trains on."""

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
    """One actor's part in a round.

    Attributes:
        name: of the actor. mine: (m,), for whom it acts, as positions in the crowd.
        deed: what they do. lengths: (m,), how far each moves.
    """

    name: str
    mine: Rows
    deed: Deed
    lengths: Array

    def acting(self, crowd: Crowd) -> NDArray[np.bool_]:
        """Return who of them (m,) hands in something else than before, or nothing."""
        return self.deed.acts(crowd.codes[self.mine])

    def acted(self, crowd: Crowd) -> bool:
        """Report whether anything comes of it."""
        return bool(self.acting(crowd).any()) or self.deed.counts(crowd.codes[self.mine])["added"] > 0

    def only(self, some: Rows, crowd: Crowd) -> Act:
        """Return the same with some members alone acting, by position in `mine`, and as large a share of added ones."""
        does = np.zeros(self.mine.size, dtype=bool)
        does[some] = True
        deed = self.deed.if_only(does, crowd.codes[self.mine])
        if deed.added is not None:
            count = len(deed.added[0]) * some.size // max(self.mine.size, 1)
            deed = replace(deed, added=(deed.added[0][:count], deed.added[1][:count]))
        return Act(self.name, self.mine, deed, np.where(does, self.lengths, 0.0))


def memberships(actors: Sequence[Any], crowd: Crowd, number: int, lots: Any, taken: Sequence[Rows] = ()) -> list[Rows]:
    """Return for whom each actor acts: who is claimed by several belongs to the first, and who is `taken` to nobody.

    `lots(actor)` gives the random numbers by which an actor draws.
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
    """Return what an actor does; raise where it exceeds its limits, which are those that it began with.

    `view` is the world's own, by which deeds are checked. The actor gets another one, of which nothing can be changed
    that the world, the operator or another actor goes by; and of what it answers the world keeps a copy.
    """
    name = actor.name
    deed = actor.act(handed_out(view))
    if not isinstance(deed, Deed):
        raise DataError(
            f"{name!r} in round {view.number}: must answer with an oar.worlds.Deed(…), got an object of type "
            f"{type(deed).__name__}."
        )
    done, lengths = allowed(name, caps, deed, view)
    return Act(name, view.mine, done, sealed(lengths))


def handed_out(view: View) -> View:
    """Return the same for somebody who is not to be trusted with it."""
    parts = ("crowd", "mine", "deployed", "past", "spent")
    return replace(view, **{part: sealed(getattr(view, part)) for part in parts})


@dataclass(frozen=True, eq=False)
class RoundData:
    """The operator's data of a round: the people, and the position in the crowd of each row (−1: an added point)."""

    people: Population
    origin: Rows


@dataclass(frozen=True, eq=False)
class RoundContributions:
    """The contributions of a round under a model: all deeds, everyone's records, and the operator's data."""

    acts: tuple[Act, ...]
    on_record: Crowd
    handed: RoundData

    @property
    def acting(self) -> set[str]:
        """Who did anything, by name."""
        return {act.name for act in self.acts if act.acted(self.on_record)}


def handed_in(register: Register, crowd: Crowd, acts: Sequence[Act], relabel: Any) -> RoundData:
    """Return what everybody hands in together.

    `relabel(rows, features)` gives the codes of those who moved, and whose actor hands in no labels.
    """
    if not any(act.acted(crowd) for act in acts):
        return RoundData(sealed(register.of_crowd(crowd)), sealed(np.arange(crowd.size)))
    data, origin = crowds.handed_in(crowd, [(act.mine, act.deed) for act in acts], relabel)
    if not origin.size:
        raise DataError("deeds: somebody's data must be left to train on, got a round in which everyone leaves.")
    weights = None if crowd.weights is None else data.weights
    return RoundData(sealed(register.people(data.features, data.codes, weights)), sealed(origin))
