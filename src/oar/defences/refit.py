"""A defended refit: which model is trained, on whom, and with which weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.defences.base import Defence, Prepared
from oar.defences.clipping import reweighed
from oar.people import Population

SEED = 0


@dataclass(frozen=True, eq=False)
class DefendedRefit:
    """The refit of a defended operator to the contributors."""

    model: Any  # the model that is trained
    prepared: Prepared  # the people on whom it is trained, and their weights
    everyone: Population  # all contributors, in their places; people who are left out have weight 0

    def fit(self) -> Any:
        """Return the model's parameters."""
        return self.model.fit(self.prepared.people)


def defended_refit(people: Population, model: Any, defence: Defence, deployed: Any = None) -> DefendedRefit:
    """Return a defended refit on contributors; `deployed` are earlier parameters, None for those of a fit to them."""
    defended = defence.model_for(model)
    parts = getattr(defence, "parts", (defence,))
    if deployed is None and any(type(part).prepared is not Defence.prepared for part in parts):
        deployed = defended.fit(people)
    prepared = defence.prepared(people, defended, deployed, np.random.default_rng(SEED))
    if prepared.people is people:
        return DefendedRefit(defended, prepared, people)
    weights = np.zeros(people.size)
    weights[prepared.kept] = prepared.people.row_weights
    return DefendedRefit(defended, prepared, reweighed(people, defended, weights))
