"""The witness of plans for people who are not in memory: everyone moves, and the model is refitted, part by part.

The first pass measures every move against its mover's limit. Nearest centroid is refitted by it, too. Linear models are
refitted before and after the plan side by side, each pass adding up both gradients: Newton steps with the Hessian of
some of the people, fitted to them first; where that leaves too much, with everybody's. Ridge regression is solved by
its normal equations. All of it is NumPy, and written for this purpose alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import Allowance
from oar.errors import OptionError
from oar.models import Ridge, SoftmaxRegression
from oar.people import Chunk
from oar.people.class_sums import added
from oar.people.labels import LabelCoding
from oar.people.parts.part import Part
from oar.people.parts.population import StreamedPopulation, chunks_of
from oar.plans import Plan
from oar.problem import Problem
from oar.referee.centroids import ByClass, Means, UnmovedCentroids, nearest
from oar.referee.centroids import heard as heard_centroids
from oar.referee.limits.moves import MoveSums, measured, measured_query
from oar.referee.parts.newton import FeatureMoments, NewtonTask, both_refitted
from oar.referee.trained import refitted_model
from oar.referee.verdicts import JudgedModel, Retrial
from oar.referee.witnesses.refits import Testimony, WitnessRefit

Array = NDArray[np.float64]
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
    moved = problem.asked.points + own
    sums, pair, unmoved = witness(plan, people, asked, moved)
    return Retrial(sums, [pair], moved, unmoved, violations)


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


def _centroids(plan: Plan, people: StreamedPopulation, asked: _Asked, moved: Array) -> Found:
    problem = plan.problem
    before, after, sizes, sums = added(
        people.mapped(_class_means, asked, len(people.classes), people.dimensions, contents=plan.contents)
    )
    scales = np.maximum(np.abs(before.centroids()).max(axis=1), sizes.centroids()[:, 0])
    old, new = (
        JudgedModel(partial(heard_centroids, problem, means.centroids(), scales), nearest(means.centroids()), CENTROIDS)
        for means in (before, after)
    )
    return sums, (old, new), UnmovedCentroids(before.centroids(), scales, before.counts)


# Linear models


def _linear(plan: Plan, people: StreamedPopulation, asked: _Asked, moved: Array) -> Found:
    problem, model = plan.problem, plan.problem.model
    if not isinstance(model, SoftmaxRegression | Ridge):
        raise OptionError(f"model: people in parts are audited for softmax and ridge regression, got {model.name}.")
    classes = 0 if problem.regresses else len(people.classes)
    sums, moments = added(people.mapped(_looked_at, asked, contents=plan.contents))
    task = NewtonTask(asked, float(model.l2), classes, len(problem.goal_target), people.total_weight)
    old, new = (_as_refit(problem, *fitted) for fitted in both_refitted(people, task, moments))
    pair = refitted_model(problem, old, problem.asked.points), refitted_model(problem, new, moved)
    return sums, pair, old


def _looked_at(part: Part, start: int, asked: _Asked) -> tuple[Any, ...]:
    """Check a part's moves, and measure its people as they are: one reading for both."""
    chunks = asked.chunks(part, start)
    return added(
        (measured(asked.allowance, chunk, moves)[1], FeatureMoments.of(chunk.features, chunk.weights))
        for chunk, moves in chunks
    )


def _as_refit(problem: Problem, matrix: Array, residual: float) -> WitnessRefit:
    """Return a model z = W x + b, (o, d + 1), that can be asked about anybody."""
    loss = _loss_of_values if problem.regresses else _loss_of_classes

    def outputs(rows: Array) -> Array:
        return rows @ matrix[:, :-1].T + matrix[:, -1]

    def testify(query: Array, target: Array) -> Testimony:
        said = outputs(query[None])[0]
        name = EQUATIONS if problem.regresses else NEWTON
        return Testimony(said, loss(said, target), name, residual, residual <= CONVERGED)

    return WitnessRefit(testify, outputs)


def _loss_of_values(outputs: Array, target: Array) -> float:
    return 0.5 * float(((outputs - target) ** 2).sum())


def _loss_of_classes(outputs: Array, target: Array) -> float:
    logits = np.append(outputs, 0.0) if outputs.size == 1 else outputs  # a single logit is against one that is 0
    return float(np.logaddexp.reduce(logits) - target @ outputs)
