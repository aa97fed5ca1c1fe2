"""Refits of a model that can only be trained and asked, and what each means for who asks.

Where there are labels alone, a goal is 0 or 1, which tells a search nothing until it is over. So the model is asked,
all at once, about places on the straight ways from the query to some people who are labelled as is wanted; the length
of the shortest way to such a place, in standard deviations of the features, is 0 where the query itself gets the goal
and falls as the boundary comes nearer. Where no place is found the loss is the length of the longest way, and a half
more. These people, and so the places, are settled before anybody moves.

While planning, every training is counted (`Trials`), asks first whether it may be, and is never judged by one lucky
seed. A search ends with `NoTrainingsLeft` where it may not, or where the black box fails; whoever searches keeps the
best that was seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import EstimatorError, OptionError
from oar.estimators.black_box import BlackBox, Box, Calls, drawn_seed
from oar.people import Population
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import Array, Mask, Refit, Retraining
from oar.retraining.side_effects import measured_effects

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
TRIED = 3  # trainings to find out whether training is random, at the most
WORTH_PROBING = 8  # trainings: with fewer there is better to do with them
NEARER = 0.1  # of the loss for each standard deviation: what a search goes by beside the loss itself
BROKEN = 1e6  # what is added to the loss of a plan that does to others what it must not
FINAL_SHARE = 3  # one training in so many is kept for comparing finalists over fresh seeds
CLEARLY = 0.5  # standard errors by which what was found must be better than what was there
ROUNDS = 2  # seeds after which the worse half of the finalists is left out


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

    Seeds are drawn for `PLANNING` or `AUDIT`, so that no plan is judged by seeds that it was made with.
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
        if said.labels_alone:
            return self._by_labels(box, points)
        outputs = said.outputs
        codes = box.predictions(points) if box.decides else outputs.argmax(axis=1)
        each = [
            (wish.loss(row), wish.reached_as(row, code))
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
            plain = said.labels_alone or box.regresses
            return np.asarray(said.outputs, dtype=np.float64) if plain else np.exp(said.outputs)

        first = predicted(0)
        apart = float(np.abs(predicted(0) - first).max())
        if apart > SAME:
            box.note((IGNORES if box.seedable else UNSEEDED).format(apart))
            return True
        return box.seedable and float(np.abs(predicted(1) - first).max()) > SAME


class NoTrainingsLeft(Exception):
    """No further training: `str` says why, in a sentence."""


@dataclass(frozen=True, eq=False)
class Candidate(Contribution):
    """A plan that is tried: what everyone hands in, and the query's own move (d,), 0 where it stays."""

    query_move: Array | float = 0.0


