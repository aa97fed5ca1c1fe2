"""The audit of plans for people who are not in memory: everyone moves, and the model is refitted, part by part.

The first pass measures every move against its mover's limit. Nearest centroid is refitted by it, too. Linear models are
refitted before and after the plan side by side, each pass adding up both gradients: Newton steps with the Hessian of
some of the people, fitted to them first; where that leaves too much, with everybody's. Ridge regression is solved by
its normal equations. All of it is NumPy, and written for this purpose alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from oar.plans import Audit, Plan
from oar.plans.explain.independence import Independence
from oar.problem import Problem
from oar.referee.centroids import ByClass, Means, UnmovedCentroids
from oar.referee.centroids import heard as heard_centroids
from oar.referee.limits.moves import LIMIT_SLACK, lengths_of
from oar.referee.limits.offences import MOST, Offences
from oar.referee.limits.table_moves import trainable
from oar.referee.parts.newton import FeatureMoments, NewtonTask, both_refitted
from oar.referee.trained import heard
from oar.referee.verdicts import AuditSummary
from oar.referee.witnesses.refits import Testimony, WitnessRefit

Array = NDArray[np.float64]
CENTROIDS = "class averages of the moved rows, part by part (numpy)"
NEWTON = "Newton steps on sums over parts, to a gradient of norm 1e-10 (numpy)"
EQUATIONS = "normal equations of sums over parts (numpy)"
CONVERGED = 1e-6


def audit_streamed(plan: Plan) -> tuple[Audit, UnmovedCentroids | WitnessRefit]:
    """Refit before and after the plan's moves; return what the query gets, and the refit to unmoved people."""
    problem = plan.problem
    people = problem.people
    assert isinstance(people, StreamedPopulation)
    plan.check_files()
    coding = None if problem.regresses else people.coding
    asked = _Asked(plan.mover(), coding, problem.allowance, problem.allowance.norm.p, plan.rows_at_a_time)
    if problem.model.plain_means:
        return _centroids(plan, people, asked)
    return _linear(plan, people, asked)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What every worker must know to measure moves."""

    mover: Any
    coding: LabelCoding | None
    allowance: Allowance
    order: float
    rows: int
    sent_once: ClassVar[bool] = True

    def chunks(self, part: Part, start: int) -> Iterator[tuple[Chunk, Array]]:
        """Walk over a part's people, with their moves as the plan hands them out."""
        for chunk in chunks_of(part.read(), start, self.coding, self.rows):
            yield chunk, self.mover.of_chunk(chunk)


@dataclass(frozen=True)
class MoveSums:
    """How many move, how far in all, and the first who move farther than they may."""

    movers: int = 0
    effort: float = 0.0
    first: tuple[str, ...] = ()
    offenders: int = 0

    def __add__(self, other: MoveSums) -> MoveSums:
        first = (*self.first, *other.first)[:MOST]
        return MoveSums(self.movers + other.movers, self.effort + other.effort, first, self.offenders + other.offenders)

    @property
    def violations(self) -> tuple[str, ...]:
        """Who moves farther than it may, in words: the first few, and how many more."""
        told = Offences()
        told.add_all(self.first, self.offenders)
        return told.told


def _checked(asked: _Asked, chunk: Chunk, moves: Array) -> tuple[Array, MoveSums]:
    """Measure some people's moves; return those that can be trained on."""
    allowed, lengths = asked.allowance.of(chunk.start, chunk.stop), lengths_of(moves, asked.order)
    beyond = ~(lengths <= allowed * (1 + LIMIT_SLACK))  # also of moves that are not numbers
    told = tuple(
        f"person {chunk.start + int(row)} moves by {lengths[row]:.6g}, limit {allowed[row]:.6g}"
        for row in np.flatnonzero(beyond)[:MOST]
    )
    found = MoveSums(int(np.count_nonzero(lengths)), float(lengths.sum()), told, int(np.count_nonzero(beyond)))
    return (trainable(moves, beyond) if told else moves), found


