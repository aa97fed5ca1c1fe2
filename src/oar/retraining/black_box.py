"""Refits of a model that can only be trained and asked, and what each means for who asks.

Where there are labels alone, a goal is 0 or 1, which tells a search nothing until it is over. So the model is asked,
all at once, about places on the straight ways from the query to some people who are labelled as is wanted; the length
of the shortest way to such a place, in standard deviations of the features, is 0 where the query itself gets the goal
and falls as the boundary comes nearer. Where no place is found the loss is the length of the longest way, and a half
more. These people, and so the places, are settled before anybody moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.estimators.black_box.box import BlackBox, Box
from oar.estimators.black_box.seeding import drawn_seed
from oar.goals import ClassWish, ValueWish, Wish
from oar.goals.wishes import TIE
from oar.people import Population
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import Array, Mask, Refit, Retraining

PROBED = 200  # places between people whose predictions are compared to see whether two trainings are the same
SAME = 1e-9
PLANNING, AUDIT, PROBE = 0, 1, 2  # draws of seeds that have nothing to do with each other
WAYS, PLACES = 24, 16  # people to go to, and places on each way
NOWHERE = 1.5
ROUNDED = 1e-12  # in squares of the largest coordinates: what estimators' own distances may be wrong by
IGNORES = (
    "It ignores its seed: two trainings on the same data with the same seed predict differently (by up to {:.2g})."
)
UNSEEDED = (
    "Its training is random and has no seed: two trainings on the same data predict differently (by up to {:.2g})."
)


@dataclass(frozen=True, eq=False)
class LabelDistance:
    """Places (w·s, d) relative to the query, by how far along the way they are, and their lengths (w·s,)."""

    places: Array
    lengths: Array

    @classmethod
    def of(cls, people: Population, codes: tuple[int, ...], point: Array) -> LabelDistance:
        """Return the ways from a query (d,) to the nearest people of the classes that it wants."""
        features = np.asarray(people.features, dtype=np.float64)
        spreads = features.std(axis=0)
        scaled = np.where(spreads > 0, spreads, 1.0)
        wanted = np.flatnonzero(np.isin(people.codes(0, people.size), codes))
        ways = features[wanted] - point
        lengths = np.sqrt(((ways / scaled) ** 2).sum(axis=1))
        near = np.argsort(lengths, kind="stable")[:WAYS]
        shares = np.arange(1, PLACES + 1) / PLACES
        return cls(
            (shares[:, None, None] * ways[near]).reshape(-1, features.shape[1]),
            np.outer(shares, lengths[near]).ravel(),
        )

    def asked(self, point: Array) -> Array:
        """Return whom to ask about (1 + w·s, d): the query, and the places around it."""
        return np.vstack([point, point + self.places])

    def loss(self, reached: NDArray[np.bool_]) -> float:
        """Return the distance, from whether each of those asked about has the goal."""
        if reached[0]:
            return 0.0
        if not reached[1:].any():
            return NOWHERE * float(self.lengths.max(initial=1.0))
        return float(self.lengths[reached[1:]].min())


@dataclass(frozen=True, eq=False)
class BoxRefit(Refit):
    """A black box that was trained on a contribution."""

    retraining: BlackBoxTraining
    contribution: Contribution
    box: Box

    def judged(self, points: Array) -> tuple[Array, Mask]:
        """Return losses and who reaches its goal."""
        return self.retraining.answers(self.box, points)

    def predict(self, rows: Array) -> NDArray[Any]:
        """Return class codes or values."""
        return self.box.predictions(rows)


class BlackBoxTraining(Retraining):
    """Retraining of a black box: by its own fit, with another seed each time where that is random.

    Args:
        problem: whose model is a black box.
        draws: which seeds are drawn: `PLANNING` or `AUDIT`, so that no plan is judged by seeds that it was made with.
    """

    def __init__(self, problem: Problem, draws: int = PLANNING) -> None:
        super().__init__(problem)
        if not isinstance(problem.model, BlackBox):
            raise OptionError(f"model: must be an oar.BlackBox(…) to be asked from outside, got {problem.model!r}.")
        self.box, self._draws = problem.model, draws

    def refit(self, contribution: Contribution, near: Any = None) -> BoxRefit | None:
        """Train with the next seed, or with the only one there is where training is not random."""
        if not self.trainable(contribution):
            return None
        self.refits += 1
        return self.seeded(contribution, self.refits if self.is_random() else 0)

    def seeded(self, contribution: Contribution, number: int) -> BoxRefit:
        """Train once on a contribution, with the seed of this number."""
        new = contribution.beyond(self.before)
        people = new.handed_in(self.problem.people, self.problem.regresses)
        features = self.features + (0.0 if new.moves is None else new.moves)  # a copy: training may change it
        return BoxRefit(self, contribution, self.trained(people, features, number))

    def trained(self, people: Population, features: Array, number: int) -> Box:
        """Train once on people with these features (n, d), with the seed of this number."""
        return self.box.train(people, features, drawn_seed(self.box.seed, self._draws, number))

    def unmoved(self, number: int) -> Box:
        """Train once on everyone as they are."""
        return self.seeded(Contribution(), number).box

    def answers(self, box: Box, points: Array) -> tuple[Array, Mask]:
        """Return the loss of each who asks (q,), at points (q, d), and whether they reach their goals.

        That is one question for all of them, and one more where there are no probabilities, or where it decides by
        itself what they mean.
        """
        said = box.says(points)
        if said.codes is not None:
            return self._by_labels(box, points)
        outputs = said.values if said.logits is None else said.logits
        assert outputs is not None
        codes = box.predictions(points) if box.decides else outputs.argmax(axis=1)
        each = [
            (loss_of(wish, row), reached_by(wish, row, code))
            for wish, row, code in zip(self.problem.wishes, outputs, codes, strict=True)
        ]
        losses, reached = (np.array(part) for part in zip(*each, strict=True))
        return losses, reached

    def _by_labels(self, box: Box, points: Array) -> tuple[Array, Mask]:
        if self.problem.query.probability is not None:
            raise OptionError(
                f"probability: {self.box.name} has no predict_proba, so that nothing is known of it; leave it out."
            )
        distances, found = self._around(box, points)
        return np.array(distances), np.array([bool(reached[0]) for reached in found])

    def distance(self, box: Box, points: Array) -> float:
        """Return how far from those who ask, at points (q, d), the nearest places with their goals are, on average.

        That is one question, whether there are probabilities or not; in standard deviations of the features.
        """
        return float(np.mean(self._around(box, points)[0]))

    def _around(self, box: Box, points: Array) -> tuple[list[float], list[Mask]]:
        """Return label distances of those who ask, and which of the places around each have its goal."""
        asked = [distance.asked(point) for distance, point in zip(self.distances, points, strict=True)]
        codes = box.predictions(np.vstack(asked))
        ends = np.cumsum([len(rows) for rows in asked])[:-1]
        parts = zip(self.problem.wishes, np.split(codes, ends), strict=True)
        found = [np.isin(part, wish.codes) for wish, part in parts]  # type: ignore[union-attr]
        return [distance.loss(reached) for distance, reached in zip(self.distances, found, strict=True)], found

    @cached_property
    def distances(self) -> list[LabelDistance]:
        """Where to look for the goal where there are no probabilities, for each of those who ask."""
        problem = self.problem
        return [
            LabelDistance.of(problem.people, wish.codes, point)  # type: ignore[union-attr]
            for wish, point in zip(problem.wishes, problem.asked.points, strict=True)
        ]

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


def neighbours_of(problem: Problem) -> int | None:
    """Return k where the model is scikit-learn's k nearest neighbours of plain features, one person, one vote."""
    model = problem.model
    if (
        not isinstance(model, BlackBox)
        or problem.limits is not None
        or problem.several
        or model.is_random(problem.people)
    ):
        return None
    estimator: Any = model.estimator
    if not type(estimator).__module__.startswith("sklearn.neighbors"):
        return None
    from sklearn.neighbors import KNeighborsClassifier

    if type(estimator) is not KNeighborsClassifier or estimator.metric_params:
        return None
    straight = estimator.metric in ("euclidean", "l2") or (estimator.metric == "minkowski" and estimator.p == 2)
    number = int(estimator.n_neighbors)
    # Votes that are weighted by distance are equal only where there is one.
    equal = estimator.weights in ("uniform", None) or (estimator.weights == "distance" and number == 1)
    return number if straight and equal and number <= problem.people.size else None
