"""The ground of discrete searches: people with their labels and moves so far, and the single changes open to them.

A *change* is a person who gets the label of a class, or who leaves; a set of changes is a dict from person to what it
does. A *ground* says what true refits make of a set of changes, and what each further change promises.

Of nearest centroid every single change's loss is known exactly, all of them at once: a flip of person i from class a to
class c moves two centroids, and a leaver one,

    μ_a → (S_a − w x_i) / (W_a − w)        μ_c → (S_c + w x_i) / (W_c + w)

so the losses of all n·k changes take O(n·k·(d + k)) arithmetic, and nothing has to be shortlisted. Of other models, at
a refit θ with v = H⁻¹g and a member's score s = vᵀ∇_θ ℓ(θ; x, y), the query's loss changes to first order by

    a label y' for y:   −w̄_i [s_i(y') − s_i(y)]
    leaving:            w̄_i / (1 − w̄_i) · [s_i − Σ_j w̄_j s_j]        (the others' shares grow by 1 / (1 − w̄_i))

The Σ is there because the operator averages over those who are left. Labels are far from linear, so these only say what
to try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.choice import Levers
from oar.errors import OptionError
from oar.models.centroid.nearest_centroid import goal_loss
from oar.models.training import Array, displaced
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining, TrainedRefit

Changes = dict[int, int]
"""From person to the code of the class whose label it gets, or to LEAVE."""
LEAVE = -1
EMPTY = 1e-9  # of everyone's weight: a class that is left with less counts as empty
KEPT = 4_096  # losses that are remembered


def applied(changes: Changes, start: Contribution) -> Contribution:
    """Return what everyone hands in after some changes; every part of `start` but moves is an array."""
    if not changes:
        return start
    targets, weights = start.parts[1].copy(), start.parts[2].copy()
    for person, what in changes.items():
        if what == LEAVE:
            weights[person] = 0.0
        else:
            targets[person] = 0.0
            targets[person, what] = 1.0
    return Contribution(start.moves, targets, weights)


def changes_of(contribution: Contribution, start: Contribution) -> Changes:
    """Return the flips and leavers by which a contribution differs from `start`."""
    _, targets, weights = contribution.over(start)
    flipped = np.flatnonzero((targets != start.targets).any(axis=1))
    found = {int(one): int(targets[one].argmax()) for one in flipped}
    return found | {int(one): LEAVE for one in np.flatnonzero((weights == 0) & (start.parts[2] > 0))}


class Ground(ABC):
    """The ground of a search: people with their labels, weights and moves, of which all but moves are arrays."""

    exact: bool = False  # whether `promised` are losses of true refits, not first-order estimates

    def __init__(self, retraining: Any, start: Contribution) -> None:
        self._retraining, self.start = retraining, start

    @property
    def refits(self) -> int:
        """True refits so far; a look at everybody's exact losses counts as one."""
        return int(self._retraining.refits)

    @abstractmethod
    def loss(self, changes: Changes) -> float:
        """Return the query's loss after a true refit; infinite where there is none."""

    @abstractmethod
    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) losses to be expected after one more change of each kind, the last column for leaving."""


def first_order(start: Contribution, scores: Callable[[Array], Array], regresses: bool) -> Array:
    """Return each change's first-order effect (n, k + 1); `scores` are everyone's s (n,) with some labels (n, k)."""
    _, targets, weights = start.parts
    shares = weights / weights.sum()
    found, own = np.zeros((len(targets), targets.shape[1] + 1)), scores(targets)
    for code in () if regresses else range(targets.shape[1]):
        flipped = np.zeros(targets.shape)
        flipped[:, code] = 1.0
        found[:, code] = -shares * (scores(flipped) - own)
    found[:, -1] = shares / np.maximum(1 - shares, np.finfo(float).eps) * (own - shares @ own)
    return np.where(np.isfinite(found), found, 0.0)


@dataclass(eq=False)
class OpenChanges:
    """The single changes open to people with given labels and weights."""

    levers: Levers
    start: Contribution
    regresses: bool

    def __post_init__(self) -> None:
        _, self._targets, self._weights = self.start.parts

    @cached_property
    def _others(self) -> NDArray[np.bool_]:
        """(n, k): where a flip would change something, and is allowed to."""
        relabel = self.levers.relabel
        own = (self._targets == 1.0) & (self._targets.sum(axis=1, keepdims=True) == 1.0)
        return ~own & relabel.allowed & (relabel.mask & (self._weights > 0))[:, None]

    @cached_property
    def _free_to_leave(self) -> NDArray[np.bool_]:
        return self.levers.withhold.mask & (self._weights > 0)

    def quotas(self, changes: Changes) -> tuple[int, int]:
        """Return how many flips, and how many leavers, are still allowed."""
        leavers = sum(what == LEAVE for what in changes.values())
        return self.levers.relabel.most - (len(changes) - leavers), self.levers.withhold.most - leavers

    def fills(self, changes: Changes) -> bool:
        """Report whether some changes leave somebody, and no class empty that was not."""
        _, rows, weights = applied(changes, self.start).parts
        if self.regresses:
            return bool(weights.sum() > EMPTY * self._weights.sum())
        left, before = weights @ rows, self._weights @ self._targets
        return bool((left > EMPTY * before.sum())[before > 0].all())

    def now(self, changes: Changes) -> NDArray[np.bool_]:
        """Return (n, k + 1): the single changes that may follow. No class may be left empty."""
        flips, leavers = self.quotas(changes)
        found = np.zeros((len(self._targets), self._targets.shape[1] + 1), dtype=bool)
        if flips > 0:
            found[:, :-1] = self._others
        if leavers > 0:
            found[:, -1] = self._free_to_leave
        found[list(changes)] = False
        _, rows, weights = applied(changes, self.start).parts
        if self.regresses:
            found[weights.sum() - weights <= EMPTY * weights.sum(), -1] = False
            return found
        left = weights @ rows - weights[:, None] * rows <= EMPTY * weights.sum()  # (n, k): empty without this person
        # A flip to class c refills c alone.
        found[:, -1] &= ~left.any(axis=1)
        several = left.sum(axis=1, keepdims=True) - left  # classes other than c that it would leave empty
        found[:, :-1] &= several == 0
        return found

    def batch(self, changes: Changes, liked: list[tuple[int, int]], most: int) -> Changes:
        """Return at most so many further changes, those that are liked best, within the quotas."""
        flips, leavers = self.quotas(changes)
        left, batch = {True: leavers, False: flips}, Changes()
        for person, what in liked:
            if len(batch) >= most:
                break
            if person not in batch and left[what == LEAVE] > 0:
                batch[person] = what
                left[what == LEAVE] -= 1
        return batch


def no_members_ask(problem: Problem) -> None:
    """Refuse members who ask from wherever they move: changes of labels are ranked for who stays where it is."""
    if problem.asked.members is not None:
        raise OptionError("query: members who move with their data can be asked about only where moves are all.")


def shortlist(promised: Array, open_: NDArray[np.bool_], most: int) -> list[tuple[int, int]]:
    """Return the most promising open changes (n, k + 1), best first; ties in the order of people."""
    places = np.flatnonzero(open_)
    values = promised.ravel()[places]
    if places.size > most:
        kept = np.argpartition(values, most - 1)[:most]
        kept.sort()
        places, values = places[kept], values[kept]
    people, columns = np.divmod(places[np.argsort(values, kind="stable")], open_.shape[1])
    whats = np.where(columns == open_.shape[1] - 1, LEAVE, columns)
    return list(zip(people.tolist(), whats.tolist(), strict=True))


class CentroidGround(Ground):
    """People of some classes, moved, whose nearest centroid is asked."""

    exact = True

    def __init__(self, retraining: OwnTraining, start: Contribution) -> None:
        super().__init__(retraining, start)
        problem, features = retraining.problem, retraining.features
        self._offsets = displaced(features, start.moves) - problem.query_features
        self._goal = problem.goal

    def _look(self, changes: Changes) -> tuple[Array, Array, Array, Array]:
        """Return labels (n, k), weights (n,) and classes' sums and totals after some changes; every look counts."""
        self._retraining.refits += 1
        self._retraining.passes += 1
        _, rows, weights = applied(changes, self.start).parts
        shares = weights[:, None] * rows
        return rows, weights, shares.T @ self._offsets, shares.sum(axis=0)

    def loss(self, changes: Changes) -> float:
        """Return the query's loss with these changes; infinite where a class is left empty."""
        _, _, sums, totals = self._look(changes)
        if not (totals > 0).all():
            return np.inf
        distances = np.linalg.norm(sums / totals[:, None], axis=1)
        return float(goal_loss(distances, self._goal))

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) losses after each single change, the last column for leaving."""
        rows, weights, sums, totals = self._look(changes)
        size, classes = rows.shape
        own = rows.argmax(axis=1)
        everyone = np.arange(size)
        safe = np.where(totals > 0, totals, 1.0)
        distances = np.tile(np.linalg.norm(sums / safe[:, None], axis=1), (size, 1))
        # Without person i its own class's mean is elsewhere.
        rest = totals[own] - weights
        weighted = weights[:, None] * self._offsets
        without = (sums[own] - weighted) / np.where(rest > 0, rest, np.nan)[:, None]
        distances[everyone, own] = np.linalg.norm(without, axis=1)
        found = np.empty((size, classes + 1))
        with np.errstate(invalid="ignore"):
            found[:, -1] = goal_loss(distances, self._goal)
            for code in range(classes):
                changed = distances.copy()
                joined = (sums[code] + weighted) / (totals[code] + weights)[:, None]
                changed[:, code] = np.where(own == code, np.nan, np.linalg.norm(joined, axis=1))
                found[:, code] = goal_loss(changed, self._goal)
        return np.where(np.isfinite(found), found, np.inf)


class RefittedGround(Ground):
    """People with some labels (n, k) and moves, on which single changes are tried by true refits."""

    def __init__(self, retraining: OwnTraining, start: Contribution) -> None:
        super().__init__(retraining, start)
        self._losses: dict[frozenset[tuple[int, int]], float] = {}
        self.began = retraining.aimed(start)
        nothing: tuple[frozenset[tuple[int, int]], TrainedRefit | None] = (frozenset(), self.began)
        self._last = self._newest = nothing  # where changes were promised, and the newest refit

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

    def _refit(self, changes: Changes) -> TrainedRefit | None:
        if not changes:
            return self.began
        return self._retraining.aimed(applied(changes, self.start), self._last[1])

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) the loss now plus each change's first-order effect; all equal where there is no signal."""
        key = frozenset(changes.items())
        kept = dict([self._newest, self._last])
        refit = kept[key] if key in kept else self._refit(changes)
        here, retraining, signal = applied(changes, self.start), self._retraining, None
        if refit is not None:
            self._last = key, refit
            signal = retraining.signal(refit)
        if refit is None or signal is None:
            return np.zeros((len(here.parts[1]), here.parts[1].shape[1] + 1))
        effects = first_order(here, lambda rows: retraining.scores(refit, signal, rows), retraining.problem.regresses)
        return refit.loss + effects
