"""Signals of surrogates, and how the true members answer them.

A surrogate's signal (θ, v) makes a score of anybody's own features and label, whoever it was trained on: what a
member's data do for the query, to first order. Scores of several surrogates are added up. Members answer by going where
their score is highest within their own limits: from where they stand to the best response along the slopes, anew from
there, and so on, each as long as its own score rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.models import Differentiable, Ensemble, Scaled
from oar.models.training import Array
from oar.models.wrap.ensemble import EnsembleTraining
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.signals.base import refit
from oar.solvers.discrete.integer_moves import Lattice
from oar.tolerances import SOLVED

PRECISION = 1e-7
ROUNDS = 8
RISEN = 1e-3  # of a score: what is worth another round
ALMOST_ALL = 0.9  # of the people: then the next round is for the others, too


@dataclass(frozen=True, eq=False)
class ProxySignal:
    """One surrogate's signal, as it applies to features in the units that people have.

    With e = (x − centres) / scales, behind a scaler s(x) = s_model(e) − Σ_j e_j (shift_j + spread_j e_j).
    """

    model: Differentiable
    score: Any
    centres: Any = 0.0
    scales: Any = 1.0
    shift: Any = 0.0
    spread: Any = 0.0

    def entries(self) -> list[ProxySignal]:
        """Return a linear surrogate's score for each entry of v alone: s is linear in v; nothing for other models."""
        return [ProxySignal(self.model, one, self.centres, self.scales) for one in self.score.entries()]

    def __call__(self, rows: Array, labels: Array) -> tuple[Array, Array]:
        """Return s (n,) and ∇_x s (n, d) of people with these features, and labels (n, k) as shares or values."""
        seen = (rows - self.centres) / self.scales
        values, slopes = self.score(seen, np.ascontiguousarray(self.model.target_rows(labels)))
        values = values - (seen * (self.shift + self.spread * seen)).sum(axis=1)
        return values, (slopes - self.shift - 2 * self.spread * seen) / self.scales


def signals_at(problem: Problem, given: Contribution) -> tuple[ProxySignal, ...]:
    """Return each surrogate's signal after a refit on what people hand in."""
    assert isinstance(problem.model, Ensemble)
    training, (moves, targets, weights) = problem.training(), given.parts
    if not given.only_moves:
        rows = np.ascontiguousarray(problem.model.target_rows(targets))
        training = training.contributing(rows, weights / weights.sum())
    outcome = refit(training, moves, problem.first_query, problem.goal_target, None, PRECISION)
    signal = training.solve(outcome.fit, outcome.pull, None, SOLVED)
    inner: EnsembleTraining = getattr(training, "unaimed", training)
    parts = zip(inner.parts, problem.model.models, *map(inner.split, (outcome.fit.parameters, signal)), strict=True)
    return tuple(_heard(*part) for part in parts)


def _heard(training: Any, model: Differentiable, parameters: Array, signal: Array) -> ProxySignal:
    if isinstance(model, Scaled):
        theta, along, *scaler = training.published(parameters, signal)
        return ProxySignal(model, model.unscaled.member_score(theta, along), *scaler)
    given = getattr(training, "in_given_units", lambda vector: vector)
    return ProxySignal(model, model.member_score(given(parameters), given(signal)))


class Answers:
    """The responses of one problem's people to scores, within their own limits."""

    on_table = False
    shares: tuple[float, ...] = (1.0, 0.5, 0.25)  # of the way to a response, tried one after the other

    def __init__(self, problem: Problem, rows: Array | None = None) -> None:
        """Keep everyone's features, labels and limits; `rows` are other labels (n, k) than their own."""
        people = problem.people
        self.problem, self.features = problem, np.asarray(people.features, dtype=np.float64)
        own = people.target_rows(problem.regresses)
        self.labels = own if rows is None else rows
        self.budgets = problem.allowance.everyones(people.size)
        self.width = self.features.shape[1]  # how many coordinates somebody may move

    @staticmethod
    def of(problem: Problem, rows: Array | None = None) -> Answers:
        """Return how the people of a problem answer: within balls, or on a table within their limits."""
        return (Answers if problem.limits is None else AnswersOnTable)(problem, rows)

    def in_cost(self, slopes: Array) -> Array:
        """Return slopes (n, d) in features as slopes (n, r) in what moves are measured by."""
        return slopes

    def respond(self, slopes: Array) -> Array:
        """Return everyone's farthest allowed move (n, d) along slopes (n, r) in cost."""
        return self.problem.allowance.norm.maximise(slopes, self.budgets)

    def scored(self, signals: Sequence[ProxySignal], moves: Array | float = 0.0) -> tuple[Array, Array]:
        """Return everyone's summed score (n,) and its slopes (n, d), after moves."""
        rows = self.features + moves
        values, slopes = zip(*(one(rows, self.labels) for one in signals), strict=True)
        return np.sum(values, axis=0), np.sum(slopes, axis=0)

    def to(self, signals: Sequence[ProxySignal], rounds: int = ROUNDS) -> Array:
        """Return everyone's answer (n, d) to the summed scores of some signals."""
        moves = np.zeros_like(self.features)
        values, slopes = self.scored(signals)
        for _ in range(rounds):
            aims, risen = self.respond(self.in_cost(slopes)), np.zeros(len(moves), dtype=bool)
            for share in self.shares:
                trial = np.where(risen[:, None], moves, moves + share * (aims - moves))
                reached, steeper = self.scored(signals, trial)
                better = ~risen & (reached > values + RISEN * np.abs(values))
                moves = np.where(better[:, None], trial, moves)
                slopes = np.where(better[:, None], steeper, slopes)
                values, risen = np.where(better, reached, values), risen | better
                if risen.mean() > ALMOST_ALL:
                    break
            if not risen.any():
                break
        return moves


class AnswersOnTable(Answers):
    """How people answer on a table: by whole moves, which are taken whole."""

    on_table, shares = True, (1.0,)

    def __init__(self, problem: Problem, rows: Array | None = None) -> None:
        super().__init__(problem, rows)
        self._measured = problem.measured(False)
        self._lattice, self.width = Lattice(self._measured), int(self._measured.columns.size)

    def in_cost(self, slopes: Array) -> Array:
        """Return slopes (n, r) in cost."""
        return slopes[:, self._measured.columns] / self._measured.costs

    def respond(self, slopes: Array) -> Array:
        """Return everyone's farthest allowed whole move (n, d) along slopes (n, r) in cost."""
        return self._measured.exactly(self._lattice.answer(slopes))
