"""A linear model bound to people who are not in memory: `LinearTraining`, whose passes are map-reduces over parts.

Newton steps, the curvature that is kept, and conjugate gradients are those of `training`; only the sums that
they ask for are made elsewhere. In place of moved features it is given a walk, from which everybody's follow.
"""

from __future__ import annotations

import copy
import operator
import secrets
import weakref
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from oar.actions.sets.norms import Allowance, Norm
from oar.errors import DataError, OptionError
from oar.models.fit.quasi_newton import SMALL, InverseCurvature, NewtonPoint
from oar.models.linear.losses import Linear, Ridge, SoftmaxRegression
from oar.models.linear.training import LinearTraining, power_of_two
from oar.models.training import ALL, Array, Fit
from oar.models.wrap.scaled import Scaled
from oar.people.parts.population import StreamedPopulation
from oar.people.parts.rows import RowsInParts, formula_of
from oar.streaming import scratch
from oar.streaming.passes import (
    Ahead,
    GivenMoves,
    PartStatistics,
    PathSums,
    SignalPath,
    Spec,
    Stride,
    Units,
    added_leaves,
    advance,
    compare,
    gains,
    measure,
    total,
)
from oar.tolerances import COARSE

MANY = 1_000_000  # a number of chunks that is "many"
NOBODY_MOVES = Allowance(Norm(2.0), 0.0)


