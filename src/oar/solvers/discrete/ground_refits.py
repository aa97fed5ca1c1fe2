"""True refits with other labels and weights, and the score's promise of what a change will do.

At a refit θ, with v = H⁻¹g and a member's score s = vᵀ∇_θ ℓ(θ; x, y), the query's loss changes to first order by

    a label y' for y:   −w̄_i [s_i(y') − s_i(y)]
    leaving:            w̄_i / (1 − w̄_i) · [s_i − Σ_j w̄_j s_j]        (the others' shares grow by 1 / (1 − w̄_i))

The Σ is there because the operator averages over those who are left. Labels are far from linear, so these only say what
to try.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.models import Ensemble
from oar.models.training import Fit, Training
from oar.problem import Problem
from oar.solvers.discrete.ground import EMPTY, Changes, applied, given_weights

Array = NDArray[np.float64]
TIGHT = 1e-9  # the gradient norm of refits that are compared
ROUGH = 1e-6  # the same, of models that only stand in for a black box
CONVERGED = 1e-6  # a larger gradient is not that of a minimum
SOLVED = 1e-6  # relative residual of v, which only ranks
NUDGE = 1e-4  # by how much targets are shifted to find the score's slope in them
KEPT = 4_096  # losses that are remembered


@dataclass(frozen=True, eq=False)
class GroundRefit:
    """A true refit: the training it was made by, the fit, and the query's loss and its gradient in θ there."""

    training: Training
    fit: Fit
    loss: float
    pull: Array


class CountedRefits:
    """Refits of one problem's model with any labels, weights and moves; counts them.

    Attributes:
        refits: how many refits there were. passes: how often they read all the data.
    """

    def __init__(self, problem: Problem) -> None:
        """Bind the model to the people as they are."""
        self.problem, self.model = problem, problem.model
        self.training: Training = problem.training()
        self.weights = given_weights(problem)
        self.refits = self.passes = 0
        self._precision = ROUGH if isinstance(problem.model, Ensemble) else TIGHT
        self._warm = problem.model.convex
        self._begin: Array | None = None  # parameters of the first refit

    def check(self) -> None:
        """Raise a NumericsError where already the people as they are have no fit."""
        self.training.fit(self.training.moved(None), self.training.start(), TIGHT)

    def features(self, moves: Array | None) -> Any:
        """Return moved features in the training's own form."""
        return self.training.moved(moves)

    def at(self, features: Any, rows: Array, weights: Array, near: GroundRefit | None = None) -> GroundRefit | None:
        """Refit, from another one near it or else from the first one; None where that is not possible.

        Where training has many minima it starts from scratch.
        """
        if not self.problem.regresses and not (weights @ rows > EMPTY * weights.sum()).all():
            return None
        targets = np.ascontiguousarray(self.model.target_rows(rows))
        known = near is not None and self._warm
        training = (near.training if known else self.training).contributing(targets, weights / weights.sum())  # type: ignore[union-attr]
        begin = near.fit.parameters if known else self._begin  # type: ignore[union-attr]
        self.refits += 1
        try:
            fit = training.fit(features, training.start() if begin is None else begin, self._precision)
            loss, pull, _ = training.goal(fit.parameters, self.problem.first_query, self.problem.goal_target)
        except (NumericsError, DataError):  # separated by the change, or a class without variance
            return None
        finally:
            self.passes += training.passes
        if (not fit.converged and fit.residual > CONVERGED) or not np.isfinite(loss):
            return None
        if self._warm and self._begin is None:
            self._begin = fit.parameters
        return GroundRefit(training, fit, loss, pull)

    def signal(self, refit: GroundRefit) -> Array | None:
        """Return v = H⁻¹g; None where H forbids it."""
        before = refit.training.passes
        try:
            return refit.training.solve(refit.fit, refit.pull, None, SOLVED)
        except NumericsError:
            return None
        finally:
            self.passes += refit.training.passes - before

    def scores(self, refit: GroundRefit, signal: Array, rows: Array) -> Array:
        """Return everyone's s (n,), if its label were that row of `rows` (n, k)."""
        self.passes += 1
        targets = np.ascontiguousarray(self.model.target_rows(rows))
        return refit.training.scores(refit.fit.parameters, refit.fit.features, signal, targets)

    def label_slopes(self, refit: GroundRefit, signal: Array, rows: Array) -> Array:
        """Return ∂s_i/∂y_ic (n, k), by central differences.

        These are exact for losses that are at most quadratic in the target, as all of ours are away from kinks.
        """
        slopes = np.empty(rows.shape)
        for column in range(rows.shape[1]):
            up, down = rows.copy(), rows.copy()
            up[:, column] += NUDGE
            down[:, column] -= NUDGE
            slopes[:, column] = (self.scores(refit, signal, up) - self.scores(refit, signal, down)) / (2 * NUDGE)
        return slopes


class RefittedGround:
    """People with some labels (n, k) and moves, on which single changes are tried by true refits."""

    exact = False

    def __init__(self, refitting: CountedRefits, rows: Array, moves: Array | None) -> None:
        """Refit to these people as they are."""
        self._refitting, self._rows = refitting, rows
        self._features = refitting.features(moves)
        self._losses: dict[frozenset[tuple[int, int]], float] = {}
        self._last: tuple[frozenset[tuple[int, int]], GroundRefit] | None = None  # where changes were promised
        self._newest: tuple[frozenset[tuple[int, int]], GroundRefit | None] | None = None
        self.began = refitting.at(self._features, rows, refitting.weights)

    @property
    def refits(self) -> int:
        """True refits so far."""
        return self._refitting.refits

    def loss(self, changes: Changes) -> float:
        """Return the query's loss after a true refit; infinite where there is none. Losses are remembered."""
        key = frozenset(changes.items())
        if key not in self._losses:
            refit = self._refit(changes)
            self._newest = key, refit
            if len(self._losses) >= KEPT:
                self._losses.clear()
            self._losses[key] = np.inf if refit is None else refit.loss
        return self._losses[key]

    def _refit(self, changes: Changes) -> GroundRefit | None:
        if not changes:
            return self.began
        rows, weights = applied(changes, self._rows, self._refitting.weights)
        near = self._last[1] if self._last is not None else self.began
        return self._refitting.at(self._features, rows, weights, near)

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) the loss now plus each change's first-order effect; all equal where there is no signal."""
        key = frozenset(changes.items())
        kept = next((one for one in (self._last, self._newest) if one is not None and one[0] == key), None)
        refit = self._refit(changes) if kept is None else kept[1]
        rows, weights = applied(changes, self._rows, self._refitting.weights)
        found = np.zeros((len(rows), rows.shape[1] + 1))
        if refit is None:
            return found
        self._last = key, refit
        signal = self._refitting.signal(refit)
        if signal is None:
            return found
        shares = weights / weights.sum()
        own = self._refitting.scores(refit, signal, rows)
        if not self._refitting.problem.regresses:
            for code in range(rows.shape[1]):
                flipped = np.zeros(rows.shape)
                flipped[:, code] = 1.0
                found[:, code] = -shares * (self._refitting.scores(refit, signal, flipped) - own)
        rest = np.maximum(1 - shares, np.finfo(float).eps)
        found[:, -1] = shares / rest * (own - shares @ own)
        return refit.loss + np.where(np.isfinite(found), found, 0.0)
