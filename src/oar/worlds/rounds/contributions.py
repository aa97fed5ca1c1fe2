"""Contributions of all actors in a round: each actor's people, their deeds, and the operator's training data.

A deed that exceeds its actor's limits is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oar.actions.sets.norms import Norm
from oar.checks import check_kind
from oar.errors import DataError
from oar.people import Population
from oar.worlds.people import crowds
from oar.worlds.people.crowds import Register
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Mask, Rows, View
from oar.worlds.rounds.read_only import sealed

ROUNDING = 1e-9  # share of a budget by which moves may exceed it


class DType(NamedTuple):
    """Accepted kinds of numbers, by NumPy's letters, with the type for storage and the name in messages."""

    given: str
    kept: Any
    told: str


FLOATS, CODES, FLAGS = DType("fiu", np.float64, "numbers"), DType("iu", np.intp, "codes"), DType("b", np.bool_, "flags")


@dataclass(frozen=True, eq=False)
class Act:
    """One actor's part in a round: its people, as positions (m,) in the crowd, their deed, and how far each moves."""

    name: str
    mine: Rows
    deed: Deed
    lengths: Array

    def acting(self, crowd: Crowd) -> Mask:
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


def allowed(name: str, caps: Caps, deed: Deed, view: View) -> tuple[Deed, Array]:
    """Return the world's own copy of a deed, and how far each moves, (m,).

    Raise where it is no deed, or exceeds the actor's limits.
    """
    who = f"{name!r} in round {view.number}"
    deed = _read(who, deed, view)
    deed = _without_rounding(deed, caps, view)
    lengths = np.zeros(view.mine.size) if deed.moves is None else Norm.of(caps.norm).length(deed.moves)
    _check_far(who, "moves at most", lengths, caps.budget, view, "shorten the moves, or allow a larger budget")
    if caps.total < np.inf:
        spent = together(lengths, view) + view.spent
        left = "view.spent says what each has moved before"
        if np.unique(view.crowd.persons[view.mine]).size < view.mine.size:
            left += ", and whoever is there several times in a round moves by all of its rows together"
        far = np.where(lengths > 0, spent, 0.0)
        _check_far(who, "moves in all rounds together at most", far, caps.total, view, f"shorten the moves ({left})")
    counts = deed.counts(view.crowd.codes[view.mine]).values()
    allowed_ = {"other labels": caps.labels, "leavers": caps.leavers, "added points": caps.added}
    for (what, most), count in zip(allowed_.items(), counts, strict=True):
        if count > most:
            raise DataError(
                f"{who}: may have at most {most} {what}, got {count}; the world refuses it: do less, or allow more."
            )
    return deed, lengths


def _without_rounding(deed: Deed, caps: Caps, view: View) -> Deed:
    """Return a deed in which nobody moves by what rounding left of a total, or by less than any feature changes."""
    if deed.moves is None:
        return deed
    stood = view.crowd.features[view.mine]
    still = (stood + deed.moves == stood).all(axis=1)
    if caps.total < np.inf:
        least = ROUNDING * caps.total
        still |= (caps.total - view.spent <= least) & (Norm.of(caps.norm).length(deed.moves) <= least)
    return replace(deed, moves=sealed(np.where(still[:, None], 0.0, deed.moves))) if still.any() else deed


def together(values: Array, view: View) -> Array:
    """Return, for each of an actor's people, the sum over all rows (m,) of the same person in this round."""
    _, places = np.unique(view.crowd.persons[view.mine], return_inverse=True)
    return np.asarray(np.bincount(places, weights=values)[places], dtype=np.float64) if places.size else values


def _check_far(who: str, what: str, lengths: Array, most: float, view: View, advice: str) -> None:
    over = lengths > most * (1 + ROUNDING) + np.finfo(float).tiny
    if over.any():
        worst = int(np.argmax(np.where(over, lengths, 0.0)))
        raise DataError(
            f"{who}: each {what} {most:g}, got {lengths[worst]:.6g} for member {worst} (person "
            f"{view.crowd.persons[view.mine[worst]]}), and {int(over.sum())} too far in all; the world "
            f"refuses it: {advice}."
        )


def _read(who: str, deed: Deed, view: View) -> Deed:
    """Return a deed of sealed arrays; raise where one of them is invalid."""
    check_kind(who, deed, Deed, "answered with an oar.worlds.Deed(…)")
    size, dimensions, classes = view.mine.size, view.crowd.features.shape[1], len(view.crowd.classes)
    if not isinstance(deed.note, Mapping):
        raise DataError(f"{who}: note must be a dict, got an object of type {type(deed.note).__name__}.")
    own: dict[str, Any] = {}
    for what, pair, rows, least in (("added", deed.added, None, 0), ("advice", deed.advice, size, -1)):
        if pair is None:
            continue
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"{who}: {what} must be a pair (features, codes), got {pair!r}.")
        count = np.shape(pair[1])[0] if rows is None and np.ndim(pair[1]) else rows or 0
        own[what] = (
            _array(who, f"{what} features", pair[0], (count, dimensions), FLOATS),
            _array(who, f"{what} codes", pair[1], (count,), CODES, classes, least),
        )
    kinds = {"moves": ((size, dimensions), FLOATS), "codes": ((size,), CODES, classes), "leaves": ((size,), FLAGS)}
    given = {what: (getattr(deed, what), *kind) for what, kind in kinds.items() if getattr(deed, what) is not None}
    own |= {what: _array(who, what, *values) for what, values in given.items()}
    return Deed(**own, note=sealed(dict(deed.note)))


def _array(
    who: str, what: str, values: Any, shape: tuple[int, ...], kind: DType, classes: int | None = None, least: int = 0
) -> Any:
    """Return an array of its own memory, which was copied before anything was checked."""
    try:
        given = np.array(values)
    except ValueError:  # rows of different lengths
        raise DataError(f"{who}: {what} must be of shape {shape}, got {values!r}.") from None
    if given.shape != shape or (given.size and given.dtype.kind not in kind.given):
        raise DataError(
            f"{who}: {what} must be {kind.told} of shape {shape}, got {given.dtype} of shape {given.shape}."
        )
    if kind is FLOATS and not np.isfinite(given).all():
        raise DataError(f"{who}: {what} must be finite numbers, got some that are not.")
    if classes is not None and given.size and (given.min() < least or given.max() >= classes):
        raise DataError(
            f"{who}: {what} must be class codes {least} to {classes - 1}, got {given.min()} to {given.max()}."
        )
    return sealed(given.astype(kind.kept, copy=False))
