"""The witness of plans for people who are not in memory: everyone moves, and the model is refitted, part by part.

The first pass measures every move against its mover's limit. Nearest centroid is refitted by it, too. Linear models are
refitted before and after the plan side by side, each pass adding up both gradients; ridge regression is solved by its
normal equations. All of it is NumPy, and written for this purpose alone.

With u = (x − m)/s for means m and spreads s of everybody as they are, z = W u + b is fitted; W/s and b − W m/s is what
it is for features as given. The penalty l2/2 ‖W/s‖² is that of features as given, whatever m and s. Behind a scaler m
and s are those of its own side, before the plan or after it, and the penalty is l2/2 ‖W‖². A Newton step is
θ ← θ − H⁻¹ ∇R(θ), with ∇R of everybody and H of some, to whom it is fitted first. That shrinks the error by about
√(parameters/some) a pass; where it does not, H becomes everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from oar.actions.sets.norms import Allowance
from oar.errors import OptionError
from oar.models import Ridge, Scaled, SoftmaxRegression
from oar.people import Chunk
from oar.people.labels import LabelCoding
from oar.people.parts.part import Part
from oar.people.parts.population import StreamedPopulation, chunks_of
from oar.people.population import added
from oar.plans import Plan
from oar.referee.centroids import ByClass, Means, UnmovedCentroids, nearest, scales_of
from oar.referee.centroids import heard as heard_centroids
from oar.referee.contributions import Array, MoveSums, measured, measured_query
from oar.referee.verdicts import ENTROPY, SQUARED, JudgedModel, Retrial
from oar.referee.witnesses.refits import linear_outputs, of_outputs, refitted_model

CENTROIDS = "class averages of the moved rows, part by part (numpy)"
NEWTON = "Newton steps on sums over parts, to a gradient of norm 1e-10 (numpy)"
EQUATIONS = "normal equations of sums over parts (numpy)"
CONVERGED = 1e-6
Found = tuple[MoveSums, tuple[JudgedModel, JudgedModel], Any]


def in_parts(plan: Plan) -> Retrial:
    """Refit before and after the plan's moves, part by part."""
    problem = plan.problem
    people = problem.people
    assert isinstance(people, StreamedPopulation)
    plan.check_files()
    coding = None if problem.regresses else people.coding
    asked = _Asked(plan.mover(), coding, problem.allowance, plan.rows_at_a_time)
    own, violations = measured_query(problem, plan.query_move)
    witness = _centroids if problem.model.plain_means else _linear
    sums, pair, unmoved = witness(plan, people, asked)
    return Retrial(sums, [pair], problem.asked.points + own, unmoved, violations)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What every worker must know to measure moves."""

    mover: Any
    coding: LabelCoding | None
    allowance: Allowance
    rows: int
    sent_once: ClassVar[bool] = True

    def chunks(self, part: Part, start: int) -> Iterator[tuple[Chunk, Array]]:
        """Walk over a part's people, with their moves as the plan hands them out."""
        for chunk in chunks_of(part.read(), start, self.coding, self.rows):
            yield chunk, self.mover.of_chunk(chunk)


# Nearest centroid


def _class_means(part: Part, start: int, asked: _Asked, classes: int, dimensions: int) -> tuple[Any, ...]:
    """Return a part's class averages before and after, of the largest values, and what became of limits."""
    before, after, sizes = Means(classes, dimensions), Means(classes, dimensions), Means(classes, 1)
    limits = MoveSums()
    for chunk, planned in asked.chunks(part, start):
        moves, found = measured(asked.allowance, chunk, planned)
        by_class, limits = ByClass(chunk, classes), limits + found
        rows = by_class.sort(chunk.features)
        before.add(by_class, rows)
        after.add(by_class, rows + by_class.sort(moves))
        sizes.add(by_class, np.abs(rows).max(axis=1, keepdims=True))
    return before, after, sizes, limits


def _centroids(plan: Plan, people: StreamedPopulation, asked: _Asked) -> Found:
    problem = plan.problem
    before, after, sizes, sums = added(
        people.mapped(_class_means, asked, len(people.classes), people.dimensions, contents=plan.contents)
    )
    scales = scales_of(before, sizes)
    old, new = (
        JudgedModel(partial(heard_centroids, problem, means.centroids(), scales), nearest(means.centroids()), CENTROIDS)
        for means in (before, after)
    )
    return sums, (old, new), UnmovedCentroids(before.centroids(), scales, before.counts)


