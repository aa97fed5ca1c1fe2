"""Every round's retraining once more, from scratch, by somebody who had no part in the planning.

Full and window refits are done by scikit-learn where it has the model, and for nearest centroid by averages of rows;
exponential means of centroids by a plain loop over people. For rules that take gradient steps there is nobody else to
ask: the rule itself is run on trainings that are bound afresh to the data as handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import Centroids, Differentiable
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Rollout, Window
from oar.online.stream import HISTORY
from oar.online.training.binding import update_of
from oar.plans.explain.independence import Independence
from oar.referee.centroids import heard as heard_by_centroids
from oar.referee.centroids import nearest
from oar.referee.trained import refitted_model
from oar.referee.verdicts import JudgedModel
from oar.referee.witnesses.refits import Testimony, WitnessRefit, refit

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
AVERAGES = "class averages of the rows as handed in (numpy)"


def replay(problem: OnlineProblem, moves: Array, points: Array) -> Iterator[JudgedModel]:
    """Yield the model of each round, had everyone moved by `moves` (n, d) and those who ask to `points` (q, d)."""
    rule, model = problem.rule, problem.model
    kind: Any = type(rule)  # a user's own that is derived from one of these may do anything else
    refits = kind in (FullRefit, Window) and not getattr(rule, "warm", False)
    if model.plain_means and (refits or kind is ExponentialMeans):
        yield from _centroids(problem, moves, points)
    elif refits:
        yield from _refits(problem, moves, points)
    else:
        yield from _by_the_rule(problem, moves, points)


def _centroids(problem: OnlineProblem, moves: Array, points: Array) -> Iterator[JudgedModel]:
    """Average rows class by class, in every round afresh or as a running mean.

    Of running means a class that a batch lacks keeps its centroid.
    """
    stream, rule = problem.stream, problem.rule
    people = stream.people
    features = np.asarray(people.features, dtype=np.float64)
    codes, kinds = people.codes(0, people.size), len(people.classes)
    weights = np.ones(people.size) if people.weights is None else people.weights
    handed_in = features + moves
    scales = np.array([np.abs(features[codes == code]).max(initial=0.0) for code in range(kinds)])

    def average(rows: Rows, otherwise: Array | None) -> Array:
        found = np.zeros((kinds, people.dimensions)) if otherwise is None else otherwise.copy()
        for code in range(kinds):
            mine = rows[(codes[rows] == code) & (weights[rows] > 0)]
            if mine.size:
                found[code] = np.average(handed_in[mine], axis=0, weights=weights[mine])
        return found

    running: Array | None = None
    if isinstance(rule, ExponentialMeans):
        if problem.start is not None:
            given = problem.start.positions if isinstance(problem.start, Centroids) else problem.start
            running = np.array(given, dtype=np.float64).reshape(kinds, people.dimensions)
        elif (stream.when == HISTORY).any():
            running = average(stream.rows(HISTORY), None)
    for number in range(stream.rounds):
        newest = average(stream.read_by(rule.reads, number), running)
        if isinstance(rule, ExponentialMeans) and running is not None:
            running = running + rule.rate * (newest - running)
        else:
            running = newest
        heard = partial(heard_by_centroids, problem.everyone, running, scales)
        yield JudgedModel(heard, nearest(running), AVERAGES)


def _refits(problem: OnlineProblem, moves: Array, points: Array) -> Iterator[JudgedModel]:
    """Refit from scratch in every round, to those whom the rule reads."""
    assert isinstance(problem.model, Differentiable)
    everyone, stream = problem.everyone, problem.stream
    for number in range(stream.rounds):
        rows = stream.read_by(problem.rule.reads, number)
        features = np.asarray(stream.people.features[rows], dtype=np.float64) + moves[rows]
        fitted = refit(problem.model, stream.people.some(rows), features)
        yield refitted_model(everyone, fitted, points)


def _by_the_rule(problem: OnlineProblem, moves: Array, points: Array) -> Iterator[JudgedModel]:
    """Run the rule again, on trainings that nobody has used before."""
    stream, rule, model = problem.stream, problem.rule, problem.model
    before = Rollout(problem).first
    for number in range(stream.rounds):
        rows = stream.read_by(rule.reads, number)
        newest = stream.when[rows] == number
        update = update_of(model, stream.people.some(rows), newest, number, before, moves[rows])
        before = np.asarray(rule.update(update), dtype=np.float64)
        fitted = _as_refit(update.training, before, f"{rule.name} itself, on the data as handed in")
        found = refitted_model(problem.everyone, fitted, points)
        sound = bool(np.isfinite(before).all())
        yield replace(found, converged=sound, independence=Independence.REPEATED)


def _as_refit(training: object, parameters: Array, witness: str) -> WitnessRefit:
    def judged(query: Array, target: Array) -> Testimony:
        outputs = training.outputs(parameters, query)  # type: ignore[attr-defined]
        loss = training.goal(parameters, query, target)[0]  # type: ignore[attr-defined]
        return Testimony(outputs, loss, witness, 0.0, True)

    return WitnessRefit(judged, lambda rows: np.array([training.outputs(parameters, row) for row in rows]))  # type: ignore[attr-defined]
