"""Projected gradients that may climb a little, and so pass by kinks.

A step is accepted if it ends below the worst of the last few (Grippo, Lampariello & Lucidi 1986), not below the last.
At a kink of the loss, as hinges have them, steps that must never climb get ever shorter along it; these jump over it.
The best moves seen are returned, and the descent, which never climbs, finishes what this begins.
"""

from __future__ import annotations

import numpy as np

from oar.models.training import Array
from oar.signals.base import Memory
from oar.solvers.descent.descent import SingleRefit
from oar.solvers.feasible.sets import FeasibleSet
from oar.solvers.query.move_search import BatchedObjective, Rows, minimise

PRECISION = 1e-10  # of refits: the change of slopes between two steps must not be noise
FIRST = 10.0  # budgets: the length of the first step
ONE = np.zeros(1, dtype=np.intp)  # the only problem, as `minimise` counts them


def wandering_search(
    objective: SingleRefit,
    limits: FeasibleSet,
    max_steps: int,
    deadline: float,
    start: Array,
    respond: bool = False,
) -> tuple[Array, int]:
    """Return the best moves (n + 1, d) seen in at most `max_steps` steps from `start`, and how many steps there were.

    With `respond` the first point is everyone's full response to the signal at the start.
    """
    memory: Memory | None = None

    def evaluate(points: Array, rows: Rows) -> tuple[Array, Array]:
        nonlocal memory
        moves = points[0]
        step = objective.at(moves, memory, PRECISION)
        memory = step.memory
        return np.array([step.loss]), step.slopes[None]

    batch = BatchedObjective(
        evaluate=evaluate,
        project=lambda points, rows: limits.project(points[0])[None],
        inner=lambda left, right, rows: np.array([limits.slope(left[0], np.zeros_like(right[0]), right[0])]),
        gap=lambda points, slopes, rows: np.array([limits.gap(points[0], slopes[0])]),
    )
    moves = limits.project(start)
    _, slopes = evaluate(moves[None], ONE)
    if respond:
        moves = limits.respond(slopes[0])
        _, slopes = evaluate(moves[None], ONE)
    first = np.array([FIRST * limits.span(slopes[0])])
    found = minimise(batch, moves[None], first, max_steps, 0.0, deadline)
    return found.points[0], found.steps
