"""Slopes of a black box: differences between true trainings, with intervals.

Nothing is known of a black box but what its trainings say, and each is far too coarse for one member. So groups of
members act together, each class a group:

**Moves.** In each pair of trainings all groups move along every feature at once, each by a sign of its own, and then
the other way, with the same seed: y_t = [L(Δ_t) − L(−Δ_t)] / 2. Everyone goes as far as its budget. Signs are rows of a
Hadamard matrix, flipped at random for each of its runs, so that the effects of groups and features come apart again:
G_b = mean_t ±_{tb} y_t, and their errors follow from what of y_t they do not explain.

**Labels and leaving.** Of one group after the other a few random members get a label, or leave; what the loss falls by,
beside a training with the same seed in which nobody acts, is shared among them.

A member's slope is the mean of its group. So the sum over a class is at most that of everybody's own slopes: it is the
leverage of moves that its members make in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.errors import EstimatorError
from oar.estimators.black_box import Calls
from oar.people.wording import counted
from oar.problem import Problem
from oar.progress import is_late
from oar.questions.slopes.labels import LabelSlopes, of_falls
from oar.retraining.black_box import BlackBoxTraining
from oar.retraining.contribution import Contribution

Array = NDArray[np.float64]
CONFIDENCE = 0.95
FEWEST = 2  # pairs, below which there is no interval
TOGETHER = 0.1  # of a group who are relabelled or leave at once


@dataclass(frozen=True, eq=False)
class MoveSlopes:
    """Slopes (n, d) in the features' own units, and the loss before.

    Half-widths of their intervals (groups, d) are, on a table, by cost.
    """

    slopes: Array
    margins: Array
    loss: float


class TrainedDifferences:
    """Differences between trainings of a problem's black box; `note` says how many there were."""

    def __init__(self, problem: Problem, most: int, seed: int, everyone: bool) -> None:
        self.problem, self._most, self._everyone = problem, most, everyone
        self._asking, self._rng = BlackBoxTraining(problem), np.random.default_rng(seed)
        people = problem.people
        self._groups = np.zeros(people.size, dtype=np.intp) if problem.regresses else people.codes(0, people.size)
        self._count = 1 if problem.regresses else len(people.classes)
        self._began, self._unmoved = self._asking.box.calls.copy(), dict[int, float]()

    @property
    def _calls(self) -> Calls:
        return self._asking.box.calls.since(self._began)

    @property
    def note(self) -> str:
        """What was done, in sentences."""
        calls = self._calls
        told = f"Differences between {counted(calls.fits, 'true training', 'true trainings')}, as means of classes."
        failed = f" {counted(calls.failures, 'training', 'trainings')} failed." if calls.failures else ""
        return f"{told}{failed}{' The time was over before all were made.' if is_late() else ''}"

    def _loss(self, contribution: Contribution, number: int) -> float:
        """Return the loss of one training; NaN where there is none."""
        if not self._asking.trainable(contribution):
            return np.nan
        with suppress(EstimatorError):
            seed = number if self._asking.is_random() else 0
            return self._asking.combined(self._asking.seeded(contribution, seed))[0]
        return np.nan

    def _before(self, number: int) -> float:
        """Return the loss where nobody acts, by one training for each seed."""
        number = number if self._asking.is_random() else 0
        if number not in self._unmoved:
            self._unmoved[number] = self._loss(Contribution(), number)
        return self._unmoved[number]

    def _may(self, trainings: int) -> bool:
        return self._calls.fits + trainings <= self._most and not is_late()

    @property
    def loss(self) -> float:
        """The mean loss where nobody acts, of what was tried."""
        return float(np.mean([*self._unmoved.values()])) if self._unmoved else np.nan

    def moves(self) -> MoveSlopes:
        """Return slopes in moves; with labels that change or members who leave, by half of the trainings."""
        dimensions = self.problem.people.dimensions
        columns, lengths, costs = self._ways()
        shape = self._count, columns.size
        signs, falls = self._pairs(shape, columns, lengths)
        effects, errors = _effects(signs, falls)
        reach = np.zeros(shape)  # how far a group goes along each feature, added up
        np.add.at(reach, self._groups, lengths)
        slopes, margins = np.zeros((self._count, dimensions)), np.zeros((self._count, dimensions))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes[:, columns] = np.where(reach > 0, effects.reshape(shape) / reach, 0.0)
            margins[:, columns] = np.where(reach > 0, errors.reshape(shape) / reach, 0.0) / costs
        return MoveSlopes(slopes[self._groups], margins, self.loss)

    def _pairs(self, shape: tuple[int, int], columns: NDArray[np.intp], lengths: Array) -> tuple[Array, Array]:
        """Return signs (t, groups · r) of pairs of trainings, and half of their differences (t,)."""
        problem, signs, halves = self.problem, list[Array](), list[float]()
        share = 0.5 if problem.levers.given else 1.0
        if problem.moves and self._may(1):
            self._before(0)
        for number, rows in enumerate(self._signs(shape)):
            if not problem.moves or not self._may(2) or self._calls.fits + 2 > share * self._most:
                break
            moves = np.zeros((problem.people.size, problem.people.dimensions))
            moves[:, columns] = rows[self._groups] * lengths
            ahead, behind = (self._loss(Contribution(sign * moves), number) for sign in (1.0, -1.0))
            if np.isfinite(ahead - behind):
                signs.append(rows.ravel())
                halves.append((ahead - behind) / 2)
        return np.reshape(signs, (len(signs), shape[0] * shape[1])), np.array(halves)

    def _ways(self) -> tuple[NDArray[np.intp], Array, Array]:
        """Return the columns that move, how far everyone goes along each (n, r), and what a unit of each costs (r,).

        That is in the features' own units.
        """
        problem = self.problem
        radii = problem.allowance.everyones(problem.people.size)
        if self._everyone:
            radii = np.where(radii > 0, radii, radii.max(initial=0.0))
        columns, costs = np.arange(problem.people.dimensions), np.ones(problem.people.dimensions)
        if problem.limits is not None:
            measured = problem.measured(query=False)
            columns, costs = measured.columns, measured.costs
        one = problem.allowance.norm.length(np.ones(columns.size))
        return columns, radii[:, None] / (one * costs), costs

    def _signs(self, shape: tuple[int, int]) -> Iterator[Array]:
        """Yield signs of groups and columns: rows of a Hadamard matrix, in another order and flipped for each run."""
        from scipy.linalg import hadamard

        size = 1 << int(np.ceil(np.log2(max(2, shape[0] * shape[1]))))
        rows = hadamard(size)[:, : shape[0] * shape[1]].astype(np.float64)
        while True:
            flips = self._rng.choice([-1.0, 1.0], rows.shape[1])
            for row in self._rng.permutation(size):
                yield (rows[row] * flips).reshape(shape)

    def levers(self) -> LabelSlopes:
        """Return what labels and leaving promise, one group and one of its changes after the other."""
        problem, before = self.problem, self._asking.before
        changes = before.parts[1].shape[1] + 1
        found: dict[tuple[int, int], list[float]] = {}
        places = [(group, change) for group in range(self._count) for change in range(changes)]
        open_ = {place: self._able(*place) for place in places}
        places = [place for place in places if open_[place].size]
        number = 0
        while places and self._may(2):
            for place in places:
                if not self._may(2):
                    break
                some = self._rng.permutation(open_[place])[: max(1, int(TOGETHER * open_[place].size))]
                fall = self._before(number) - self._loss(self._changed(some, place[1]), number)
                found.setdefault(place, []).extend([fall / some.size] if np.isfinite(fall) else [])
            number += 1
        falls, margins = np.zeros((problem.people.size, changes)), np.zeros((self._count, changes))
        for group, change in places:
            seen = np.array(found.get((group, change), ()))
            effect, margin = _effects(np.ones((seen.size, 1)), seen)
            falls[self._groups == group, change], margins[group, change] = effect[0], margin[0]
        return replace(of_falls(problem, before.parts[2], falls, self._everyone), margins=margins)

    def _able(self, group: int, change: int) -> NDArray[np.intp]:
        """Return who of a group may make a change, which is the code of a label or, last, leaving."""
        relabel, withhold = self.problem.levers.relabel, self.problem.levers.withhold
        rows, weights = self._asking.before.parts[1:]
        mine = (self._groups == group) & (weights > 0)
        if change == rows.shape[1]:
            return np.flatnonzero(mine & withhold.given & (withhold.mask | self._everyone))
        allowed = relabel.given and bool(np.broadcast_to(relabel.allowed, rows.shape[1])[change])
        return np.flatnonzero(mine & allowed & (relabel.mask | self._everyone) & (rows[:, change] < 1))

    def _changed(self, some: NDArray[np.intp], change: int) -> Contribution:
        before = self._asking.before
        targets, weights = before.parts[1].copy(), before.parts[2].copy()
        if change == targets.shape[1]:
            weights[some] = 0.0
        else:
            targets[some] = 0.0
            targets[some, change] = 1.0
        return Contribution(None, targets, weights)


def _effects(signs: Array, falls: Array) -> tuple[Array, Array]:
    """Return effects (b,) of signs (t, b) on numbers (t,), and half-widths of their intervals; NaN where unknown."""
    from scipy.stats import t as student

    pairs, count = signs.shape
    if pairs < FEWEST:
        return np.full(count, np.nan), np.full(count, np.nan)
    effects = signs.T @ falls / pairs
    apart = pairs >= 2 * count  # enough to know what effects leave unexplained
    if apart:
        effects = np.linalg.lstsq(signs, falls, rcond=None)[0]
        freedom = pairs - count
        spread = np.full(count, np.sqrt(((falls - signs @ effects) ** 2).sum() / freedom))
        spread *= np.sqrt(np.diag(np.linalg.pinv(signs.T @ signs)) * pairs)
    else:
        freedom = pairs - 1
        spread = (signs * falls[:, None]).std(axis=0, ddof=1)
    return effects, student.ppf(0.5 + CONFIDENCE / 2, freedom) * spread / np.sqrt(pairs)
