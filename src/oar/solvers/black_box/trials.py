"""True trainings of a black box while planning: within a number of them and a time, and never by one lucky seed.

Every training asks here first whether it may be. A search ends with `NoTrainingsLeft` where it may not, or where the
black box fails; whoever searches keeps the best that was seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oar.black_boxes.refits import BlackBoxContribution, BlackBoxRefits
from oar.errors import EstimatorError
from oar.estimators.black_box.box import Box
from oar.estimators.black_box.calls import Calls
from oar.plans.explain.side_effects import measured_effects
from oar.problem import Problem

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
class TrialContribution:
    """What everyone does: moves (n, d), labels (n, k) and weights (n,) where they change, and the query's own move."""

    moves: Array
    rows: Array | None = None
    weights: Array | None = None
    query_move: Array | None = None

    @property
    def given(self) -> BlackBoxContribution:
        """What the operator gets."""
        return BlackBoxContribution(self.moves, self.rows, self.weights)


@dataclass(eq=False)
class Trials:
    """Counted trainings for one problem.

    Attributes:
        problem: whose model is a black box.
        refits: trainings that may be begun.
        deadline: the reading of `time.monotonic` after which none may end.
        began: what was asked of the black box before, where some of that counts here, too; None for all of it.
    """

    problem: Problem
    refits: int
    deadline: float = np.inf
    began: Calls | None = None
    _unmoved: dict[int, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin to count."""
        self.asking = BlackBoxRefits(self.problem)
        self.box = self.asking.box
        self._before: Calls = self.box.calls.copy() if self.began is None else self.began

    @property
    def calls(self) -> Calls:
        """What was asked of the black box since."""
        return self.box.calls.since(self._before)

    @property
    def left(self) -> int:
        """Trainings that may still be begun."""
        return self.refits - self.calls.fits

    def check(self) -> None:
        """Raise `NoTrainingsLeft` where no further training may be begun."""
        if self.left <= 0:
            raise NoTrainingsLeft(f"It has taken as many trainings as it may, {self.refits:,}; allow more with refits.")
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
            return self.asking.is_random()
        except EstimatorError as failed:
            raise self._failed(failed) from failed

    def _failed(self, failed: EstimatorError) -> Exception:
        """Return what to raise where the black box fails: before anything was reached, its own error."""
        reached = self.calls.fits > self.calls.failures
        return NoTrainingsLeft(f"It failed, and what was reached before is kept: {failed}") if reached else failed

    def trained(self, deed: TrialContribution, number: int) -> Box:
        """Train once on what everyone does, with the seed of this number."""
        self.check()
        return self.asking.refit(deed.given, number)

    def loss(self, deed: TrialContribution, number: int) -> float:
        """Return the goal loss after one training, far higher where others are not left alone as they must be.

        Raises:
            NoTrainingsLeft: where there may be no training, or it fails.
        """
        return self.judged(deed, number)[0]

    def judged(self, deed: TrialContribution, number: int, guided: bool = False) -> tuple[float, float]:
        """Return the goal loss after one training, and if `guided` what a search should go by: it, and a little more.

        Trees and neighbours are flat nearly everywhere: all that is tried may have the same loss. How far from the
        query the nearest place is that has the goal, by one question more, then tells what comes nearer.
        """
        try:
            if not self._acts(deed).any():
                box, broken = self.unmoved(number), 0
            else:
                before = None if self.problem.kept is None else self.unmoved(number)
                box, broken = self.trained(deed, number), 0
                if before is not None:
                    told = measured_effects(
                        self.problem, self._acts(deed), deed.moves, before.predictions, box.predictions
                    )
                    broken = len(told.broken)
            points = self.asking.points(deed.moves, deed.query_move)
            loss = self.problem.combined(*self.asking.judged(box, points))[0] + BROKEN * broken
            loss = loss if np.isfinite(loss) else np.inf
            if not guided or self.problem.regresses:
                return loss, loss
            return loss, loss + NEARER * self.asking.distance(box, points)
        except EstimatorError as failed:
            raise self._failed(failed) from failed

    def losses(self, deed: TrialContribution, numbers: range) -> float:
        """Return the mean goal loss over several seeds."""
        return float(np.mean([self.loss(deed, number) for number in numbers]))

    def unmoved(self, number: int) -> Box:
        """Return the black box trained on everyone as they are; once for each seed."""
        if number not in self._unmoved:
            self._unmoved[number] = self.trained(TrialContribution(np.zeros_like(self.asking.features)), number)
        return self._unmoved[number]

    def _acts(self, deed: TrialContribution) -> NDArray[np.bool_]:
        acts = np.asarray(deed.moves.any(axis=1))
        people = self.problem.people
        if deed.rows is not None:
            before = people.target_rows(self.problem.regresses)
            acts |= (deed.rows != before).any(axis=1)
        if deed.weights is not None:
            acts |= deed.weights != people.row_weights
        return acts


def kept_for_finals(trials: Trials, random: bool) -> int:
    """Return how many trainings a search leaves for the comparison of finalists."""
    return trials.left // FINAL_SHARE if random else 0


def best_of(
    trials: Trials, safe: list[TrialContribution], others: list[TrialContribution], first: int
) -> tuple[TrialContribution, float]:
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
