"""Measures of a round, for its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.worlds.deployed.predictions import WorldQuery, predictions, share
from oar.worlds.protocol import Array, Crowd, Rows, State
from oar.worlds.records.record import ActorRecord, AdviceRecord, GroupRecord, MovementLedger, Round
from oar.worlds.rounds.contributions import Act, RoundContributions


class Ledger:
    """The ledger of all advice so far."""

    def __init__(self) -> None:
        self._given: list[tuple[str, int, Array, Rows]] = []

    def note(self, act: Act, number: int) -> None:
        """Record an actor's advice."""
        if act.deed.advice is None:
            return
        features, promised = act.deed.advice
        got = promised >= 0
        if got.any():
            self._given.append((act.name, number, features[got].astype(np.float64), promised[got]))

    def checked(self, model: Any, state: State, number: int) -> tuple[float, tuple[AdviceRecord, ...]]:
        """Return the share of all advice that holds under this model, and advice round by round."""
        found, holds = [], []
        for actor, given, features, promised in self._given:
            valid = predictions(model, state.parameters, features) == promised
            holds.append(valid)
            found.append(AdviceRecord(actor, given, number - given, valid.size, share(valid)))
        return share(np.concatenate(holds)) if holds else float("nan"), tuple(found)


def measured(
    model: Any,
    questions: Mapping[str | None, WorldQuery],
    crowd: Crowd,
    done: RoundContributions,
    holdout: Crowd,
    states: tuple[State, State, State],
    ledger: Ledger,
    number: int,
    critical_mass: Mapping[str, float],
    spent: Mapping[str, MovementLedger],
) -> Round:
    """Return the record of a round.

    `crowd` are the arrivals; `states` the models before, after, and in the shadow world.
    """
    before, after, shadow = states
    kept = np.ones(done.people.size) if after.kept is None else after.kept
    filtered = ~np.asarray(kept, dtype=bool)  # the rows on which the operator did not train
    said = predictions(model, after.parameters, holdout.features)
    earlier = said if after is before else predictions(model, before.parameters, holdout.features)
    otherwise = said if shadow is after else predictions(model, shadow.parameters, holdout.features)
    right, changed = said == holdout.codes, said != otherwise
    right_otherwise = otherwise == holdout.codes
    validity, advice = ledger.checked(model, after, number)
    return Round(
        number=number,
        crowd=crowd,
        on_record=done.on_record,
        batch=done.people,
        origin=done.origin,
        deployed=before,
        state=after,
        shadow=shadow,
        acts=done.acts,
        outcomes={name: one.outcome(model, after.parameters) for name, one in questions.items()},
        before={name: one.outcome(model, before.parameters) for name, one in questions.items()},
        critical_mass=critical_mass,
        accuracy=share(right),
        groups=_by_group(holdout.groups, right, right_otherwise, changed),
        collateral=share(changed),
        accuracy_fall=share(right_otherwise) - share(right),
        validity=validity,
        advice=advice,
        actors={act.name: _of_actor(act, done, filtered, spent[act.name].heaviest) for act in done.acts},
        spent={name: (one.persons, one.totals) for name, one in spent.items()},
        shift=float(np.linalg.norm(after.flat - before.flat)),
        changed=share(said != earlier),
        retrained=bool(after.retrained),
        filtered=int(filtered.sum()),
    )


def _by_group(
    groups: NDArray[Any], right: NDArray[np.bool_], right_otherwise: NDArray[np.bool_], changed: NDArray[np.bool_]
) -> dict[Any, GroupRecord]:
    names, places = _coded(groups)
    sizes = np.bincount(places, minlength=len(names))
    shares = [
        np.bincount(places, weights=mask, minlength=len(names)) / sizes for mask in (right, right_otherwise, changed)
    ]
    return {
        name: GroupRecord(int(size), float(hit), float(change), float(other - hit))
        for name, size, hit, other, change in zip(names, sizes, *shares, strict=True)
    }


def _coded(groups: NDArray[Any]) -> tuple[list[Any], Rows]:
    """Return the groups that occur, in sorted order where they can be sorted, and everyone's place among them."""
    if groups.dtype.kind != "O":
        sorted_names, places = np.unique(groups, return_inverse=True)
        return sorted_names.tolist(), places
    known: dict[Any, int] = {}
    first = np.array([known.setdefault(group, len(known)) for group in groups.tolist()], dtype=np.intp)
    names = list(known)
    try:
        names.sort()
    except TypeError:
        pass  # kinds that do not compare stay in order of first appearance
    return names, np.array([names.index(group) for group in known], dtype=np.intp)[first]


def _of_actor(act: Act, done: RoundContributions, filtered: NDArray[np.bool_], heaviest: float) -> ActorRecord:
    deed, lengths = act.deed, act.lengths
    return ActorRecord(
        members=int(act.mine.size),
        acting=int(act.acting(done.on_record).sum()),
        moved=int((lengths > 0).sum()),
        **deed.counts(done.on_record.codes[act.mine]),
        burden_mean=float(lengths.mean()) if lengths.size else 0.0,
        burden_max=float(lengths.max(initial=0.0)),
        burden_total=float(lengths.sum()),
        heaviest=heaviest,
        filtered=int(np.isin(act.mine, done.origin[filtered]).sum()),
        note=dict(deed.note),
    )
