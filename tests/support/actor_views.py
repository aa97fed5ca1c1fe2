"""One round of a small world, made by hand, in which an actor is tried: people, an operator who refits, and a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.models import MLP, NearestCentroid, PrototypeNetwork, SoftmaxRegression
from oar.people import Population
from oar.worlds.actors.common import handed_in_now
from oar.worlds.protocol import Crowd, Deed, State, View

CLASSES = ("no", "yes")


@dataclass
class Refitting:
    """An operator who refits to everything so far; its memory is what it has read."""

    model: Any
    name: str = "operator"
    works: bool = True

    def begin(self, history: Population) -> State:
        """Fit to what was there."""
        return self._fitted((history,))

    def retrain(self, state: State, batch: Population, number: int, respond: Any, rng: Any) -> State:
        """Fit to everything, unless it is on holiday."""
        if not self.works:
            return State(state.parameters, state.flat, retrained=False, memory=state.memory)
        return self._fitted((*state.memory, batch))

    def _fitted(self, batches: tuple[Population, ...]) -> State:
        features = np.concatenate([batch.features for batch in batches])
        codes = np.concatenate([batch.codes(0, batch.size) for batch in batches])
        parameters = self.model.fit(Population.of_codes(features, codes, batches[0].classes))
        return State(parameters, np.zeros(1), memory=batches)


def two_blobs(seed: int = 0, size: int = 24, classes: tuple[Any, ...] = CLASSES, apart: float = 1.5) -> Any:
    """Return features (n, 2) and codes (n,): a cloud for each class, which overlap."""
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % len(classes)
    angles = 2 * np.pi * codes / len(classes)
    centres = apart * np.column_stack([np.cos(angles), np.sin(angles)])
    return centres + rng.normal(size=(size, 2)), codes.astype(np.intp)


def crowd_of(features: np.ndarray, codes: np.ndarray, classes: tuple[Any, ...] = CLASSES) -> Crowd:
    """Return a crowd of one group."""
    size = len(features)
    return Crowd(features, codes, classes, np.zeros(size, dtype=int), np.arange(size))


def view_of(
    model: Any, actor: Any, seed: int = 0, size: int = 24, classes: tuple[Any, ...] = CLASSES, **settings: Any
) -> View:
    """Return what an actor sees in round 0, after a history of other people."""
    history = Population.of_codes(*two_blobs(seed + 100, size, classes), classes)
    operator = Refitting(model, **settings)
    crowd = crowd_of(*two_blobs(seed, size, classes), classes)
    mine = actor.members(crowd, 0, np.random.default_rng(seed))
    return View(0, crowd, mine, operator, operator.begin(history), (history,), np.random.default_rng(seed + 1))


def loss_after(view: View, deed: Deed, query: Any, goal: int) -> float:
    """Return the goal loss at the query when everything is refitted from scratch, by code that no actor calls."""
    now = handed_in_now(view, deed)
    past = view.past[0]
    features = np.concatenate([past.features, now.features])
    codes = np.concatenate([past.codes(0, past.size), now.codes])
    model = view.operator.model
    parameters = model.fit(Population.of_codes(features, codes, view.crowd.classes))
    return float(model.goal_loss(parameters, np.asarray(query, dtype=float), goal))


CENTROID, SOFTMAX = NearestCentroid(), SoftmaxRegression(l2=0.05)
NETWORK, PROTOTYPES = MLP(hidden=(3,), l2=0.05), PrototypeNetwork()
