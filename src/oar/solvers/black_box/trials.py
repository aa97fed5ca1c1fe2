"""True trainings of a black box while planning: within a number of them and a time, and never by one lucky seed.

Every training asks here first whether it may be. A search ends with `NoTrainingsLeft` where it may not, or where the
black box fails; whoever searches keeps the best that was seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import EstimatorError
from oar.estimators.black_box.box import Box
from oar.estimators.black_box.calls import Calls
from oar.plans import Plan, Proposal
from oar.problem import Problem
from oar.retraining.black_box import BlackBoxTraining, BoxRefit
from oar.retraining.contribution import Contribution
from oar.retraining.side_effects import measured_effects

Array = NDArray[np.float64]
PROBE = 3  # trainings to find out whether training is random, at the most
WORTH_PROBING = 8  # trainings: with fewer there is better to do with them
NEARER = 0.1  # of the loss for each standard deviation: what a search goes by beside the loss itself
BROKEN = 1e6  # what is added to the loss of a plan that does to others what it must not
FINAL_SHARE = 3  # one training in so many is kept for comparing finalists over fresh seeds
CLEARLY = 0.5  # standard errors by which what was found must be better than what was there
ROUNDS = 2  # seeds after which the worse half of the finalists is left out


class NoTrainingsLeft(Exception):
    """No further training: `str` says why, in a sentence."""


@dataclass(frozen=True, eq=False)
class Candidate(Contribution):
    """A plan that is tried: what everyone hands in, and the query's own move (d,), None where it stays."""

    query_move: Array | None = None


class Trials(BlackBoxTraining):
    """Counted trainings for one problem.

    Args:
        problem: whose model is a black box.
        most: trainings that may be begun.
        deadline: the reading of `time.monotonic` after which none may end.
        began: what was asked of the black box before, where some of that counts here, too; None for all of it.
    """

    def __init__(self, problem: Problem, most: int, deadline: float = np.inf, began: Calls | None = None) -> None:
        """Begin to count."""
        super().__init__(problem)
        self.most, self.deadline = most, deadline
        self._began: Calls = self.box.calls.copy() if began is None else began
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
            if self.deadline < np.inf and time.monotonic() + PROBE * self.box.calls.longest > self.deadline:
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


def unproved(plan: Plan, solver: str, loss: float, calls: Calls, **said: Any) -> Proposal:
    """Return what was found by trainings and questions alone, which prove nothing."""
    return Proposal(plan, solver, loss, np.inf, exact=False, passes=calls.fits, calls=calls, **said)
