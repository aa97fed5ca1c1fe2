"""One response of all members to a signal: its estimated gain, and the outcome of a refit.

Refits and responses as in `retrained`, for questions that try many choices of members and budgets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.training import Array, CostUnits
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining, RefitResult, TrainedRefit
from oar.signals import as_signal
from oar.signals.base import Memory, Outcome, refit
from oar.solvers.discrete.integer_moves import Lattice

PRECISION = 1e-9


class OneResponse:
    """A problem's training, bound to its people as they stand; moves are counted in features."""

    def __init__(self, problem: Problem, signal: Any, query: bool) -> None:
        self.problem, self._retraining = problem, OwnTraining(problem)
        self.training: Any = self._retraining.training
        self._maker, _ = as_signal(signal, self.training)
        self.point = problem.first_query
        self.weights: Array = self.training.weights
        self.budgets = problem.allowance.everyones(problem.people.size)

    @staticmethod
    def of(problem: Problem, signal: Any = "auto", query: bool = False) -> OneResponse:
        """Bind a problem; the query moves only where `query`."""
        return (OneResponse if problem.limits is None else OneResponseOnTable)(problem, signal, query)

    def in_cost(self, moves: Array) -> Array:
        """Return moves (n, d) of features as they are counted here."""
        return moves

    def in_features(self, moves: Array) -> Array:
        """Return moves (n, d) of features, with whole steps free of rounding."""
        return moves

    def lengths(self, moves: Array) -> Array:
        """Return how much of a budget each of these moves, counted as here, takes."""
        return self.problem.allowance.norm.length(moves)

    def refit(self, moves: Array | None, query_move: Array | None = None, near: Outcome | None = None) -> Outcome:
        """Retrain on moved data; from the last refit where training has one minimum."""
        warm = near is not None and self.problem.model.convex
        memory = Memory(near.fit.parameters) if near and warm else None
        point = self.point if query_move is None else self.point + self.in_cost(query_move[None])[0]
        return refit(self.training, moves, point, self.problem.goal_target, memory, PRECISION)

    def slopes(self, outcome: Outcome, where: Array | None) -> Array:
        """Return ∇_x s_i (n, d) for the signal at an outcome, for everyone at moves `where` (None: where they stand).

        A maker without a signal of its own is asked at the outcome's moves.
        """
        step = self._maker.differentiate(self.training, outcome, None)
        if step.signal is None or where is outcome.moves:
            return -step.slopes[:-1]
        return self.training.score_gradients(step.fit.parameters, self.training.moved(where), step.signal)

    def respond(self, slopes: Array, budgets: Array) -> Array:
        """Return everyone's best move (n, d) along the slopes, within these budgets (n,) and their other limits."""
        return self.problem.allowance.norm.maximise(slopes, budgets)

    def gains(self, outcome: Outcome) -> Array:
        """Return w̄_i max ⟨∇_x s_i, δ⟩ (n,): what everyone's full move from where they stand gains, to first order."""
        slopes = self.slopes(outcome, None)
        return self.weights * np.einsum("nd,nd->n", slopes, self.respond(slopes, self.budgets))

    def judged(self, outcome: Outcome, query_move: Array | float = 0.0) -> RefitResult:
        """Return what is lowered at an outcome, and whether it is a success, by the audit's rules."""
        given = Contribution(None if outcome.moves is None else self.in_features(outcome.moves))
        refit = TrainedRefit(self._retraining, given, self._retraining.training, outcome.fit)
        return self._retraining.said(refit, query_move)


class OneResponseOnTable(OneResponse):
    """The same on a table: moves are in cost, of those columns alone that somebody may move."""

    def __init__(self, problem: Problem, signal: Any, query: bool) -> None:
        super().__init__(problem, signal, query)
        self._measured = problem.measured(query)
        self.training = CostUnits(self.training, self._measured.columns, self._measured.costs, self.point)
        self.point = self.training.point

    def in_cost(self, moves: Array) -> Array:
        """Return moves (n, d) of features as they are counted here."""
        return moves[:, self._measured.columns] * self._measured.costs

    def in_features(self, moves: Array) -> Array:
        """Return moves (n, d) of features, with whole steps free of rounding."""
        return self._measured.exactly(moves)

    def respond(self, slopes: Array, budgets: Array) -> Array:
        """Return everyone's best integer move (n, d) along the slopes, within these budgets (n,) and other limits."""
        return Lattice(self._measured.with_budgets(np.append(budgets, 0.0))).answer(slopes)
