"""A linear model behind a scaler, bound to people who are not in memory.

Everything is what `ScaledTraining` does but for what it asks of rows of everybody: the statistics of moved features,
and how much the parameters of the model feel of them, are sums over parts. Where everybody has moved to is seen in the
units of the scaler that is fitted there; a step of a signal path carries the units that it was made in.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from oar.actions.sets.norms import Allowance
from oar.models.training import ALL, Array, Fit
from oar.models.wrap.scaled import FLAT, Scaled, ScaledTraining
from oar.people.parts.population import StreamedPopulation
from oar.people.parts.rows import RowsInParts
from oar.streaming.passes import Ahead, PathSums, ScalerUnits, SeenThrough, SignalPath, Stride, Units, felt, moments
from oar.streaming.training import StreamedTraining

KNOWN = 8  # walks of which statistics are kept


class ScaledInParts(ScaledTraining):
    """Implements `Training`, and what a signal path asks for."""

    def __init__(self, model: Scaled, people: StreamedPopulation, allowance: Allowance) -> None:
        inner = StreamedTraining(model.model, people, allowance)  # type: ignore[arg-type]
        found = inner.measured
        spreads = np.sqrt(found.squares / found.weight)
        scales = np.where(spreads > people.size * FLAT * np.abs(found.mean), spreads, 1.0)
        self.inner, self._centres, self._scales = inner, found.mean, scales
        self.people, self.size, self.dimensions = people, people.size, people.dimensions
        inner.seeing(Units(np.zeros(self.dimensions), np.ones(self.dimensions)))
        self._columns = np.arange(0 if model.frozen else self.dimensions)
        self._extra = self._columns.size
        self.first = np.repeat([0.0, 1.0], self._extra)
        self._known: dict[str, Array] = {}

    @property
    def spec(self) -> Any:
        """What every worker must know."""
        return self.inner.spec

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """Everybody's weight as a share of all (n,)."""
        return self.inner.weights

    def moved(self, moves: Any, columns: Any = ALL) -> Any:
        """Return a walk, or moves under a name."""
        return self.inner.moved(moves)

    def contributing(self, targets: Any, weights: Array) -> ScaledInParts:
        """Return the same for other targets and weights; the first scaler only says where numbers are near 1."""
        other = copy.copy(self)
        other.inner, other._known = self.inner.contributing(targets, weights), {}
        return other

    def in_given_units(self, vector: Array) -> Array:
        """Return parameters as they are: `published` says what they mean for features as given."""
        return vector

    # Sums over everybody

    def _learned(self, features: Any) -> Array:
        if not self._extra:
            return self.first
        if features.key not in self._known:
            self.inner.passes += 1
            units = Units(self._centres, self._scales)
            found = reduce(np.add, self.people.mapped(moments, self.spec, features, units))
            while len(self._known) >= KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[features.key] = (found / self.weights.sum()).ravel()
        return self._known[features.key]

    def _seen(self, features: Any, learned: Array) -> SeenThrough:
        return SeenThrough(features, Units(*self._scaler(learned)))

    def _by_learned(self, theta: Array, learned: Array, features: Any, signal: Array) -> Array:
        if not self._extra:
            return np.zeros(0)
        self.inner.passes += 1
        stride = Stride(theta.reshape(self.inner.shape), signal.reshape(self.inner.shape), 0.0)
        seen = self._seen(features, learned)
        slopes, along = reduce(np.add, self.people.mapped(felt, self.spec, seen, stride))
        mean, square = np.split(learned, 2)
        spread = self._spread(mean, square)
        along = np.where(self._varies(mean, square), along, 0.0)
        return np.concatenate([-slopes / spread + along * mean / spread**2, -0.5 * along / spread**2])

    def score_gradients(self, parameters: Array, features: Any, signal: Array, columns: Any = ALL) -> Any:
        """Return ∇_x s_i for everyone, as rows in parts."""
        stride = self.stride(Fit(parameters, features, 0.0, True), signal)
        found = RowsInParts(self.people, Ahead(self.spec, features, stride), self.dimensions)
        return found if columns is ALL else found[:, columns]

    # What a signal path asks for

    def stride(self, fit: Fit, signal: Array, length: float = 0.0, share: float = 1.0) -> Stride:
        """Return a step by a refit and its signal, in the units of its scaler."""
        said = self.published(fit.parameters, signal)
        step = self.inner.stride(replace(fit, parameters=said.parameters), said.signal, length, share)
        return replace(step, units=ScalerUnits(said.centres, said.scales, said.shift, said.spread))

    def advance(self, walk: SignalPath, stride: Stride) -> float:
        """Take a step; return the slope of the way to its aim."""
        return self.inner.advance(walk, stride)

    def compare(self, walk: SignalPath, signal: Stride, last: SignalPath | None) -> PathSums:
        """Return the gap, and gradients along the way from the last walk's end."""
        return self.inner.compare(walk, signal, last)

    def gains(self, walk: SignalPath, signal: Stride) -> Array:
        """Return what everyone's full move from where a walk leads would gain (n,), to first order."""
        return self.inner.gains(walk, signal)