# Linear models


def _linear(plan: Plan, people: StreamedPopulation, asked: _Asked) -> Found:
    problem, scaled = plan.problem, isinstance(plan.problem.model, Scaled)
    model: Any = plan.problem.model.model if scaled else plan.problem.model  # type: ignore[union-attr]
    if not isinstance(model, SoftmaxRegression | Ridge):
        raise OptionError(f"model: people in parts are audited for softmax and ridge regression, got {model.name}.")
    classes = 0 if problem.regresses else len(people.classes)
    sums, *moments = added(people.mapped(_looked_at, asked, contents=plan.contents))
    both = (_scaled_sides if scaled else _sides)(problem.model, people.size, *moments)
    task = NewtonTask(asked, classes, len(problem.goal_target), people.total_weight, both)
    kind, witness = (SQUARED, EQUATIONS) if problem.regresses else (ENTROPY, NEWTON)
    old, new = (
        of_outputs(linear_outputs(matrix), kind, witness, residual=residual, converged=residual <= CONVERGED)
        for matrix, residual in both_refitted(people, task)
    )
    return sums, (refitted_model(problem, old), refitted_model(problem, new)), old


def _looked_at(part: Part, start: int, asked: _Asked) -> tuple[Any, ...]:
    """Check a part's moves, and measure its people as they are and after them: one reading for all."""
    chunks = asked.chunks(part, start)
    return added(
        (
            measured(asked.allowance, chunk, moves)[1],
            FeatureMoments.of(chunk.features, chunk.weights),
            FeatureMoments.of(chunk.features + moves, chunk.weights),
        )
        for chunk, moves in chunks
    )


TIGHT = 1e-10
FINEST = 1e-14  # steps go on below TIGHT as long as they help: the answer must not depend on where they end
SOME = 20_000  # people by whose Hessian steps are taken
CACHED = 4_096  # people at a time
MOST_PASSES = 60
SLOW = 0.5  # a pass that leaves more of the gradient asks for everybody's Hessian
HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Side:
    """The units of features before a plan or after it, u = (x − mean)/spread, and the penalty there, ½ Σ held W_u²."""

    mean: Array
    spread: Array
    held: Array  # (d,)


@dataclass(frozen=True, eq=False)
class NewtonTask:
    """The task of every worker."""

    asked: Any  # who hands out people and their moves
    classes: int  # 0 where values are regressed
    outputs: int
    total: float  # everybody's weight
    sides: tuple[Side, Side]  # before and after
    sent_once: ClassVar[bool] = True

    def targets(self, chunk: Any) -> Array:
        """Return (n, o): values, class by class 0 or 1, or of two classes whether it is the second."""
        if not self.classes:
            return chunk.values
        return (chunk.codes[:, None] == np.arange(self.classes)[-self.outputs :]).astype(np.float64)

    def both(self, part: Part, start: int, one_in: int = 1) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Walk over a part: (u, 1) before, (u, 1) after, targets, and weights as shares of everybody's.

        Of `one_in` people one is looked at, by position, so that it is the same people in any parts.
        """
        for chunk, moves in self.asked.chunks(part, start):
            targets = self.targets(chunk)
            weights = chunk.row_weights / self.total
            few = slice(-chunk.start % one_in, None, one_in)
            features, moves, targets, weights = chunk.features[few], moves[few], targets[few], weights[few]
            for first in range(0, len(moves), CACHED):
                some = slice(first, first + CACHED)
                rows = features[some]
                before, after = (
                    np.column_stack([(moved - side.mean) / side.spread, np.ones(len(rows))])
                    for side, moved in zip(self.sides, (rows, rows + moves[some]), strict=True)
                )
                yield before, after, targets[some], weights[some]


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Some people's weight, the mean of their features as they are, and squared distances from it (d,)."""

    weight: float
    mean: Array
    squares: Array

    @classmethod
    def of(cls, features: Array, weights: Array | None) -> FeatureMoments:
        """Measure some people."""
        weights = np.ones(len(features)) if weights is None else weights
        weight = float(weights.sum())
        mean = weights @ features / weight if weight > 0 else np.zeros(features.shape[1])
        return cls(weight, mean, weights @ (features - mean) ** 2)

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        """Put two groups together, without losing digits to large means."""
        weight = self.weight + other.weight
        share, apart = other.weight / weight if weight > 0 else 0.0, other.mean - self.mean
        squares = self.squares + other.squares + self.weight * share * apart**2
        return FeatureMoments(weight, self.mean + share * apart, squares)


