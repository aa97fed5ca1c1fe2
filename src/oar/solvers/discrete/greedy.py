"""Greedy choice of labels to flip and members to leave, with exchanges; a true refit tests every step.

    add        try the changes that promise most, refit for each, keep the best if the loss falls
    exchange   undo one change, or undo one and make another, while that lowers the loss; two, while there are few
    batch      once many refits are spent: many of the most promising changes, one refit for each batch; twice as many
               as long as the loss falls by most of what they promised

Changes that would have to do far better than they promise are not tried.

The search is repeated from the change that is next best on its own: two may be good together where none is alone. After
a few changes only the best of these searches goes on.

Exchanges follow every addition, not only the last. So what is done for m changes is the beginning of what is done for
m + 1, and as no step ever raises the loss, a larger limit on one lever is never worse. That holds until refits run
short: a batch that is cut off by the limit need not be as good as a shorter one.

Choosing m people of n is a combinatorial problem, and none of this is proved to be optimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array
from oar.progress import OnStep, is_late, silent
from oar.solvers.discrete.ground import Changes, Ground, OpenChanges, shortlist
from oar.tolerances import FALLS

MOST_UNDONE = 8  # changes that an exchange tries to do without, the least useful first
FEW = 6  # changes up to which pairs of them are exchanged
FEWER = 4  # an exchange tries a shortlist so many times shorter
BATCH = 8  # a first batch is one in so many of what has been done
KEPT = 0.5  # of what a batch promised: if the loss falls by that, the next one is twice as large
BETTER = 3.0  # times its promise: no change is expected to do better than that
ANYWAY = 4  # one in so many of a shortlist is tried whatever it promises; all of one that holds every open change
DONE = 1e-6  # of the loss at first: what is left above the least possible loss is not worth a refit


@dataclass(frozen=True)
class Effort:
    """The amount of search."""

    refits: int  # of one search before it makes changes in batches
    shortlist: int  # changes that a step tries
    starts: int = 2  # first changes from which the search is repeated


@dataclass(frozen=True, eq=False)
class LeverSearchEnd:
    """The end of the search: the changes, the true loss, and whether it ended because no change helped any more."""

    changes: Changes
    loss: float
    finished: bool


class LeverSearch:
    """Greedy additions and exchanges on one ground."""

    def __init__(
        self, ground: Ground, open_: OpenChanges, effort: Effort, on_step: OnStep = silent, least: float = -np.inf
    ) -> None:
        """Begin to count refits; no loss can be below `least`."""
        self._ground, self._open, self._effort, self._on_step = ground, open_, effort, on_step
        self._began, self._enough = ground.refits, least + DONE * abs(ground.loss({}))

    @property
    def _left(self) -> int:
        """Refits that may still be spent."""
        return 0 if is_late() else self._effort.refits - (self._ground.refits - self._began)

    def run(self) -> LeverSearchEnd:
        """Return where the best of the searches from the best first changes ends."""
        best = self._from({}, self._ground.loss({}), few=True)
        open_, many = self._open.now({}), max(self._effort.shortlist, self._effort.starts)
        singles = [{person: what} for person, what in shortlist(self._ground.promised({}), open_, many)]
        for first in sorted(singles, key=self._ground.loss)[bool(best.changes) : self._effort.starts]:
            self._began = self._ground.refits
            found = self._from(first, self._ground.loss(first), few=True)
            best = min(best, found, key=lambda pulled: pulled.loss)
        return self._from(best.changes, best.loss)

    def refined(self, start: Changes) -> LeverSearchEnd:
        """Exchange and add from some changes."""
        return self._from(*self._exchanged(dict(start), self._ground.loss(start)))

    def _from(self, changes: Changes, loss: float, few: bool = False) -> LeverSearchEnd:
        """Add and exchange from some changes until the limits are reached or nothing helps, or until there are FEW."""
        while self._left > 0:
            if few and len(changes) >= FEW:
                return LeverSearchEnd(changes, loss, False)
            open_ = self._open.now(changes)
            if loss <= self._enough or not open_.any():
                return LeverSearchEnd(changes, loss, True)
            more, least = self._best(changes, self._ground.promised(changes), open_, self._effort.shortlist, loss)
            if not falls(loss, least):
                return LeverSearchEnd(changes, loss, True)
            changes, loss = self._exchanged(more, least)
            self._on_step(len(changes), loss, np.inf)
        return LeverSearchEnd(changes, loss, False) if few else self._in_batches(changes, loss)

    def _best(
        self, changes: Changes, promised: Array, open_: NDArray[np.bool_], most: int, now: float, below: float = np.inf
    ) -> tuple[Changes, float]:
        """Return the best of the most promising changes on top of some others, by true refits.

        `now` is the loss where they were promised; those that cannot be expected to end `below` a loss are left out.
        """
        best, least = changes, np.inf
        anyway = most if np.count_nonzero(open_) <= most else most // ANYWAY
        for number, (person, what) in enumerate(shortlist(promised, open_, 1 if self._ground.exact else most)):
            hoped = BETTER * (now - promised[person, what])
            if number > anyway and self._ground.loss(changes) - hoped > min(below, least):
                break
            trial = changes | {person: what}
            loss = self._ground.loss(trial)
            if loss < least:
                best, least = trial, loss
        return best, least

    def _exchanged(self, changes: Changes, loss: float) -> tuple[Changes, float]:
        """Undo one change, or undo one and make another, as long as that helps and refits last."""
        while 0 < len(changes) <= self._left:  # it takes a refit to do without each of them
            better = self._exchange(changes, loss) or self._exchange_two(changes, loss)
            if better is None:
                break
            changes, loss = better
        return changes, loss

    def _exchange(self, changes: Changes, loss: float) -> tuple[Changes, float] | None:
        without = [{one: what for one, what in changes.items() if one != person} for person in changes]
        losses = [self._ground.loss(rest) for rest in without]
        useless = int(np.argmin(losses))
        if falls(loss, losses[useless]):
            return without[useless], losses[useless]
        exact, people = self._ground.exact, list(changes)
        here = np.zeros(0) if exact else self._ground.promised(changes)
        most = max(1, self._effort.shortlist // FEWER)
        for place in np.argsort(losses, kind="stable")[: None if exact else MOST_UNDONE]:
            if self._left <= 0:
                return None
            rest, person = without[place], people[place]
            open_ = self._open.now(rest)
            open_[person, changes[person]] = False
            expected, now = (self._ground.promised(rest), losses[place]) if exact else (here, loss)
            found, least = self._best(rest, expected, open_, most, now, loss)
            if falls(loss, least):
                return found, least
        return None

    def _exchange_two(self, changes: Changes, loss: float) -> tuple[Changes, float] | None:
        """Undo two changes and make two others; some pairs are only good together."""
        most = max(1, self._effort.shortlist // FEWER)
        for pair in combinations(changes, 2) if len(changes) <= FEW else ():
            if self._left <= 0:
                return None
            rest = {one: what for one, what in changes.items() if one not in pair}
            open_ = self._open.now(rest)
            for one in pair:
                open_[one, changes[one]] = False
            found, least = self._best(rest, self._ground.promised(rest), open_, most, self._ground.loss(rest))
            if len(found) == len(rest):
                continue
            found, least = self._best(found, self._ground.promised(found), self._open.now(found), most, least, loss)
            if falls(loss, least):
                return found, least
        return None

    def _in_batches(self, changes: Changes, loss: float) -> LeverSearchEnd:
        """Go on with one refit for several changes; a batch that does not help is halved."""
        most = max(1, len(changes) // BATCH)
        while most and loss > self._enough:
            open_ = self._open.now(changes)
            if not open_.any():
                break
            promised = self._ground.promised(changes)
            liked = shortlist(promised, open_, (sum(self._open.quotas(changes)) + most) * open_.shape[1])
            while most:
                batch = self._open.batch(changes, liked, most)
                least = self._ground.loss(changes | batch)
                if falls(loss, least):
                    break
                most //= 2
            if most:
                hoped = sum(loss - float(promised[person, what]) for person, what in batch.items())
                most *= 2 if loss - least >= KEPT * hoped else 1
                changes, loss = changes | batch, least
                self._on_step(len(changes), loss, np.inf)
        return LeverSearchEnd(changes, loss, loss <= self._enough)


def falls(loss: float, other: float) -> bool:
    """Report whether another loss is seen to be lower."""
    return other < loss - FALLS * max(abs(loss), FALLS)
