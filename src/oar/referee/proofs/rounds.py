"""Nearest centroid over time: what each row weighs in the centroids of a round, and so how far they can be moved.

Refits, windows and exponential means make every centroid a weighted sum of the rows of its class, Σ ω_i (x_i + δ_i) and
what nobody moves; so do gradient steps and fine-tuning, by what these rules keep of a centroid. Then it can be moved by
Σ |ω_i| ε_i at the most; where a person's budget is for all rounds together, by spending it on its heaviest rows first.
What a user's own rule says of itself is no proof.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import NearestCentroid
from oar.online import ExponentialMeans, FineTune, FullRefit, GradientSteps, OnlineProblem, Rollout, Window
from oar.online.centroid_weights import centroid_weights
from oar.online.stream import HISTORY
from oar.plans.proof import Proof
from oar.referee.centroids import UnmovedCentroids
from oar.referee.contributions import Array
from oar.referee.proofs.balls import BY, within_radii
from oar.referee.rounds import averaged_by_round
from oar.referee.verdicts import UNIT

KNOWN: tuple[Any, ...] = (FullRefit, Window, ExponentialMeans, GradientSteps, FineTune)


def of_rounds(problem: OnlineProblem) -> Proof:
    """Return what is proved of everyone's moves in all rounds."""
    simple = problem.plain and problem.within_balls
    if type(problem.model) is not NearestCentroid or not simple or type(problem.rule) not in KNOWN:
        return Proof()
    counted = [problem.rounds - 1] if problem.goal_for == "last" else list(range(problem.rounds))
    proofs = [_after(problem, number, weights, places) for number, weights, places in _rounds(problem, counted)]
    return Proof(float(np.mean([one.bound for one in proofs])), any(one.impossible for one in proofs), BY)


def _rounds(problem: OnlineProblem, counted: list[int]) -> list[tuple[int, Array, Array]]:
    """Return rounds with what rows weigh (n,) in their class's centroid, and the centroids (k, d) of no moves."""
    kind: Any = type(problem.rule)
    if kind in (GradientSteps, FineTune) or getattr(problem.rule, "warm", False):
        path, shape = Rollout(problem).forward(None), (-1, problem.stream.people.dimensions)
        return [(one, centroid_weights(problem, one), path.parameters[one].reshape(shape)) for one in counted]
    each = averaged_by_round(problem, np.asarray(problem.stream.people.features, dtype=np.float64), weighed=True)
    return [(number, weights, places) for number, (weights, places) in enumerate(each) if number in counted]


def _after(problem: OnlineProblem, number: int, weights: Array, places: Array) -> Proof:
    """Return what is proved of the model after one round."""
    people = problem.stream.people
    codes = people.codes(0, people.size)
    able = np.where((problem.stream.when != HISTORY) & (problem.stream.when <= number), problem.radii, 0.0)
    lengths = _spent(problem, np.abs(weights), able, codes) if problem.has_totals else able
    classes = len(people.classes)
    radii = np.bincount(codes, weights=np.abs(weights) * lengths, minlength=classes) * (1 + (people.size + 8) * UNIT)
    features = np.abs(np.asarray(people.features, dtype=np.float64))
    scales = np.array([features[codes == code].max(initial=0.0) for code in range(classes)])
    seen = UnmovedCentroids(places, scales, np.full(classes, people.size + 8.0 * problem.rounds))
    return within_radii(problem, seen, np.asarray(radii, dtype=np.float64))


def _spent(problem: OnlineProblem, weights: Array, able: Array, codes: NDArray[Any]) -> Array:
    """Return how far each row (n,) goes where every person and class spends the person's total on heavy rows first."""
    who, totals = problem.stream.who, np.where(able > 0, problem.totals, 0.0)
    assert who is not None
    persons = np.unique(who, return_inverse=True)[1] * (int(codes.max()) + 1) + codes
    spent = np.zeros_like(able)
    for person in np.unique(persons[able > 0]):
        rows = np.flatnonzero(persons == person)
        rows = rows[np.argsort(-weights[rows], kind="stable")]
        left = float(totals[rows].max())
        before = np.append(0.0, np.cumsum(able[rows])[:-1])
        spent[rows] = np.clip(left - before, 0.0, able[rows])
    return spent