def _sides(model: Any, size: int, before: FeatureMoments, after: FeatureMoments) -> tuple[Side, Side]:
    """Return the same units for both: how people spread as they are."""
    mean, spread = before.mean, np.sqrt(before.squares / before.weight)
    spread = np.where(spread > 1e-9 * (np.abs(mean) + 1e-300), spread, 1.0)
    return (Side(mean, spread, float(model.l2) / spread**2),) * 2


def _scaled_sides(model: Any, size: int, before: FeatureMoments, after: FeatureMoments) -> tuple[Side, Side]:
    """Return the units of each side's own scaler, or of the first; a column is constant by scikit-learn's bound."""

    def scaler(found: FeatureMoments) -> Side:
        spread = np.sqrt(found.squares / found.weight)
        spread = np.where(spread > size * np.finfo(float).eps * np.abs(found.mean), spread, 1.0)
        return Side(found.mean, spread, np.full(spread.size, float(model.unscaled.l2)))

    return scaler(before), scaler(before if model.frozen else after)


def both_refitted(people: Any, task: NewtonTask) -> list[tuple[Array, float]]:
    """Return (W, b) for features as given, (o, d + 1), and the norm of the gradient left: before and after."""
    if not task.classes:
        solved = zip(task.sides, _least_squares(people, task), strict=True)
        return [(_given(side, matrix), 0.0) for side, matrix in solved]
    few = list(people.mapped(_sampled, task, max(1, people.size // SOME)))
    matrices, inverses = [], []
    for number, side in enumerate(task.sides):
        rows, targets, weights = (np.concatenate([one[place] for one in few]) for place in (number, 2, 3))
        weights = weights / weights.sum()
        matrix = _fitted(task, side, rows, targets, weights)
        matrices.append(matrix)
        inverses.append(_inverse(_curvature(task, rows, targets, weights, matrix) + _held(side, matrix)))
    matrices, sizes = _descended(people, task, matrices, inverses)
    each = zip(task.sides, matrices, sizes, strict=True)
    return [(_given(side, matrix), size) for side, matrix, size in each]


def _descended(
    people: Any, task: NewtonTask, matrices: list[Array], inverses: list[Array]
) -> tuple[list[Array], list[float]]:
    """Take Newton steps for both sides until both gradients are small, or no pass makes them smaller."""
    best, least, slopes = list(matrices), [np.inf, np.inf], list(matrices)
    renewed = False
    for _ in range(MOST_PASSES):
        found = added(people.mapped(_summed, task, _gradient, matrices))
        slow = False
        for side, (slope, matrix) in enumerate(zip(found, matrices, strict=True)):
            slope = slope + _penalty(task.sides[side], matrix)
            size = float(np.linalg.norm(slope))
            slow |= size > max(SLOW * least[side], FINEST)
            if size < least[side]:
                best[side], least[side], slopes[side] = matrix, size, slope
        if max(least) <= FINEST or (slow and (renewed or max(least) <= TIGHT)):
            break
        if slow:  # from the best so far, by everybody's Hessian there
            renewed = True
            inverses = [
                _inverse(one + _held(side, matrix))
                for side, one, matrix in zip(
                    task.sides, added(people.mapped(_summed, task, _curvature, best)), best, strict=True
                )
            ]
        matrices = [
            matrix - (inverse @ slope.ravel()).reshape(matrix.shape)
            for matrix, inverse, slope in zip(best, inverses, slopes, strict=True)
        ]
    return best, least


def _inverse(hessian: Array) -> Array:
    """Return H⁻¹; along directions that move no prediction it is 0."""
    return np.asarray(np.linalg.pinv(hessian, hermitian=True), dtype=np.float64)


def _sampled(part: Part, start: int, task: NewtonTask, one_in: int) -> tuple[Array, ...]:
    """Return some people of a part, spread evenly over it."""
    found = list(task.both(part, start, one_in))
    width = task.sides[0].mean.size + 1
    empty = (np.zeros((0, width)), np.zeros((0, width)), np.zeros((0, task.outputs)), np.zeros(0))
    return tuple(np.concatenate([empty[place], *(one[place] for one in found)]) for place in range(4))


def _shares(task: NewtonTask, outputs: Array) -> Array:
    """Return probabilities (n, o); a single logit is against one that is 0."""
    highest = outputs.max(axis=1, keepdims=True) if task.outputs > 1 else np.maximum(outputs, 0.0)
    exponentials = np.exp(outputs - highest)
    total = exponentials.sum(axis=1, keepdims=True)
    return exponentials / (total if task.outputs > 1 else total + np.exp(-highest))


def _summed(part: Part, start: int, task: NewtonTask, what: Callable[..., Array], matrices: list[Array]) -> list[Any]:
    """Add `what` up over a part's people, before and after, each side at its own matrix."""
    sides: list[Any] = [0.0, 0.0]
    for *both, targets, weights in task.both(part, start):
        for side, (rows, matrix) in enumerate(zip(both, matrices, strict=True)):
            sides[side] = sides[side] + what(task, rows, targets, weights, matrix)
    return sides


def _gradient(task: NewtonTask, rows: Array, targets: Array, weights: Array, matrix: Array) -> Array:
    return ((_shares(task, rows @ matrix.T) - targets) * weights[:, None]).T @ rows


def _curvature(task: NewtonTask, rows: Array, targets: Array, weights: Array, matrix: Array) -> Array:
    """Return Σ w (diag p − p pᵀ) ⊗ (u, 1)(u, 1)ᵀ."""
    shares, width = _shares(task, rows @ matrix.T), rows.shape[1]
    found = np.empty((task.outputs, width, task.outputs, width))
    for one in range(task.outputs):
        for other in range(one + 1):
            bend = shares[:, one] * ((one == other) - shares[:, other]) * weights
            found[one, :, other] = found[other, :, one] = (rows * bend[:, None]).T @ rows
    return found.reshape(matrix.size, matrix.size)


def _held(side: Side, matrix: Array) -> Array:
    """Return the Hessian of the penalty."""
    return np.diag(_penalty(side, np.ones_like(matrix)).ravel())


def _penalty(side: Side, matrix: Array) -> Array:
    """Return the gradient of ½ Σ held W², which leaves the intercept alone."""
    found = np.zeros_like(matrix)
    found[:, :-1] = side.held * matrix[:, :-1]
    return found


def _fitted(task: NewtonTask, side: Side, rows: Array, targets: Array, weights: Array) -> Array:
    """Fit some people by damped Newton steps."""

    def risk(matrix: Array) -> float:
        outputs = rows @ matrix.T
        full = outputs if task.outputs > 1 else np.column_stack([outputs, np.zeros(len(rows))])
        losses = np.logaddexp.reduce(full, axis=1) - (targets * outputs).sum(axis=1)
        return float(weights @ losses) + 0.5 * float((matrix * _penalty(side, matrix)).sum())

    matrix = np.zeros((task.outputs, rows.shape[1]))
    for _ in range(MOST_PASSES):
        slope = _gradient(task, rows, targets, weights, matrix) + _penalty(side, matrix)
        if np.linalg.norm(slope) <= TIGHT:
            break
        curvature = _curvature(task, rows, targets, weights, matrix) + _held(side, matrix)
        step = -(_inverse(curvature) @ slope.ravel()).reshape(matrix.shape)
        now, share = risk(matrix), 1.0
        for _ in range(HALVINGS):
            if risk(matrix + share * step) <= now + 1e-4 * share * float((slope * step).sum()):
                break
            share *= 0.5
        matrix = matrix + share * step
    return matrix


def _squares(task: NewtonTask, rows: Array, targets: Array, weights: Array, matrix: Array) -> Array:
    """Return Σ w (u, 1)(u, 1)ᵀ and Σ w (u, 1) yᵀ, side by side."""
    return (rows * weights[:, None]).T @ np.column_stack([rows, targets])


def _least_squares(people: Any, task: NewtonTask) -> list[Array]:
    found = []
    unused = np.ones((1, task.sides[0].mean.size + 1))
    for side, sums in zip(task.sides, added(people.mapped(_summed, task, _squares, [unused, unused])), strict=True):
        width = sums.shape[0]
        held = _held(side, unused)
        found.append(np.asarray(np.linalg.solve(sums[:, :width] + held, sums[:, width:]).T, dtype=np.float64))
    return found


def _given(side: Side, matrix: Array) -> Array:
    """Return (W, b) for features as given."""
    found = matrix.copy()
    found[:, :-1] = matrix[:, :-1] / side.spread
    found[:, -1] = matrix[:, -1] - found[:, :-1] @ side.mean
    return found
