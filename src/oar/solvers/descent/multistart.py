"""The descent from several starts: each gets a few steps, the better half goes on for twice as many, and so on.

A start is made by a `StartMaker`, a function of what other starts have led to so far: it is handed a `History`, which
never changes, and returns starts. Makers are asked one after the other; only `Multistart` keeps what was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array
from oar.solvers.descent.descent import SLOWLY, DescentEnd, DescentProblem, LossPoint

PATIENCE = 60  # steps for each start; a first start that is not done by then has a large budget
ENOUGH, SAME = 14, 1e-6  # starts that all end within this share of the least loss agree
WORTH_IT = 1e-6  # of the loss: what going on must gain to be followed by more
PAYS = 1e-3  # of the loss: what a random start must gain to be followed by others without end
PRECISION = 1e-8  # of refits that say whether a start is worth a descent


@dataclass(frozen=True, eq=False)
class History:
    """The history of starts: places still of interest, best first, and the kind of start that led to the best."""

    reached: tuple[DescentEnd, ...] = ()
    best_kind: str = ""

    @property
    def best(self) -> DescentEnd:
        """The best place so far."""
        return self.reached[0]

    @property
    def agreed(self) -> bool:
        """Whether several starts have all ended in the same loss, so that more would most likely too."""
        losses = [end.loss for end in self.reached]
        return len(losses) >= ENOUGH and losses[-1] - losses[0] <= SAME * abs(losses[0])

    def then(self, end: DescentEnd, kind: str = "") -> History:
        """Return the history with one more place; of equal losses the first counts."""
        reached = _best_first((*self.reached, end))
        return History(reached, kind if reached[0] is end else self.best_kind)


@dataclass(frozen=True, eq=False)
class Start:
    """A place to start from, and what it took to find it.

    Attributes:
        moves: (n + 1, d).
        longest: the longest first step from there, in budgets.
        began: the point there, where it is known.
        steps: accepted steps that it took to find these moves.
        only_better: whether it counts only where a refit there says less than the least loss so far.
        kind: a name by which other makers know the start that led to the best place.
        followed: the maker to be asked at once where this start leads to the best place so far.
    """

    moves: Array
    longest: float = SLOWLY
    began: LossPoint | None = None
    steps: int = 0
    only_better: bool = False
    kind: str = ""
    followed: Callable[[History], Iterable[Start]] = lambda history: ()


StartMaker = Callable[[History], Iterable[Start]]
"""A function that makes starts from a history alone, all at once or as they are run; none where nothing suits."""


class Multistart:
    """Descents from several starts: what they have led to, and the steps of all, finding where to start included."""

    def __init__(self, problem: DescentProblem, least: float = -np.inf) -> None:
        """`least` is a loss than which none can be less."""
        self.problem, self.history, self.steps, self._least = problem, History(), 0, least

    @property
    def best(self) -> DescentEnd:
        """The best place so far."""
        return self.history.best

    def run(self, start: Start) -> None:
        """Give one more start its first steps."""
        self.steps += start.steps
        end = self.problem.improved(start.moves, PATIENCE, start.began, start.longest)
        self.steps += end.steps
        self.history = self.history.then(end, start.kind)

    def run_all(self, makers: Iterable[StartMaker], patience: float = np.inf) -> bool:
        """Ask one maker after the other, and run its starts; return False once no loss can be less.

        None is asked after so many in a row that led to next to nothing.
        """
        idle = 0
        for maker in makers:
            before = self.best.loss
            if not self._asked(maker):
                return False
            idle = 0 if self.best.loss < before - PAYS * abs(before) else idle + 1
            if idle >= patience:
                break
        return True

    def _asked(self, maker: StartMaker) -> bool:
        judged = self.problem.objective.outcome
        with suppress(NumericsError):  # where a start cannot be made, or not be refitted, others stand
            for start in maker(self.history):
                before = self.best
                with suppress(NumericsError):
                    if start.only_better and not judged(start.moves, None, PRECISION).loss < before.loss:
                        continue
                    self.run(start)
                if self.best.loss <= self._least or (self.best is not before and not self._asked(start.followed)):
                    return False
        return True

    def carry_on(self) -> None:
        """Go on from the better half, for twice as many steps each time, until they are done or steps run out."""
        taken = more = PATIENCE
        while taken < self.problem.settings.max_steps and any(end.ended == "steps" for end in self.history.reached):
            more = min(2 * more, self.problem.settings.max_steps - taken)
            half = self.history.reached[: -(-len(self.history.reached) // 2)]
            further = [self._further(end, more) if end.ended == "steps" else end for end in half]
            self.history = replace(self.history, reached=_best_first(further))
            taken += more

    def _further(self, end: DescentEnd, more: int) -> DescentEnd:
        """Go on from one place; a start that creeps has ended, as it does where the loss has kinks."""
        found = self.problem.improved(end.moves, more)
        self.steps += found.steps
        gained = end.loss - found.loss
        creeps = found.ended == "steps" and gained <= WORTH_IT * abs(end.loss)
        return replace(found, ended="creeps") if creeps else found


def _best_first(ends: Iterable[DescentEnd]) -> tuple[DescentEnd, ...]:
    return tuple(sorted(ends, key=lambda end: end.loss))
