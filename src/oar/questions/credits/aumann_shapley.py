"""Credit to first order: along the straight path from nobody's move to the plan (Aumann & Shapley, 1974).

Walk along t·δ and add up what each member's next little step does there,

    credit_i = −∫₀¹ ⟨∂L/∂δ_i (t δ), δ_i⟩ dt,        Σ_i credit_i = L(0) − L(δ)

with the derivative through a true refit at every point of a Gauss–Legendre rule. A table's rows on the way are not
whole, which the model does not mind.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.plans.refits import Refits
from oar.progress import OnStep
from oar.signals.base import Memory
from oar.signals.choice import choose_signal

Array = NDArray[np.float64]
POINTS = (4, 8, 16, 32)  # of the rule, until little is unexplained
LITTLE = 1e-3  # of the fall


def first_order(refits: Refits, fall: float, on_step: OnStep | None = None) -> tuple[Array, int]:
    """Integrate along the path, with more points until little of the fall is unexplained.

    Returns:
        Everyone's credits (n + 1,), the query's last; and how many refits there were.
    """
    problem = refits.problem
    if problem.query.several != "mean":
        raise OptionError(
            f"method: 'first-order' needs a smooth loss, and the {problem.query.several} of several queries is none; "
            "use 'shapley'."
        )
    slopes = _slopes(refits)
    moves, own = refits.moves, refits.query_move
    count = 0
    for points in POINTS:
        places, parts = np.polynomial.legendre.leggauss(points)
        credits = np.zeros(len(moves) + 1)
        for place, part in zip((places + 1) / 2, parts / 2, strict=True):
            loss, members, query = slopes(float(place))
            credits[:-1] -= part * np.einsum("nd,nd->n", members, moves)
            credits[-1] -= part * query @ own
            count += 1
            if on_step is not None:
                on_step(count, loss, np.inf)
        if abs(fall - credits.sum()) <= LITTLE * abs(fall):
            break
    return credits, count


Slopes = Callable[[float], tuple[float, Array, Array]]
"""From a share of the way to the loss there, and its slopes in everyone's move (n, d) and the query's (d,)."""


def _slopes(refits: Refits) -> Slopes:
    """By the implicit function theorem at a true refit (`signals`)."""
    problem = refits.problem
    training = problem.training()
    signal, why = choose_signal(training)
    if not signal.exact:
        raise OptionError(f"method: 'first-order' needs exact gradients, and there are none. {why} Use 'shapley'.")
    memory: Memory | None = None
    warm = problem.model.convex

    def slopes(place: float) -> tuple[float, Array, Array]:
        nonlocal memory
        query = problem.first_query + place * refits.query_move
        step = signal.at(training, place * refits.moves, query, problem.goal_target, memory)
        memory = step.memory if warm else None
        return step.loss, training.weights[:, None] * step.slopes[:-1], step.outcome.query_slope

    return slopes
