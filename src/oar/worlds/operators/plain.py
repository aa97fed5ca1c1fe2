"""The plain operator: a model, an update rule, and a defence.

It keeps only the data that its rule reads: everything so far for a full refit, the newest batches for a window, and
nothing but θ for other rules. If a defence skips updates, everything that has arrived since then is kept too, and
forms one batch at the next update, so no data are lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.defences.base import Defence, as_defence
from oar.errors import DataError, OptionError
from oar.models.linear.losses import Linear
from oar.models.linear.training import CHUNK, FEW
from oar.online import FullRefit, Rule
from oar.online.bound_training import shares_units, update_of
from oar.people import Population
from oar.typing import DefenceLike, ModelLike
from oar.worlds.deployed.predictions import check_model, flat
from oar.worlds.people.crowds import pooled
from oar.worlds.protocol import Respond, State
from oar.worlds.rounds.read_only import sealed

FEWEST = 8  # chunks of people that a growing training set is filled up to; then twice as many, and so on
SEED = 0  # of what a defence draws for the history, which no world has a stream for


@with_near_names
class Operator:
    """The operator: fits the model to the history, and updates it after every round by a rule.

    Args:
        model: the deployed model.
        rule: the update rule, one of `oar.online`; None for `FullRefit()`.
        defence: the operator's changes of data, model and calendar before training, one of `oar.defences`, or a list of
            them; None for nothing.
        name: its name in messages.

    Attributes:
        model: the model that is trained and deployed: the defence may have replaced the given one.
        given: the given model.
    """

    def __init__(
        self, model: ModelLike, rule: Rule | None = None, defence: DefenceLike | None = None, name: str = "operator"
    ) -> None:
        check_model(model)
        self.rule = FullRefit() if rule is None else rule
        if isinstance(self.rule, type) or not all(hasattr(self.rule, part) for part in ("name", "reads", "update")):
            raise OptionError(f"rule: must be one of oar.online's rules, such as FullRefit(), got {self.rule!r}.")
        self.defence: Defence = as_defence(defence)
        self.given, self.model, self.name = model, self.defence.model_for(model), name
        if getattr(self.rule, "remembers", True) and not shares_units(self.model):
            raise OptionError(
                f"rule: {self.rule.name} goes on from the last parameters, whose units a scaler changes every round; "
                f"use FullRefit() or Window(…) with {self.model.name}, or a model without a scaler."
            )

    def begin(self, history: Population) -> State:
        """Fit the model to the history."""
        people = sealed(self.defence.prepared(history, self.model, None, np.random.default_rng(SEED)).people)
        parameters = self.model.fit(people)
        return State(parameters, flat(parameters), memory=self._remembered((people,)))

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Update the model by the rule; if the defence skips the refit, only keep the data.

        Everything that has arrived since the last update is then one batch at the next update, the newest.
        """
        retrains = self.defence.retrains(number, rng)
        prepared = self.defence.prepared(batch, self.model, state.parameters, rng)
        kept = None if prepared.kept.all() else prepared.kept
        earlier, newest = state.memory, prepared.people
        if not state.retrained:  # what came last still waits for an update
            earlier, newest = earlier[:-1], pooled((earlier[-1], newest))
        read = (*earlier, sealed(newest))
        if not retrains:
            return State(state.parameters, state.flat, retrained=False, kept=kept, memory=self._remembered(read, 0))
        parameters = self._updated(state, read, number)
        return State(parameters, flat(parameters), kept=kept, memory=self._remembered(read))

    def _remembered(self, read: tuple[Population, ...], more: int = 1) -> tuple[Population, ...]:
        """Return the batches that the next update reads, beside those that are still to come: 1, or 0 if one waits."""
        if self.rule.reads is None:
            return read
        return read[len(read) - min(self.rule.reads - more, len(read)) :]

    def _updated(self, state: State, read: tuple[Population, ...], number: int) -> Any:
        people = pooled(read)
        newest = np.arange(people.size) >= people.size - read[-1].size
        if isinstance(self.model, Linear) and self.rule.reads is None:
            people, newest = _filled_up(people, newest, len(people.classes))
        before = np.array(state.flat) if shares_units(self.model) else None  # its own copy: a rule may work in place
        update = update_of(self.model, people, newest, number, before)
        count, found = update.training.parameter_count, np.array(self.rule.update(update), dtype=np.float64)
        if found.shape != (count,):
            raise DataError(f"rule: {self.rule.name} must return {count} parameters, got shape {found.shape}.")
        return update.training.parameters(found)


def _filled_up(people: Population, newest: Any, outputs: int) -> tuple[Population, Any]:
    """Return people with some more of no weight: passes are compiled for every size, and everything so far grows.

    Where few people are passed over with NumPy nothing is compiled.
    """
    if people.size * outputs <= FEW:
        return people, newest
    chunks = FEWEST
    while chunks * CHUNK < people.size:
        chunks *= 2
    extra = chunks * CHUNK - people.size
    if not extra:
        return people, newest
    weights = people.row_weights
    rows = np.append(np.arange(people.size), np.zeros(extra, dtype=np.intp))
    filled = people.some(rows)
    filled.weights = np.append(weights, np.zeros(extra))
    return filled, np.append(newest, np.zeros(extra, dtype=bool))
