"""Soft labels and targets, a little changed for everyone: Frank–Wolfe with true refits.

The query's loss changes with member i's label as −w̄_i ∂s_i/∂y. The best answer to that slope g within the limits is

    a soft label    give `soft` of the label, taken from the classes of least g, to the allowed class of most g
    a value         move by `soft` along g

and everyone goes a share of the way there. Shares of the way keep every limit, because limits are convex. The share is
found by true refits: all of the way, and where a parabola through what is known has its minimum; then less and less,
until the loss falls. Where it falls nowhere, somebody stands at a kink: then those who gain most try one by one.

The gap Σ w̄_i ⟨g_i, y'_i − y_i⟩ ≥ 0 is the certificate: zero at labels that are stationary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.relabel import RelabelLimits
from oar.progress import OnStep
from oar.retraining.contribution import Contribution
from oar.retraining.own_training import OwnTraining, TrainedRefit

Array = NDArray[np.float64]
FALLS = 1e-9  # a loss that falls by less than this share of itself is not seen to fall
CLOSED = 1e-5  # of the loss: a gap below it is closed
SHORTER = 8  # times that a quarter of the way is tried
ALONE, FEW = 16, 3  # people who try one by one, and how many times a quarter of the way
INSIDE = 0.95  # a parabola's minimum beyond this share of the way is not worth a refit


class SoftLimits(NamedTuple):
    """How far labels may go from those that were given (n, k)."""

    limits: RelabelLimits
    given: Array


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """What everyone hands in, the true loss, the gap, whether it closed, and steps taken."""

    given: Contribution
    loss: float
    gap: float
    finished: bool
    steps: int


def soften(
    retraining: OwnTraining,
    softly: SoftLimits,
    start: Contribution,
    most_steps: int,
    on_step: OnStep | None = None,
) -> SoftLabels:
    """Change labels within their limits, from those of `start` on, until the gap closes or steps run out."""
    (limits, given), steps = softly, 0
    refit = retraining.aimed(start)
    if refit is None:
        return SoftLabels(start, np.inf, np.inf, False, 0)
    while True:
        _, rows, weights = refit.contribution.parts
        signal = retraining.signal(refit)
        if signal is None:
            return SoftLabels(refit.contribution, refit.loss, np.inf, False, steps)
        slopes = retraining.label_slopes(refit, signal, rows)
        answer = best_labels(given, slopes, limits, retraining.problem.regresses)
        gains = weights / weights.sum() * (slopes * (answer - rows)).sum(axis=1)
        gap = max(0.0, float(gains.sum()))
        closed = gap <= CLOSED * abs(refit.loss)
        found = None if closed or steps >= most_steps else _some_of_the_way(retraining, refit, answer, gains)
        if found is None:
            return SoftLabels(refit.contribution, refit.loss, gap, closed, steps)
        refit = found
        steps += 1
        if on_step is not None:
            on_step(steps, refit.loss, gap)


def best_labels(given: Array, slopes: Array, limits: RelabelLimits, regresses: bool) -> Array:
    """Return the labels within everyone's limits of what was given that are best for these slopes."""
    assert limits.soft is not None
    if regresses:
        lengths = np.linalg.norm(slopes, axis=1, keepdims=True)
        moved = given + limits.soft * slopes / np.where(lengths > 0, lengths, 1.0)
        return np.where(limits.mask[:, None], moved, given)
    wanted = np.where(limits.allowed, slopes, -np.inf)
    best = wanted.argmax(axis=1)
    everyone = np.arange(len(given))
    order = np.argsort(slopes, axis=1, kind="stable")  # classes of least slope give first
    there = np.take_along_axis(given, order, axis=1)
    worse = np.take_along_axis(slopes, order, axis=1) < slopes[everyone, best][:, None]
    there = np.where(worse, there, 0.0)
    taken = np.minimum(there, np.maximum(limits.soft - (np.cumsum(there, axis=1) - there), 0.0))
    moved = given.copy()
    back = np.empty_like(taken)
    np.put_along_axis(back, order, taken, axis=1)
    moved -= back
    moved[everyone, best] += back.sum(axis=1)
    return np.where(limits.mask[:, None], moved, given)


def _some_of_the_way(retraining: OwnTraining, refit: TrainedRefit, answer: Array, gains: Array) -> TrainedRefit | None:
    """Let everyone go a part of the way; where that does not help, those who gain most one by one, then the others."""
    found = _part_of_the_way(retraining, refit, answer, float(gains.sum()))
    if found is not None:
        return found
    order = np.argsort(-gains, kind="stable")
    order = order[: np.count_nonzero(gains > 0)]
    for group in [*order[:ALONE, None], order[ALONE:]]:
        near = refit if found is None else found
        aim = near.contribution.parts[1].copy()
        aim[group] = answer[group]
        found = _part_of_the_way(retraining, near, aim, float(gains[group].sum()), FEW) or found
    return found


def _part_of_the_way(
    retraining: OwnTraining, refit: TrainedRefit, end: Array, gap: float, shorter: int = SHORTER
) -> TrainedRefit | None:
    """Return a refit between one and labels `end` whose loss is clearly lower; None where it is nowhere."""
    start = refit.contribution.parts[1]

    def at(share: float) -> TrainedRefit | None:
        targets = end if share == 1.0 else start + share * (end - start)
        return retraining.aimed(replace(refit.contribution, targets=targets), refit)

    share, best = 1.0, None
    for _ in range(shorter):
        found = at(share)
        fallen = -np.inf if found is None else refit.loss - found.loss
        bend = share * gap - fallen  # of the parabola with this slope and this fall: ½ · second derivative
        inner = share * 0.5 * share * gap / bend if 0 < bend < np.inf else np.inf
        if found is not None and fallen > FALLS * abs(refit.loss):
            best = found
        if inner < INSIDE * share:
            nearer = at(inner)
            if nearer is not None and nearer.loss < min(
                refit.loss - FALLS * abs(refit.loss), np.inf if best is None else best.loss
            ):
                best = nearer
        if best is not None:
            return best
        share /= 4
    return None
