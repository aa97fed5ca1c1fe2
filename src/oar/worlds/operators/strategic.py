"""An operator who expects people to game its classifier, and sets it accordingly (Hardt et al., 2016).

A linear classifier of two classes predicts "favoured" where z = w·x + b > 0. A refused person crosses the boundary if a
move of at most ε suffices. The shortest move has the length −z/‖w‖_q (1/p + 1/q = 1), so on people's responses the
prediction is "favoured" exactly where

    z > −ε ‖w‖_q.

Labels stay. For a given w, the b that is most accurate on responses is therefore the b that is most accurate on the
unmoved features, less ε ‖w‖_q. Only the order of scores counts, so trying a threshold between every two neighbouring
scores finds it exactly. There is no such search for w: it is learned anew from the responses, and the best direction is
kept, the plain fit's own included.

Hardt, Megiddo, Papadimitriou and Wootters (2016), Strategic classification. ITCS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import check_number, check_that, check_whole, choose, with_near_names
from oar.errors import DataError, OptionError
from oar.models.linear.losses import Linear
from oar.people import Population
from oar.typing import Label
from oar.worlds.deployed.predictions import flat
from oar.worlds.protocol import Array, Mask, Respond, State

TRUSTS = ("history", "rounds")
ACROSS = 1e-9  # of ε: how far beyond the boundary responses end


@dataclass(frozen=True, eq=False)
class Forecast:
    """The operator's forecast.

    Attributes:
        accuracy: the accuracy of the deployed model, on responses to it.
        plain: the accuracy of the plain fit, on responses to that.
        steps: the number of directions that were tried.
        converged: whether the direction stopped changing.
    """

    accuracy: float
    plain: float
    steps: int
    converged: bool


@with_near_names
@dataclass(eq=False)
class StrategicAware:
    """An operator who deploys the linear classifier that is most accurate once people have responded to it.

    Args:
        model: a model of two classes with outputs linear in the features, such as oar.SoftmaxRegression().
        budget: ε, the longest move that people make to be favoured. norm: its norm.
        favoured: the class that people want; None for the second one.
        trusts: "history": it learns from the history, when nobody knew of a classifier, as in the paper, and never
            retrains; "rounds": it learns from every round's people as if nobody of them had moved, which follows drift,
            and raises the threshold from round to round if they have.
        tolerance: the direction has stopped changing once its change is at most this, as a share of its length.
        most_steps: the largest number of directions; 1 keeps that of the plain fit.
        name: its name in messages.
    """

    model: Linear
    budget: float
    norm: Any = 2
    favoured: Label | None = None
    trusts: str = "history"
    tolerance: float = 1e-6
    most_steps: int = 20
    name: str = "strategic-aware"

    def __post_init__(self) -> None:
        if not isinstance(self.model.unscaled, Linear) or self.model.regresses:
            raise OptionError(
                f"model: must be a linear model of two classes, such as oar.SoftmaxRegression(), got {self.model!r}."
            )
        self.budget, self.norm = check_budget(self.budget, "budget"), Norm.of(self.norm)
        choose("trusts", self.trusts, TRUSTS)
        check_number("tolerance", self.tolerance, above=0, below=1)
        check_whole("most_steps", self.most_steps, 1)

    def begin(self, history: Population) -> State:
        """Learn from the history."""
        return self.learned(history)

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Learn from the round's people, if they are trusted; otherwise leave everything as it is."""
        return replace(state, retrained=False) if self.trusts == "history" else self.learned(batch)

    def learned(self, people: Population) -> State:
        """Return the most accurate classifier found on responses; the plain fit's direction is tried first."""
        sign, wanted = self._sides(people)
        weights = people.row_weights
        features = np.asarray(people.features, dtype=np.float64)

        def accuracy(matrix: Array) -> float:
            return float(np.average(self.gets(matrix, features) == wanted, weights=weights))

        best, highest, plain = np.empty(0), -1.0, np.nan
        direction, converged, steps, seen = np.empty(0), False, 0, people
        while steps < self.most_steps and not converged:
            fitted = sign * np.asarray(self.model.fit(seen), dtype=np.float64)
            if steps == 0:
                plain = accuracy(fitted)
            steps += 1
            shifted = self.shifted(fitted, features, wanted, weights)
            reached = accuracy(shifted)
            if reached > highest:
                best, highest = shifted, reached
            unit = fitted[0, :-1] / max(float(np.linalg.norm(fitted[0, :-1])), np.finfo(float).tiny)
            converged = bool(direction.size and np.linalg.norm(unit - direction) <= self.tolerance)
            direction, seen = unit, people.with_features(features + self.responses(shifted, features))
        found = sign * best
        return State(found, flat(found), memory=Forecast(highest, plain, steps, converged))

    def gets(self, matrix: Array, features: Array) -> Mask:
        """Return who is favoured (n,) by (w, b) (1, d + 1) after responding; favoured is z > 0."""
        return self._scores(matrix, features) > -self._reach(matrix)

    def responses(self, matrix: Array, features: Array) -> Array:
        """Return the shortest moves (n, d) of the people who can cross the boundary; 0 for all others."""
        scores, reach = self._scores(matrix, features), self._reach(matrix)
        goes = (scores <= 0) & (scores > -reach)
        if not goes.any():
            return np.zeros_like(features)
        # max ⟨w, δ⟩ over ‖δ‖_p ≤ r is r ‖w‖_q, so r = −z/‖w‖_q just gets there.
        lengths = np.where(goes, -scores / (reach / self.budget), 0.0)
        return self.norm.maximise(matrix[0, :-1], np.minimum(lengths + ACROSS * self.budget, self.budget) * goes)

    def shifted(self, matrix: Array, features: Array, wanted: Mask, weights: Array) -> Array:
        """Return (w, b') with the b' that is most accurate on responses; of equally good ones the nearest to b.

        With scores s = w·x in order, a cut above the first m of them refuses these and favours all others. Its accuracy
        is the weight of the people whom it rightly refuses or favours. Equal scores stay together.
        """
        scores = features @ matrix[0, :-1]
        order = scores.argsort(kind="stable")
        ranked, right = scores[order], np.where(wanted, weights, -weights)[order]
        # Above the first m: Σ_{i>m} right_i + the weight of all who should be refused.
        gains = np.append(np.cumsum(right[::-1])[::-1], 0.0)
        cuts = np.concatenate([[-np.inf], (ranked[:-1] + ranked[1:]) / 2, [np.inf]])
        possible = np.concatenate([[True], ranked[:-1] < ranked[1:], [True]])
        cuts, gains = cuts[possible], gains[possible]
        margin = max(1.0, float(np.ptp(ranked)), float(np.abs(ranked).max()))
        cuts[0], cuts[-1] = ranked[0] - margin, ranked[-1] + margin
        top = np.flatnonzero(gains >= gains.max() - 1e-12 * weights.sum())
        # On responses: favoured where s + b' > −reach, so the cut is at −b' − reach.
        offsets = -cuts[top] - self._reach(matrix)
        found = matrix.copy()
        found[0, -1] = offsets[np.abs(offsets - matrix[0, -1]).argmin()]
        return found

    def _scores(self, matrix: Array, features: Array) -> Array:
        return features @ matrix[0, :-1] + matrix[0, -1]

    def _reach(self, matrix: Array) -> float:
        """Return ε ‖w‖_q."""
        return self.budget * float(self.norm.dual.length(matrix[0, :-1]))

    def _sides(self, people: Population) -> tuple[float, Mask]:
        """Return the sign with which outputs are for the favoured class, and who should be favoured (n,)."""
        classes = people.classes
        if len(classes) != 2:
            raise DataError(f"people: {self.name} needs two classes, got {len(classes)}: {classes}.")
        favoured = classes[1] if self.favoured is None else self.favoured
        check_that(favoured in classes, "favoured", f"one of the classes {classes}", favoured)
        code = classes.index(favoured)
        return (1.0 if code == 1 else -1.0), np.asarray(people.codes(0, people.size) == code)
