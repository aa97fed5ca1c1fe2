"""The card of a plan with one direction a class: its directions, with as few digits as the answer needs.

A refit of nearest centroid needs no rows: class c's mean moves by the class's average budget times its direction. So
all is measured from one reading of the data, chunk by chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oar.errors import DataError
from oar.models import NearestCentroid
from oar.plans.cards.card import Array, Card
from oar.plans.cards.digits import FEWEST_FIRST, shorter
from oar.plans.cards.publish import ENOUGH, MORE_ROOM, common_fields, refuse_few
from oar.problem import Problem
from oar.retraining.retraining import RefitResult, judged_by_means

if TYPE_CHECKING:
    from oar.plans.plan import ClassPlan


def class_card(plan: ClassPlan) -> Card:
    """Return what can be published of it; raise where nothing can be."""
    problem = plan.problem
    if plan.query_move.any() and not plan.directions.any():
        raise DataError("plan: only the query moves in it, so there is no card to publish; use plan.query_move.")
    worth = _Worth(problem, plan.query_move)
    before, full = worth.of(np.zeros_like(plan.directions), moved=False), worth.of(plan.directions)
    for digits in FEWEST_FIRST:
        directions = shorter(plan.directions, digits)
        found = worth.of(directions)
        enough = before.loss - found.loss >= ENOUGH * (before.loss - full.loss)
        if enough and found.success >= full.success:
            return Card(model=problem.model.name, directions=directions, digits=digits, **common_fields(plan))
    raise DataError(f"plan: members would need more than {FEWEST_FIRST[-1]} digits of its directions{MORE_ROOM}")


class _Worth:
    """The outcome of a refit to directions: the query's loss, and whether it reaches its goal."""

    def __init__(self, problem: Problem, query_move: Array) -> None:
        assert isinstance(problem.model, NearestCentroid)
        people, size = problem.people, len(problem.people.classes)
        self._problem, self._query_move = problem, query_move
        self._first = problem.model.fit(people)
        totals, squares, spent = np.zeros((3, size))
        for chunk in people.chunks():
            weights, radii = chunk.row_weights, problem.allowance.of(chunk.start, chunk.stop)
            for sums, each in ((totals, weights), (squares, weights**2), (spent, weights * radii)):
                sums += np.bincount(chunk.codes, weights=each, minlength=size)
        refuse_few(people.classes, totals, squares)
        self._average = spent / totals

    def of(self, directions: Array, moved: bool = True) -> RefitResult:
        """Return the verdict on everyone's move by its budget times its class's direction."""
        problem, asked = self._problem, self._problem.asked
        means = self._first.positions + self._average[:, None] * directions
        points = asked.points + self._query_move if moved else asked.points
        if asked.members is not None:
            radii = problem.allowance.everyones(problem.people.size)[asked.members]
            codes = np.array([problem.people.codes(at, at + 1)[0] for at in asked.members])
            points = points + radii[:, None] * directions[codes]
        each = [judged_by_means(self._first, means, *one) for one in zip(problem.wishes, points, strict=True)]
        losses, reached = (np.array(part) for part in zip(*each, strict=True))
        return RefitResult(*problem.combined(losses, reached))
