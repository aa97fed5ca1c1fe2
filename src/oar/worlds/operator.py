"""The plain operator: a model, a rule by which it is updated, and whatever defends it."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.people import Population
from oar.worlds.crowds import pooled
from oar.worlds.judging import check_model, flat
from oar.worlds.parts import Respond, State


class Operator:
    """Who keeps the model: fits it to what was there, and updates it after every round by a rule.

    Args:
        model: what is deployed.
        rule: how it is updated when a batch arrives, one of `oar.online`.
        defence: what the operator does to data, model and calendar before it trains, one of `oar.defences`, or a list
            of them; None for nothing.
        name: under which messages know it.
    """

    def __init__(self, model: Any, rule: Any = None, defence: Any = None, name: str = "operator") -> None:
        """Check the model."""
        check_model(model)
        self.model, self.rule, self.defence, self.name = model, rule, defence, name

    def begin(self, history: Population) -> State:
        """Fit the model to what was there."""
        parameters = self.model.fit(history)
        return State(parameters, flat(parameters), memory=(history,))

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Update the model by the rule."""
        read = (*state.memory, batch)
        parameters = self.model.fit(pooled(read))
        return State(parameters, flat(parameters), memory=read)
