"""Credit to first order: slopes along the straight path from nobody's move to the plan, at true refits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.online import Rollout
from oar.plans.refits import Refits
from oar.progress import OnStep, is_late, silent
from oar.retraining.rollout import RolloutTraining
from oar.signals.base import Memory, Signal, choose_signal

Array = NDArray[np.float64]
POINTS = (4, 8, 16, 32)  # of the rule, until little is unexplained
HURRIED = (1,)  # where the time is over before it begins
LITTLE = 1e-3  # of the fall


def refusal(refits: Refits) -> str:
    """Return why there is no credit to first order, in a sentence; "" where there is."""
    problem = refits.problem
    if not refits.planned.beyond(refits.before).only_moves:
        return "It shares out moves alone, and in this plan labels change or members leave."
    if problem.query.several != "mean":
        return f"It needs a smooth loss, and the {problem.query.several} of several queries is none."
    if problem.model.only_asked:
        return "It needs gradients, and a black box has none."
    if problem.over_rounds:
        return ""
    signal, why = choose_signal(problem.training())
    return "" if signal.exact else f"It needs exact gradients, and there are none. {why}"


def first_order(
    refits: Refits, fall: float, on_step: OnStep = silent, rules: Sequence[int] = POINTS
) -> tuple[Array, int]:
    """Return everyone's credits (n + 1,) along the path, the query's last, and how many refits that took.

    There are more and more points, as `rules` have it, until little of the fall is unexplained, or the time is over.
    """
    if why := refusal(refits):
        raise OptionError(f"method: 'first-order' is not for this plan. {why} Use method='shapley'.")
    slopes = _slopes(refits)
    moves, own = refits.moves, refits.query_move
    count = 0
    for points in HURRIED if is_late() else rules:
        places, parts = np.polynomial.legendre.leggauss(points)
        credits = np.zeros(len(moves) + 1)
        for place, part in zip((places + 1) / 2, parts / 2, strict=True):
            loss, members, query = slopes(float(place))
            credits[:-1] -= part * np.einsum("nd,nd->n", members, moves)
            credits[-1] -= part * query @ own
            count += 1
            on_step(count, loss, np.inf)
        if abs(fall - credits.sum()) <= LITTLE * abs(fall) or is_late():
            break
    return credits, count


Slopes = Callable[[float], tuple[float, Array, Array]]
"""From a share of the way to the loss there, and its slopes in everyone's move (n, d) and the query's (d,)."""


def _slopes(refits: Refits) -> Slopes:
    """By the implicit function theorem at a true refit (`signals`), or back through all rounds by the rule itself."""
    problem = refits.problem
    if isinstance(refits.retraining, RolloutTraining):
        return partial(_rolled_out, refits.retraining.rollout, refits.moves)
    training = problem.training()
    signal: Signal = choose_signal(training)[0]
    memory: Memory | None = None
    warm = problem.model.convex

    def slopes(place: float) -> tuple[float, Array, Array]:
        nonlocal memory
        query = problem.first_query + place * refits.query_move
        step = signal.at(training, place * refits.moves, query, problem.goal_target, memory)
        memory = step.memory if warm else None
        return step.loss, training.weights[:, None] * step.members, step.outcome.query_slope

    return slopes


def _rolled_out(rollout: Rollout, moves: Array, place: float) -> tuple[float, Array, Array]:
    """Return the loss of a rollout a share of the way, and its slopes; over rounds the query itself does not move."""
    here = place * moves
    path = rollout.forward(here, counted=True)
    slopes = rollout.gradient(path, here).gradient
    return float(rollout.problem.weights @ path.losses), slopes, np.zeros(moves.shape[1])
