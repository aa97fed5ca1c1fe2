"""One round of a simulation, which can be repeated with another deployed model, or with fewer members."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError, NumericsError, OARError
from oar.people import Population
from oar.worlds.people.labels import depends_on_decisions, labels_after, once_decided
from oar.worlds.people.random_streams import stream
from oar.worlds.protocol import Crowd, Rows, State, View
from oar.worlds.records.record import MovementLedger
from oar.worlds.rounds.contributions import Act, RoundContributions, done_by, handed_in, memberships
from oar.worlds.rounds.read_only import sealed

if TYPE_CHECKING:
    from oar.worlds.simulate import Simulation


@dataclass(eq=False)
class SimulationRound:
    """One round of a simulation, which can be repeated with other deployed models, and with fewer members."""

    simulation: Simulation
    number: int
    crowd: Crowd
    deployed: Mapping[int, State]
    past: tuple[Population, ...]
    spent: Mapping[str, MovementLedger]

    def __post_init__(self) -> None:
        self._decides = depends_on_decisions(self.simulation.world.arrivals)
        self._early = tuple(actor for actor in self.simulation.actors if before_decision(actor))
        self._late = self.simulation.actors[len(self._early) :]
        self._taken = self._members(self._early, self.crowd)
        self._mine = None if self._decides else self._members(self._late, self.crowd)

    def _members(self, actors: Sequence[Any], crowd: Crowd, taken: Sequence[Rows] = ()) -> list[Rows]:
        return memberships(actors, crowd, self.number, self.simulation.lots, taken)

    def acts(self, state: State) -> tuple[Act, ...]:
        """Return everybody's deeds if this is deployed: first of actors before its decision, then of all others."""
        early = self._done(self._early, self._taken, self.crowd, state)
        for act in early:
            if act.deed.codes is not None:
                raise DataError(f"{act.name!r} in round {self.number}: hands in labels before there are any on record.")
        crowd = self.on_record(state, early)
        mine = self._members(self._late, crowd, self._taken) if self._mine is None else self._mine
        return early + self._done(self._late, mine, crowd, state)

    def _done(self, actors: Sequence[Any], members: Sequence[Rows], crowd: Crowd, state: State) -> tuple[Act, ...]:
        found = []
        for actor, mine in zip(actors, members, strict=True):
            view = self._view(actor, mine, crowd, state)
            with self.simulation.planning():
                found.append(done_by(actor, self.simulation.caps[actor.name], view))
        return tuple(found)

    def on_record(self, state: State, acts: tuple[Act, ...]) -> Crowd:
        """Return the crowd's records after this model's decision, which follows the actors before it."""
        if not self._decides:
            return self.crowd
        world, applied, early = self.simulation.world, self.crowd.features.copy(), {one.name for one in self._early}
        for act in acts:
            if act.name in early and act.deed.moves is not None:
                applied[act.mine] += act.deed.moves
        rng = stream(self.simulation.seed, "decided", self.number)
        return once_decided(world.arrivals, world.operator.model, state, self.crowd, applied, self.number, rng)

    def _view(self, actor: Any, mine: Rows, crowd: Crowd, state: State) -> View:
        stale = getattr(actor, "stale", 0)
        known = max(self.number - stale, 0)  # the round as of which it knows what is deployed
        return View(
            number=self.number,
            crowd=crowd,
            mine=mine,
            operator=self.simulation.world.operator,
            deployed=self.deployed[known] if stale else state,
            past=self.past[: known + 1],
            rng=stream(self.simulation.seed, "actor", actor.name, self.number),
            spent=self.spent[actor.name].of(self.crowd.persons[mine]),
            spent_by=copy.copy(self.spent[actor.name]).of,
        )

    def handed_in(self, acts: tuple[Act, ...], state: State) -> RoundContributions:
        """Return the contributions of these acts, if this is deployed."""
        world, rng = self.simulation.world, stream(self.simulation.seed, "labels", self.number)
        crowd = self.on_record(state, acts)

        def relabel(rows: Rows, features: Any) -> Rows:
            return labels_after(world, state, crowd, rows, features, self.number, rng)

        return handed_in(self.simulation.register, crowd, acts, relabel)

    def done(self, state: State) -> RoundContributions:
        """Return everybody's deeds if this is deployed, and the resulting contributions."""
        return self.handed_in(self.acts(state), state)

    def retrained(
        self, state: State, done: RoundContributions, some: Callable[[Act, Crowd], Act] | None = None
    ) -> tuple[State, tuple[RoundContributions, ...]]:
        """Return the state after the round, and all responses that the operator asked for.

        Args:
            state: the state before the round.
            done: the round's deeds and contributions.
            some: the only members of an act who act in responses; None for all. If nobody acts, nobody does in them.
        """
        heard: list[RoundContributions] = []

        def respond(state: State) -> Population:
            answer = self.done(state) if done.acts else self.handed_in((), state)
            if some is not None:
                answer = self.handed_in(tuple(some(act, answer.on_record) for act in answer.acts), state)
            heard.append(answer)
            return answer.people

        operator, rng = self.simulation.world.operator, stream(self.simulation.seed, "operator", self.number)
        where = f"round {self.number}"
        batch = done.people
        found = deployed(operator, where, lambda: operator.retrain(state, batch, self.number, respond, rng))
        return found, tuple(heard)

    def critical_masses(
        self, state: State, done: RoundContributions, after: State, acting: set[str]
    ) -> dict[str, float]:
        """Return the smallest share of its members that was found to suffice for each collective in `acting`.

        Members are put in a random order; the first m of them act as recorded, the other members do not, everybody else
        acts as recorded, and the operator retrains. Bisection finds an m that reaches the goal although m − 1 does not.
        It is the smallest one if more members never do harm.
        """
        asking = [act for act in done.acts if act.name in self.simulation.questions and act.name in acting]
        return {act.name: self._critical_mass(state, done, act, after) for act in asking}

    def _critical_mass(self, state: State, done: RoundContributions, whose: Act, after: State) -> float:
        name, size = whose.name, whose.mine.size

        def some(act: Act, crowd: Crowd, count: int) -> Act:
            if act.name != name:
                return act
            # Under another model, which an operator may ask about, there may be other members: as large a share then.
            first = -(-count * act.mine.size // max(size, 1))
            order = stream(self.simulation.seed, "order", name, self.number).permutation(act.mine.size)
            return act.only(order[:first], crowd)

        def enough(count: int) -> bool:
            chosen = tuple(some(act, done.on_record, count) for act in done.acts)
            fewer = self.handed_in(chosen, state)
            return self._reached(name, self.retrained(state, fewer, partial(some, count=count))[0])

        if enough(0):
            return 0.0
        if not self._reached(name, after):
            return float("nan")
        too_few, sufficient = 0, size
        while sufficient - too_few > 1:
            middle = (too_few + sufficient) // 2
            if enough(middle):
                sufficient = middle
            else:
                too_few = middle
        return sufficient / size

    def _reached(self, name: str, state: State) -> bool:
        """Report whether a model gives a collective's query its goal."""
        return self.simulation.questions[name].outcome(self.simulation.world.operator.model, state.parameters).success


def before_decision(actor: Any) -> bool:
    """Report whether an actor acts before the deployed model decides."""
    return bool(getattr(actor, "before_decision", False))


def deployed(operator: Any, where: str, work: Callable[[], State]) -> State:
    """Return the world's own copy of an operator's state; errors name the place and the operator.

    The operator's memory is not copied.
    """
    who = f"{where}, {getattr(operator, 'name', type(operator).__name__)}"
    try:
        state = work()
    except OARError as error:
        raise type(error)(f"{who}: {error}") from error
    if not isinstance(state, State):
        raise DataError(f"{who}: must return an oar.worlds.State(…), got an object of type {type(state).__name__}.")
    if not np.isfinite(state.flat).all():
        rule = getattr(getattr(operator, "rule", None), "name", "the update")
        raise NumericsError(
            f"{who}: {rule} gives parameters that are not finite numbers; take smaller steps, a larger penalty, or "
            "check the rule with oar.testing.check_rule."
        )
    return replace(state, parameters=sealed(state.parameters), flat=sealed(state.flat), kept=sealed(state.kept))
