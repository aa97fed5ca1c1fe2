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

import numpy as np

from oar.actions.relabel import RelabelLimits
from oar.models.training import Array
from oar.progress import OnStep, silent
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining, TrainedRefit
from oar.tolerances import FALLS

CLOSED = 1e-5  # of the loss: a gap below it is closed
SHORTER = 8  # times that a quarter of the way is tried
ALONE, FEW = 16, 3  # people who try one by one, and how many times a quarter of the way
INSIDE = 0.95  # a parabola's minimum beyond this share of the way is not worth a refit


@dataclass(frozen=True, eq=False)
class LeverProposal:
    """The proposed contribution, the loss of a true refit (∞ without one), and how the search for it ended."""

    given: Contribution
    loss: float = np.inf
    gap: float = np.inf  # of soft labels; infinite where no certificate speaks
    finished: bool = True
    steps: int = 0


def soften(
    retraining: OwnTraining,
    limits: RelabelLimits,
    given: Array,
    start: Contribution,
    most_steps: int,
    on_step: OnStep = silent,
) -> LeverProposal:
    """Change labels within limits around those given (n, k), from `start` on, until the gap closes or steps run out."""
    steps = 0
    refit = retraining.aimed(start)
    if refit is None:
        return LeverProposal(start, finished=False)
    while True:
        _, rows, weights = refit.contribution.parts
        signal = retraining.signal(refit)
        if signal is None:
            return LeverProposal(refit.contribution, refit.loss, finished=False, steps=steps)
        slopes = retraining.label_slopes(refit, signal, rows)
        answer = best_labels(given, slopes, limits, retraining.problem.regresses)
        gains = weights / weights.sum() * (slopes * (answer - rows)).sum(axis=1)
        gap = max(0.0, float(gains.sum()))
        closed = gap <= CLOSED * abs(refit.loss)
        found = refit if closed or steps >= most_steps else _some_of_the_way(retraining, refit, answer, gains)
        if found is refit:
            return LeverProposal(refit.contribution, refit.loss, gap, closed, steps)
        refit, steps = found, steps + 1
        on_step(steps, refit.loss, gap)


def best_labels(given: Array, slopes: Array, limits: RelabelLimits, regresses: bool) -> Array:
    """Return the labels within everyone's limits of what was given that are best for these slopes."""
    assert limits.soft is not None
    if regresses:
        lengths = np.linalg.norm(slopes, axis=1, keepdims=True)
        moved = given + limits.soft * slopes / np.where(lengths > 0, lengths, 1.0)
        return np.where(limits.mask[:, None], moved, given)
    best = np.where(limits.allowed, slopes, -np.inf).argmax(axis=1)
    everyone = np.arange(len(given))
    order = np.argsort(slopes, axis=1, kind="stable")  # classes of least slope give first
    there = np.take_along_axis(given, order, axis=1)
    worse = np.take_along_axis(slopes, order, axis=1) < slopes[everyone, best][:, None]
    there = np.where(worse, there, 0.0)
    taken = np.minimum(there, np.maximum(limits.soft - (np.cumsum(there, axis=1) - there), 0.0))
    back = np.empty_like(taken)
    np.put_along_axis(back, order, taken, axis=1)
    moved = given - back
    moved[everyone, best] += back.sum(axis=1)
    return np.where(limits.mask[:, None], moved, given)


def _some_of_the_way(retraining: OwnTraining, refit: TrainedRefit, answer: Array, gains: Array) -> TrainedRefit:
    """Let everyone go a part of the way, else those who gain most one by one, then the others; or stay at the refit."""
    found = _part_of_the_way(retraining, refit, answer, float(gains.sum()))
    if found is not refit:
        return found
    order = np.argsort(-gains, kind="stable")
    order = order[: np.count_nonzero(gains > 0)]
    for group in [*order[:ALONE, None], order[ALONE:]]:
        aim = found.contribution.parts[1].copy()
        aim[group] = answer[group]
        found = _part_of_the_way(retraining, found, aim, float(gains[group].sum()), FEW)
    return found


def _part_of_the_way(
    retraining: OwnTraining, refit: TrainedRefit, end: Array, gap: float, shorter: int = SHORTER
) -> TrainedRefit:
    """Return a refit between one and labels `end` whose loss is clearly lower; the one itself where it is nowhere."""
    start, enough = refit.contribution.parts[1], refit.loss - FALLS * abs(refit.loss)

    def at(share: float) -> tuple[float, TrainedRefit]:
        targets = end if share == 1.0 else start + share * (end - start)
        found = retraining.aimed(replace(refit.contribution, targets=targets), refit)
        return (np.inf, refit) if found is None else (found.loss, found)

    share = 1.0
    for _ in range(shorter):
        tried = [at(share)]
        bend = share * gap - (refit.loss - tried[0][0])  # of the parabola with this slope and this fall: ½ · curvature
        inner = share * 0.5 * share * gap / bend if 0 < bend < np.inf else np.inf
        if inner < INSIDE * share:
            tried.append(at(inner))
        loss, found = min(tried, key=lambda one: one[0])
        if loss < enough:
            return found
        share /= 4
    return refit