# Nearest centroid


def _class_means(part: Part, start: int, asked: _Asked, classes: int, dimensions: int) -> tuple[Any, ...]:
    """Return a part's class averages before and after, of the largest values, and what became of limits."""
    before, after, sizes = Means(classes, dimensions), Means(classes, dimensions), Means(classes, 1)
    limits = MoveSums()
    for chunk, planned in asked.chunks(part, start):
        moves, found = _checked(asked, chunk, planned)
        by_class, limits = ByClass(chunk, classes), limits + found
        rows = by_class.sort(chunk.features)
        before.add(by_class, rows)
        after.add(by_class, rows + by_class.sort(moves))
        sizes.add(by_class, np.abs(rows).max(axis=1, keepdims=True))
    return before, after, sizes, limits


def _centroids(plan: Plan, people: StreamedPopulation, asked: _Asked) -> tuple[Audit, UnmovedCentroids]:
    problem = plan.problem
    before, after, sizes, limits = added(
        people.mapped(_class_means, asked, len(people.classes), people.dimensions, contents=plan.contents)
    )
    scales = np.maximum(np.abs(before.centroids()).max(axis=1), sizes.centroids()[:, 0])
    own, violations = _query_move(problem, plan.query_move)
    points = problem.asked.points
    told = AuditSummary(
        problem,
        heard_centroids(problem, before.centroids(), points, scales),
        heard_centroids(problem, after.centroids(), points + own, scales),
    )
    evidence = UnmovedCentroids(before.centroids(), scales, before.counts)
    return _report(told, limits, violations, CENTROIDS, 0.0, True), evidence


def _query_move(problem: Problem, move: Array) -> tuple[Array, tuple[str, ...]]:
    """Measure the query's own move."""
    if not move.any():
        return move, ()
    length, allowed = float(lengths_of(move[None], problem.allowance.norm.p)[0]), problem.query_budget
    if length <= allowed * (1 + LIMIT_SLACK):
        return move, ()
    return trainable(move[None])[0], (f"the query moves by {length:.6g}, limit {allowed:.6g}",)


def _report(
    told: AuditSummary, limits: MoveSums, violations: tuple[str, ...], witness: str, residual: float, converged: bool
) -> Audit:
    broken = (*limits.violations, *violations)
    return Audit(
        **told.reported(not broken),
        movers=limits.movers,
        effort=limits.effort,
        violations=broken,
        witness=witness,
        residual=residual,
        converged=converged,
        independence=Independence.IMPLEMENTATION,
    )


# Linear models


def _linear(plan: Plan, people: StreamedPopulation, asked: _Asked) -> tuple[Audit, WitnessRefit]:
    problem, model = plan.problem, plan.problem.model
    if not isinstance(model, SoftmaxRegression | Ridge):
        raise OptionError(f"model: people in parts are audited for softmax and ridge regression, got {model.name}.")
    classes = 0 if problem.regresses else len(people.classes)
    limits, moments = added(people.mapped(_looked_at, asked, contents=plan.contents))
    task = NewtonTask(asked, float(model.l2), classes, len(problem.goal_target), people.total_weight)
    old, new = (_as_refit(problem, *fitted) for fitted in both_refitted(people, task, moments))
    own, violations = _query_move(problem, plan.query_move)
    points = problem.asked.points
    witness = new.testify(points[0] + own, problem.goal_target)
    told = AuditSummary(problem, heard(problem, old, points), heard(problem, new, points + own))
    converged = old.testify(points[0], problem.goal_target).converged and witness.converged
    return _report(told, limits, violations, witness.witness, witness.residual, converged), old


def _looked_at(part: Part, start: int, asked: _Asked) -> tuple[Any, ...]:
    """Check a part's moves, and measure its people as they are: one reading for both."""
    chunks = asked.chunks(part, start)
    return added(
        (_checked(asked, chunk, moves)[1], FeatureMoments.of(chunk.features, chunk.weights)) for chunk, moves in chunks
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
