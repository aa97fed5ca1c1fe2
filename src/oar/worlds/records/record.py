"""Records of a round, and how they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.people import Population
from oar.worlds.deployed.predictions import CollectiveOutcome, predictions, share
from oar.worlds.protocol import Array, Crowd, Mask, Rows, State
from oar.worlds.rounds.contributions import Act, RoundContributions
from oar.worlds.rounds.read_only import sealed

if TYPE_CHECKING:
    from oar.worlds.rounds.step import SimulationRound


@dataclass(frozen=True)
class GroupRecord:
    """The record of a group of the holdout.

    Attributes:
        people: the number of people. accuracy: the share whose label is predicted.
        changed: collateral: the share whose prediction differs from the shadow world's, in which nobody has acted in
            this round or before. accuracy_fall: the fall of accuracy from the shadow world's.
    """

    people: int
    accuracy: float
    changed: float
    accuracy_fall: float


@dataclass(frozen=True)
class ActorRecord:
    """The record of one actor in one round.

    Attributes:
        members: the number of its members. acting: the number of them who changed or withheld their data.
        moved, relabelled, left, added: how many moved, contributed another label, withheld their data, were added.
        burden_mean, burden_max, burden_total: the length of members' moves, in the actor's own norm; the mean is over
            all members, including those who did not move (0 where there are none).
        heaviest: the longest total move of one person so far, over all rounds. A person with several rows in a
            round counts by the row that moves farthest, because budgets are for each row; or, where a `total` limits
            them together, by all of them.
        filtered: the number of its members with data on which the operator did not train.
        note: the actor's own notes.
    """

    members: int
    acting: int
    moved: int
    relabelled: int
    left: int
    added: int
    burden_mean: float
    burden_max: float
    burden_total: float
    heaviest: float
    filtered: int
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AdviceRecord:
    """The record of advice that an actor gave in one round, with its present validity.

    Attributes:
        actor, given: the actor, and the round. age: the number of rounds since then.
        people: the number of people who got it. valid: the share for whom the model now predicts the
            promised class, at the advised features.
    """

    actor: str
    given: int
    age: int
    people: int
    valid: float


@dataclass(frozen=True, eq=False)
class Round:
    """The record of a round.

    Attributes:
        number: 0, 1, ….
        crowd: the people who arrived, before anybody acted. on_record: the same with their codes and groups
            after the deployed model's decisions; `crowd` itself where nothing depends on decisions.
        batch: the contributed data, on which the operator trained. origin: for each row of the batch, its position in
            the crowd, −1 for an added point.
        deployed: the model before. state: the model after. shadow: the model had nobody acted, in this round or before.
        acts: the deed of each actor, in their order. Under an operator that lets people respond again before the round
            is over (`PerformativelyStable`), acts and batch are the last response, from which it learned.
        outcomes: the outcome of each collective's query under the model after the round; for a world without a
            collective, that of its query, under the name None.
        before: the same from the model before the round.
        critical_mass: for each collective that acted, the smallest share found, in a random order of its members, that
            reaches the goal; NaN where all are not enough, 0 where none is needed.
        accuracy: on the holdout. groups: the holdout by groups. collateral: the share of the holdout whose prediction
            differs from the shadow's. accuracy_fall: the fall of accuracy from the shadow's.
        validity: the share of all advice so far that is still valid; NaN where there is none. advice: by round.
        actors: the record of each actor. spent: for each actor, persons (s,) and how far each has moved so far.
        shift: ‖θ_t − θ_{t−1}‖₂. changed: the share of the holdout whose prediction changed with it.
        retrained: whether the operator updated the model. filtered: the number of rows of the batch left out.
    """

    number: int
    crowd: Crowd
    on_record: Crowd
    batch: Population
    origin: Rows
    deployed: State
    state: State
    shadow: State
    acts: tuple[Act, ...]
    outcomes: Mapping[str | None, CollectiveOutcome]
    before: Mapping[str | None, CollectiveOutcome]
    critical_mass: Mapping[str, float]
    accuracy: float
    groups: Mapping[Any, GroupRecord]
    collateral: float
    accuracy_fall: float
    validity: float
    advice: tuple[AdviceRecord, ...]
    actors: Mapping[str, ActorRecord]
    spent: Mapping[str, tuple[Rows, Array]]
    shift: float
    changed: float
    retrained: bool
    filtered: int


class MovementLedger:
    """A ledger of the distance that each person has moved so far for one actor."""

    def __init__(self) -> None:
        self.persons, self.totals = np.zeros(0, dtype=np.intp), np.zeros(0)

    def of(self, persons: Rows) -> Array:
        """Return how far these persons have moved."""
        if not self.persons.size:
            return np.zeros(persons.size)
        places = np.minimum(np.searchsorted(self.persons, persons), self.persons.size - 1)
        return np.where(self.persons[places] == persons, self.totals[places], 0.0)

    def add(self, persons: Rows, lengths: Array, *, rows_add_up: bool) -> None:
        """Record a round: of a person's rows the farthest counts, or all where a total limits them (`rows_add_up`)."""
        some = lengths > 0
        if not some.any():
            return
        here, at = np.unique(persons[some], return_inverse=True)
        now = np.zeros(here.size)
        (np.add if rows_add_up else np.maximum).at(now, at, lengths[some])
        known, places = np.unique(np.concatenate([self.persons, here]), return_inverse=True)
        moved = np.concatenate([self.totals, now])
        totals = np.asarray(np.bincount(places, weights=moved, minlength=known.size), dtype=np.float64)
        self.persons, self.totals = sealed(known), sealed(totals)

    @property
    def heaviest(self) -> float:
        """The largest distance of one person."""
        return float(self.totals.max(initial=0.0))


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