class Trials(BlackBoxTraining):
    """Counted trainings for one problem: at the most so many, none of which may end after a deadline.

    What was asked of the black box before counts from `began` on.
    """

    def __init__(self, problem: Problem, most: int, deadline: float = np.inf, began: Calls | None = None) -> None:
        """Begin to count."""
        super().__init__(problem)
        self.most, self.deadline = most, deadline
        self._began: Calls = began or self.box.calls.copy()
        self._unmoved: dict[int, Box] = {}

    @property
    def stay(self) -> Candidate:
        """What comes of nobody's doing anything."""
        return Candidate(self.before.moves)

    @property
    def calls(self) -> Calls:
        """What was asked of the black box since."""
        return self.box.calls.since(self._began)

    @property
    def left(self) -> int:
        """Trainings that may still be begun."""
        return self.most - self.calls.fits

    def check(self) -> None:
        """Raise `NoTrainingsLeft` where no further training may be begun."""
        if self.left <= 0:
            raise NoTrainingsLeft(f"It has taken as many trainings as it may, {self.most:,}; allow more with refits.")
        if self.deadline < np.inf and time.monotonic() + self.box.calls.longest > self.deadline:
            raise NoTrainingsLeft(
                f"Its time limit does not allow another training, of which the longest took "
                f"{self.box.calls.longest:.2g} s; {self.calls.fits:,} were taken."
            )

    def is_random(self) -> bool:
        """Report whether training is random; where there are too few trainings to find out, whether it has a seed.

        Raises:
            NoTrainingsLeft: where that takes trainings, and there is no time for any.
        """
        if self.box.is_random(self.problem.people) is None:
            if self.left < WORTH_PROBING:
                return self.box.seedable
            if self.deadline < np.inf:  # how long a training takes is known after one that is needed anyway
                self.unmoved(0)
            if self.deadline < np.inf and time.monotonic() + TRIED * self.box.calls.longest > self.deadline:
                return self.box.seedable
        try:
            return super().is_random()
        except EstimatorError as failed:
            raise self._failed(failed) from failed

    def _failed(self, failed: EstimatorError) -> Exception:
        """Return what to raise where the black box fails: before anything was reached, its own error."""
        reached = self.calls.fits > self.calls.failures
        return NoTrainingsLeft(f"It failed, and what was reached before is kept: {failed}") if reached else failed

    def seeded(self, contribution: Contribution, number: int) -> BoxRefit:
        """Train once on a contribution, with the seed of this number, where that may be."""
        self.check()
        return super().seeded(contribution, number)

    def loss(self, candidate: Candidate, number: int) -> float:
        """Return the goal loss after one training, far higher where others are not left alone as they must be.

        Raises:
            NoTrainingsLeft: where there may be no training, or it fails.
        """
        return self.guided(candidate, number, 0.0)[0]

    def guided(self, candidate: Candidate, number: int, nearer: float = NEARER) -> tuple[float, float]:
        """Return the goal loss after one training, and what a search should go by: it, and a little more.

        Trees and neighbours are flat nearly everywhere: all that is tried may have the same loss. How far from the
        query the nearest place is that has the goal, by one question more, then tells what comes nearer.
        """
        try:
            box, broken = self._trial(candidate, number)
            points = self.points(candidate, candidate.query_move)
            loss = self.problem.combined(*self.answers(box, points))[0] + BROKEN * broken
            loss = loss if np.isfinite(loss) else np.inf
            if not nearer or self.problem.regresses:
                return loss, loss
            return loss, loss + nearer * self.distance(box, points)
        except EstimatorError as failed:
            raise self._failed(failed) from failed

    def _trial(self, candidate: Candidate, number: int) -> tuple[Box, int]:
        """Return the box that a candidate leads to, and how many limits on what it does to others are broken."""
        acts = candidate.acts(self.before)
        if not acts.any():
            return self.unmoved(number), 0
        if self.problem.kept is None:
            return self.seeded(candidate, number).box, 0
        before, box = self.unmoved(number), self.seeded(candidate, number).box
        told = measured_effects(self.problem, acts, candidate.moves, before.predictions, box.predictions)
        return box, len(told.broken)

    def losses(self, candidate: Candidate, numbers: range) -> float:
        """Return the mean goal loss over several seeds."""
        return float(np.mean([self.loss(candidate, number) for number in numbers]))

    def unmoved(self, number: int) -> Box:
        """Return the black box trained on everyone as they are; once for each seed."""
        if number not in self._unmoved:
            self._unmoved[number] = super().unmoved(number)
        return self._unmoved[number]


def kept_for_finals(trials: Trials, random: bool) -> int:
    """Return how many trainings a search leaves for the comparison of finalists."""
    return trials.left // FINAL_SHARE if random else 0


def best_of(trials: Trials, safe: list[Candidate], others: list[Candidate], first: int) -> tuple[Candidate, float]:
    """Return the best of some finalists by the mean loss over fresh seeds from number `first` on, and that mean.

    All are trained with the same seeds; after every ROUNDS of them the worse half is left out, so that the last ones
    are compared over as many as trainings allow. Of many, the best over few seeds is often just the luckiest: so the
    others, which a search has found, must be better than the best of those that are `safe` by more than half the
    standard error of the difference. Of equals the first counts. NaN where no seed could be tried for all.
    """
    finalists = [*safe, *others]
    losses: list[list[float]] = [[] for _ in finalists]
    going, seed = list(range(len(finalists))), first
    try:
        while trials.left >= len(going):
            for place, loss in zip(going, [trials.loss(finalists[place], seed) for place in going], strict=True):
                losses[place].append(loss)
            seed += 1
            if not (seed - first) % ROUNDS and len(going) > 2:
                going = sorted(sorted(going, key=lambda place: np.mean(losses[place]))[: max(2, len(going) // 2)])
    except NoTrainingsLeft:
        pass
    if not losses[going[0]]:
        return finalists[0], np.nan
    means = [float(np.mean(one)) for one in losses]
    best, safest = min(going, key=lambda place: means[place]), int(np.argmin(means[: len(safe)]))
    pairs = min(len(losses[best]), len(losses[safest]))
    gains = np.array(losses[safest][:pairs]) - losses[best][:pairs]
    error = float(gains.std(ddof=1) / np.sqrt(pairs)) if pairs > 1 else 0.0
    if best >= len(safe) and gains.mean() <= CLEARLY * error:
        best = safest
    return finalists[best], means[best]


def plain_black_box(problem: Problem) -> BlackBox | None:
    """Return the black box of a problem that may be known exactly: one person asks, of plain features, without luck."""
    model = problem.model
    if not isinstance(model, BlackBox) or problem.limits is not None or problem.several:
        return None
    return None if model.is_random(problem.people) else model


def neighbours_of(problem: Problem) -> int | None:
    """Return k where the model is scikit-learn's k nearest neighbours of plain features, one person, one vote."""
    model = plain_black_box(problem)
    estimator: Any = None if model is None else model.estimator
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
