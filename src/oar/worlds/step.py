"""One round of a simulation, as something that can be asked again: with another model deployed, or fewer members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import NumericsError, OARError
from oar.people import Population
from oar.worlds.acts import Act, HandedIn, done_by, handed_in, memberships
from oar.worlds.labels import labels_after
from oar.worlds.parts import Crowd, Rows, State, View
from oar.worlds.record import Spent
from oar.worlds.streams import stream

if TYPE_CHECKING:
    from oar.worlds.simulate import Simulation


class Step:
    """One round of a simulation: what can be asked of it again, with other deployed models, and with fewer members."""

    def __init__(
        self,
        simulation: Simulation,
        number: int,
        crowd: Crowd,
        deployed: Mapping[int, State],
        past: tuple[Population, ...],
        spent: Mapping[str, Spent],
    ) -> None:
        """Say who acts for whom."""
        self.simulation, self.number, self.crowd = simulation, number, crowd
        self._deployed, self._past, self._spent = deployed, past, spent
        self._members = memberships(simulation.actors, crowd, number, lambda actor: simulation.lots(actor, number))

    def acts(self, state: State) -> tuple[Act, ...]:
        """Return what everybody does if this is deployed."""
        return tuple(
            done_by(actor, self._view(actor, mine, state))
            for actor, mine in zip(self.simulation.actors, self._members, strict=True)
        )

    def _view(self, actor: Any, mine: Rows, state: State) -> View:
        stale = getattr(actor, "stale", 0)
        known = max(self.number - stale, 0)  # the round as of which it knows what is deployed
        return View(
            number=self.number,
            crowd=self.crowd,
            mine=mine,
            operator=self.simulation.world.operator,
            deployed=self._deployed[known] if stale else state,
            past=self._past[: known + 1],
            rng=stream(self.simulation.seed, "actor", actor.name, self.number),
            spent=self._spent[actor.name].of(self.crowd.persons[mine]),
        )

    def handed_in(self, acts: tuple[Act, ...], state: State) -> HandedIn:
        """Return what the operator gets, if this is deployed."""
        world, rng = self.simulation.world, stream(self.simulation.seed, "labels", self.number)

        def relabel(rows: Rows, features: Any) -> Rows:
            model = world.operator.model, state
            return labels_after(world.labels, world.arrivals, self.crowd, rows, features, model, self.number, rng)

        return handed_in(self.simulation.register, self.crowd, acts, relabel)

    def retrained(
        self, state: State, acts: tuple[Act, ...], handed: HandedIn, some: Callable[[Act], Act] | None = None
    ) -> State:
        """Return what is deployed after the round; `some` says who of an act's members alone act, None for all.

        An operator who asks how people would respond to another model is told by everybody who acts in `acts`.
        """

        def respond(other: State) -> Population:
            if not acts:
                return handed.people
            answers = self.acts(other)
            chosen = answers if some is None else tuple(some(act) for act in answers)
            return self.handed_in(chosen, other).people

        operator, rng = self.simulation.world.operator, stream(self.simulation.seed, "operator", self.number)
        found = named(f"round {self.number}", lambda: operator.retrain(state, handed.people, self.number, respond, rng))
        return sound(found, self.number)

    def reached(self, name: str, state: State) -> bool:
        """Report whether a model gives a collective's query its goal."""
        return self.simulation.questions[name].outcome(self.simulation.world.operator.model, state.parameters).success

    def order(self, name: str, size: int) -> Rows:
        """Return a random order of a collective's members."""
        return stream(self.simulation.seed, "order", name, self.number).permutation(size)


def named(where: str, work: Callable[[], State]) -> State:
    """Return what the operator does; an error says in which round."""
    try:
        return work()
    except OARError as error:
        raise type(error)(f"{where}: {error}") from error


def sound(state: State, number: int) -> State:
    """Return what was deployed; raise where it is not made of finite numbers."""
    if not np.isfinite(state.flat).all():
        where = "before round 0" if number < 0 else f"round {number}"
        raise NumericsError(
            f"{where}: the operator's update gives parameters that are not finite numbers; take smaller steps, "
            "a larger penalty, or check the rule with oar.testing.check_rule."
        )
    return state