def measured(step: SimulationRound, done: RoundContributions, holdout: Crowd, masses: Any, *states: State) -> Round:
    """Return the record of a round, with critical masses, and the models before, after, and in the shadow world."""
    simulation, (before, after, shadow) = step.simulation, states
    model = simulation.world.operator.model
    kept = np.ones(done.people.size) if after.kept is None else after.kept
    filtered = ~np.asarray(kept, dtype=bool)  # the rows on which the operator did not train
    said = predictions(model, after.parameters, holdout.features)
    earlier = said if after is before else predictions(model, before.parameters, holdout.features)
    otherwise = said if shadow is after else predictions(model, shadow.parameters, holdout.features)
    right, changed = said == holdout.codes, said != otherwise
    right_otherwise = otherwise == holdout.codes
    validity, advice = simulation.ledger.checked(model, after, step.number)
    return Round(
        number=step.number,
        crowd=step.crowd,
        on_record=done.on_record,
        batch=done.people,
        origin=done.origin,
        deployed=before,
        state=after,
        shadow=shadow,
        acts=done.acts,
        outcomes={name: one.outcome(model, after.parameters) for name, one in simulation.questions.items()},
        before={name: one.outcome(model, before.parameters) for name, one in simulation.questions.items()},
        critical_mass=masses,
        accuracy=share(right),
        groups=_by_group(holdout.groups, right, right_otherwise, changed),
        collateral=share(changed),
        accuracy_fall=share(right_otherwise) - share(right),
        validity=validity,
        advice=advice,
        actors={act.name: _of_actor(act, done, filtered, step.spent[act.name].heaviest) for act in done.acts},
        spent={name: (one.persons, one.totals) for name, one in step.spent.items()},
        shift=float(np.linalg.norm(after.flat - before.flat)),
        changed=share(said != earlier),
        retrained=bool(after.retrained),
        filtered=int(filtered.sum()),
    )


def _by_group(groups: NDArray[Any], right: Mask, right_otherwise: Mask, changed: Mask) -> dict[Any, GroupRecord]:
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


def _of_actor(act: Act, done: RoundContributions, filtered: Mask, heaviest: float) -> ActorRecord:
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