class StreamedTraining(LinearTraining):
    """Implements the refits and solves of `Training`; passes are counted in `passes`."""

    def __init__(self, model: Linear, people: StreamedPopulation, allowance: Allowance = NOBODY_MOVES) -> None:
        """Read everybody once, to know units, and a few people to begin with; `allowance` is for signal paths."""
        if not isinstance(model, SoftmaxRegression | Ridge):
            raise OptionError(
                f"model: people in parts can be planned for with nearest centroid, softmax and ridge regression, got "
                f"{model.name}; use people.loaded() if they fit into memory."
            )
        if model.l2 == 0:
            raise OptionError(
                f"model: {model.name} with l2 = 0 may have no unique fit, and who is in parts cannot be asked why; use "
                "l2 > 0, or people.loaded()."
            )
        regresses = bool(model.regresses)
        if regresses and not people.holds_numbers:
            raise DataError(f"labels: must be numbers to be regressed by {model.name}, got text.")
        coding = None if regresses else people.coding
        classes = 0 if coding is None else len(people.classes)
        outputs = 1 if coding is None else model.target_rows(np.eye(classes)).shape[1]
        self.people, self.run = people, secrets.token_hex(6)
        spec = Spec(
            model,
            outputs,
            coding,
            classes,
            allowance,
            people.total_weight,
            people.weighted,
            self.run,
            np.zeros(people.dimensions),
            np.ones(people.dimensions),
        )
        weakref.finalize(self, scratch.clear, self.run)
        self.model, self._passing, self.passes = model, model, 0
        self.size, self.dimensions = people.size, people.dimensions
        self.shape = (outputs, self.dimensions + 1)
        self.parameter_count = self.shape[0] * self.shape[1]
        self.passes += 1
        few: PartStatistics = reduce(operator.add, people.mapped(measure, spec, self.size))
        if coding is not None and not few.totals.all():
            empty = people.classes[int(np.argmin(few.totals))]
            raise DataError(f"labels: every class needs some weight to be fitted, got none for class {empty!r}.")
        self._centre, self._scale = _units(few, model)
        self._unit = 1.0
        if regresses:
            self._unit = float(power_of_two(np.array(few.targets.std() or np.abs(few.targets).max() or 1.0)))
        self.spec = replace(spec, centre=self._centre, scale=self._scale)
        self._few_people, self._chunks = few, MANY
        self._few, self._quick, self._small = False, False, self.parameter_count <= SMALL
        self._sizes = np.ones(1)
        self._inverse: InverseCurvature | None = None
        self._known: tuple[str, bytes, tuple[float, Array]] | None = None

    def moved(self, moves: Any, columns: Any = None) -> Any:
        """Return a walk as it is, and rows of moves under a name; without any, that nobody moves."""
        if moves is None:
            return SignalPath()
        return moves if isinstance(moves, SignalPath) else GivenMoves(formula_of(moves), secrets.token_hex(6))

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """Everybody's weight as a share of all (n,)."""
        if self.spec.shares is not None:
            return self.spec.shares
        return self.people.row_weights / self.spec.total

    def contributing(self, targets: Any, weights: Array) -> StreamedTraining:
        """Return the same training for other targets, rows in parts (n, o) or an array, and weights (n,)."""
        other = copy.copy(self)
        other.run, other.passes, other._known = secrets.token_hex(6), 0, None
        other.spec = replace(self.spec, run=other.run, given=formula_of(targets), shares=weights)
        weakref.finalize(other, scratch.clear, other.run)
        return other

    def score_gradients(self, parameters: Array, features: Any, signal: Array, columns: Any = ALL) -> Any:
        """Return ∇_x s_i for everyone, as rows in parts."""
        stride = Stride(parameters.reshape(self.shape), signal.reshape(self.shape), 0.0)
        found = RowsInParts(self.people, Ahead(self.spec, features, stride), self.dimensions)
        return found if columns is ALL else found[:, columns]

    def seeing(self, units: Units) -> None:
        """Keep parameters for features in these units, in which they are measured for the penalty, too."""
        self._centre, self._scale = units.centre, units.scale
        self.spec = replace(self.spec, centre=units.centre, scale=units.scale)

    @property
    def measured(self) -> PartStatistics:
        """What was found of everybody before any move."""
        return self._few_people

    def _run(self, kind: str, features: Any, *arguments: Array) -> list[Any]:
        """Run one pass over all parts; return one result, their sum."""
        if kind == "risk" and self._known is not None:
            key, parameters, known = self._known
            if key == features.key and parameters == arguments[0].tobytes():
                return [known]
        self.passes += 1
        return [reduce(added_leaves, self.people.mapped(total, self.spec, features, kind, *arguments))]

    def advance(self, walk: SignalPath, stride: Stride) -> float:
        """Take a step; return the slope of the way to its aim. The risk where it leads is kept for the refit."""
        self.passes += 1
        slope, risk, gradient = 0.0, 0.0, np.zeros(self.shape)
        for one in self.people.mapped(advance, self.spec, walk, stride):
            slope, risk, gradient = slope + one[0], risk + one[1], gradient + one[2]
        self._known = walk.then(stride).key, stride.parameters.tobytes(), (risk, gradient)
        return slope

    def compare(self, walk: SignalPath, signal: Stride, last: SignalPath | None) -> PathSums:
        """Return the gap, and gradients along the way from the last walk's end."""
        self.passes += 1
        return sum(self.people.mapped(compare, self.spec, walk, signal, last), PathSums())

    def gains(self, walk: SignalPath, signal: Stride) -> Array:
        """Return what everyone's full move from where a walk leads would gain (n,), to first order."""
        self.passes += 1
        return np.concatenate(list(self.people.mapped(gains, self.spec, walk, signal)))

    def stride(self, fit: Fit, signal: Array, length: float = 0.0, share: float = 1.0) -> Stride:
        """Return a step by a refit and its signal."""
        return Stride(fit.parameters.reshape(self.shape), signal.reshape(self.shape), length, share)

    # What `LinearTraining` does with all rows in memory

    def _coarse(self, features: Any) -> Array:
        """Return parameters fitted to a few people, and keep what their curvature says about everyone's."""
        few = self._few_people
        if features.strides or not few.weights.sum() > 0:
            return self.start()
        some = LinearTraining(
            self.model,
            features.rows(few.rows),
            few.targets,
            few.weights / few.weights.sum(),
            (self._centre, self._scale),
        )
        found = some.fit(some.moved(None), self.start(), COARSE)
        self._inverse = some._renewed(found.parameters, some.moved(None))
        return found.parameters

    def _measured_afresh(self, point: NewtonPoint, features: Any) -> NewtonPoint:
        return point

    def _best_lengths(self, point: NewtonPoint, step: Array, features: Any) -> None:
        return None


def _units(few: PartStatistics, model: Linear) -> tuple[Array, Array]:
    """Return centre and scale, as `units` does for people in memory."""
    spread = np.sqrt(few.squares / few.weight)
    centre = few.mean
    if not model.free_intercept:
        spread, centre = np.sqrt(few.squares / few.weight + few.mean**2), np.zeros_like(centre)
    else:
        spread = np.where(few.high > few.low, spread, 0.0)
    return centre, power_of_two(np.where(spread > 0, spread, spread.max()))


def training_in_parts(model: Any, people: StreamedPopulation, allowance: Allowance = NOBODY_MOVES) -> Any:
    """Bind a model to people in parts; what a signal path's steps are projected into is `allowance`."""
    if model.plain_means:
        from oar.streaming.centroids import CentroidsInParts

        return CentroidsInParts(model, people)
    if isinstance(model, Scaled):
        from oar.streaming.scaled import ScaledInParts

        return ScaledInParts(model, people, allowance)
    return StreamedTraining(model, people, allowance)
