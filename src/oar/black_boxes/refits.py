"""A problem's black box: refits on what people might do, and what each means for who asks."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.black_boxes.label_distance import LabelDistance
from oar.errors import OptionError
from oar.estimators.black_box.box import BlackBox, Box
from oar.estimators.black_box.seeding import drawn_seed
from oar.goals import ClassWish, ValueWish, Wish
from oar.goals.wishes import TIE
from oar.people import Population
from oar.problem import Problem

Array = NDArray[np.float64]
PROBED = 200  # places between people whose predictions are compared to see whether two trainings are the same
SAME = 1e-9
ALL = slice(None)
PLANNING, AUDIT, PROBE = 0, 1, 2  # draws of seeds that have nothing to do with each other
IGNORES = (
    "It ignores its seed: two trainings on the same data with the same seed predict differently (by up to {:.2g})."
)
UNSEEDED = (
    "Its training is random and has no seed: two trainings on the same data predict differently (by up to {:.2g})."
)


class BlackBoxContribution(NamedTuple):
    """What people give the operator: moves (n, d), labels (n, k) as shares or values, and weights (n,).

    Labels and weights are None where they are as they were.
    """

    moves: Array
    rows: Array | None = None
    weights: Array | None = None


class BlackBoxRefits:
    """True refits for one problem.

    Args:
        problem: whose model is a black box.
        draws: which seeds are drawn: `PLANNING` or `AUDIT`, so that no plan is judged by seeds that it was made with.
    """

    def __init__(self, problem: Problem, draws: int = PLANNING) -> None:
        if not isinstance(problem.model, BlackBox):
            raise OptionError(f"model: must be an oar.BlackBox(…) to be asked from outside, got {problem.model!r}.")
        self.problem, self.box, self._draws = problem, problem.model, draws
        self.features = np.asarray(problem.people.features, dtype=np.float64)

    def after(self, given: BlackBoxContribution) -> Population:
        """Return the people as they give their data; features are those of `moved`."""
        people = self.problem.people
        if given.rows is None and given.weights is None:
            return people
        before = people.target_rows(self.problem.regresses)
        kind = "values" if self.problem.regresses else "shares"
        rows = before if given.rows is None else given.rows
        return people.contributing(people.weights if given.weights is None else given.weights, **{kind: rows})

    def refit(self, given: BlackBoxContribution, number: int) -> Box:
        """Train once on what people give, with the seed of this number."""
        return self.trained(self.after(given), self.features + given.moves, number)

    def trained(self, people: Population, features: Array, number: int) -> Box:
        """Train once on people with these features (n, d), with the seed of this number."""
        return self.box.train(people, features, drawn_seed(self.box.seed, self._draws, number))

    def unmoved(self, number: int) -> Box:
        """Train once on everyone as they are."""
        return self.refit(BlackBoxContribution(np.zeros_like(self.features)), number)

    def points(self, moves: Array, query_move: Array | None = None) -> Array:
        """Return where those who ask stand (q, d) after these moves."""
        asked = self.problem.asked
        points = asked.points if query_move is None else asked.points + query_move
        return points if asked.members is None else points + moves[asked.members]

    def judged(self, box: Box, points: Array, some: slice = ALL) -> tuple[Array, NDArray[np.bool_]]:
        """Return the loss of each who asks, or of `some` (q,), at points (q, d), and whether they reach their goals.

        That is one question for all of them, and one more where there are no probabilities, or where it decides by
        itself what they mean.
        """
        wishes = self.problem.wishes[some]
        said = box.says(points)
        if said.codes is not None:
            return self._by_labels(box, points, some)
        outputs = said.values if said.logits is None else said.logits
        assert outputs is not None
        codes = box.predictions(points) if box.decides else outputs.argmax(axis=1)
        each = [
            (loss_of(wish, row), reached_by(wish, row, code))
            for wish, row, code in zip(wishes, outputs, codes, strict=True)
        ]
        losses, reached = (np.array(part) for part in zip(*each, strict=True))
        return losses, reached

    def _by_labels(self, box: Box, points: Array, some: slice) -> tuple[Array, NDArray[np.bool_]]:
        if self.problem.query.probability is not None:
            raise OptionError(
                f"probability: {self.box.name} has no predict_proba, so that nothing is known of it; leave it out."
            )
        distances = self.distances[some]
        asked = [distance.asked(point) for distance, point in zip(distances, points, strict=True)]
        codes = box.says(np.vstack(asked)).codes
        assert codes is not None
        ends = np.cumsum([len(rows) for rows in asked])[:-1]
        found = [
            np.isin(part, wish.codes)  # type: ignore[union-attr]
            for wish, part in zip(self.problem.wishes[some], np.split(codes, ends), strict=True)
        ]
        losses = [distance.loss(reached) for distance, reached in zip(distances, found, strict=True)]
        return np.array(losses), np.array([bool(reached[0]) for reached in found])

    def distance(self, box: Box, points: Array) -> float:
        """Return how far from those who ask, at points (q, d), the nearest places with their goals are, on average.

        That is one question, whether there are probabilities or not; in standard deviations of the features.
        """
        asked = [distance.asked(point) for distance, point in zip(self.distances, points, strict=True)]
        codes = box.predictions(np.vstack(asked))
        ends = np.cumsum([len(rows) for rows in asked])[:-1]
        parts = zip(self.distances, self.problem.wishes, np.split(codes, ends), strict=True)
        return float(np.mean([distance.loss(np.isin(part, wish.codes)) for distance, wish, part in parts]))  # type: ignore[union-attr]

    @cached_property
    def distances(self) -> list[LabelDistance]:
        """Where to look for the goal where there are no probabilities, for each of those who ask."""
        problem = self.problem
        return [
            LabelDistance.of(problem.people, wish.codes, point)  # type: ignore[union-attr]
            for wish, point in zip(problem.wishes, problem.asked.points, strict=True)
        ]

    def verdict(self, box: Box, moves: Array, query_move: Array | None = None) -> tuple[float, bool]:
        """Return what is lowered, and whether as many as must reach their goals, after one refit."""
        return self.problem.combined(*self.judged(box, self.points(moves, query_move)))

    def is_random(self) -> bool:
        """Report whether training is random: as its owner says, or by trying it, which is kept for these people."""
        known = self.box.is_random(self.problem.people)
        if known is None:
            known = self._tried()
            self.box.found_random(self.problem.people, known)
        return known

    def _tried(self) -> bool:
        """Train on everyone as they are: twice with one seed, and once with another where that changes nothing.

        Predictions are compared between people: where they stand, a tree that is fully grown says their own labels.
        """
        people, box = self.problem.people, self.box
        pairs = np.random.default_rng(0).integers(0, people.size, (2, PROBED))
        rows = np.vstack([self.problem.asked.points, self.features[pairs].mean(axis=0)])

        def predicted(number: int) -> Array:
            said = box.train(people, self.features, drawn_seed(box.seed, PROBE, number)).says(rows)
            told = said.logits if said.logits is not None else said.values if said.values is not None else said.codes
            assert told is not None
            return np.exp(told) if said.logits is not None else np.asarray(told, dtype=np.float64)

        first = predicted(0)
        apart = float(np.abs(predicted(0) - first).max())
        if apart > SAME:
            box.note((IGNORES if box.seedable else UNSEEDED).format(apart))
            return True
        return box.seedable and float(np.abs(predicted(1) - first).max()) > SAME


def reached_by(wish: Wish, outputs: Array, code: Any) -> bool:
    """Report whether outputs (o,) of who is predicted the class `code` give the goal; a tie does not."""
    if isinstance(wish, ValueWish) or wish.probability is not None:
        return wish.reached(outputs)
    tied = abs(wish.lead(outputs)) <= TIE * (1 + float(np.abs(outputs).max()))
    return bool(code in wish.codes and not tied)


def loss_of(wish: Wish, outputs: Array) -> float:
    """Return the loss of log-probabilities (k,), or of values (o,)."""
    if isinstance(wish, ClassWish):
        return wish.loss(outputs)
    assert isinstance(wish, ValueWish)
    return 0.5 * float(((outputs - np.clip(outputs, wish.nearest, wish.farthest)) ** 2).sum())
