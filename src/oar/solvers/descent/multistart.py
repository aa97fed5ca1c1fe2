"""The loop from several starts: each gets a few steps, the better half goes on for twice as many, and so on."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Training
from oar.progress import OnStep
from oar.signals import Signal
from oar.signals.base import Outcome
from oar.solvers.descent.loop import FAR, LoopEnd, LoopSettings, improve
from oar.solvers.descent.nonmonotone import wandering_search
from oar.solvers.descent.open_ball import open_ball_search
from oar.solvers.feasible.balls import FeasibleBalls
from oar.solvers.feasible.regions import FeasibleSet

Array = NDArray[np.float64]
OPENED = (2, np.inf)  # norms whose balls can be opened
PATIENCE = 60  # steps for each start; a first start that is not done by then has a large budget
OPEN_STEPS, WANDERING_STEPS = 100, 250
ENOUGH, SAME = 14, 1e-6  # starts that all end within this share of the least loss agree
WORTH_IT = 1e-6  # of the loss: what going on must gain to be followed by more
SLOWLY = 1.0  # budgets: the longest first step of all starts but the first


class Start(NamedTuple):
    """Moves (n + 1, d) to start from, and the longest first step from there, in budgets."""

    moves: Array
    longest: float = SLOWLY


class Search:
    """The loop from several starts, which share one deadline.

    Attributes:
        reached: where the starts that are still of interest have led to, best first.
        steps: accepted steps of all of them.
    """

    def __init__(
        self, asked: tuple[Training, Signal, Array, Array, FeasibleSet], loop: LoopSettings, on_step: OnStep | None
    ) -> None:
        self.asked, self.loop, self.on_step, self.steps = asked, loop, on_step, 0
        self.training, _, _, _, self.limits = asked
        self.reached: list[LoopEnd] = []

    @property
    def best(self) -> LoopEnd:
        """The best place so far."""
        return self.reached[0]

    def run(self, start: Start, began: Outcome | None = None) -> None:
        """Give one more start its first steps."""
        moves, longest = start
        most = min(PATIENCE, self.loop.max_steps)
        self.reached.append(self.improved(moves, most, began=began, longest=longest))
        self.reached.sort(key=lambda reached: reached.step.loss)

    @property
    def agreed(self) -> bool:
        """Whether several starts have all ended in the same loss, so that more would most likely too."""
        losses = [reached.step.loss for reached in self.reached]
        return len(losses) >= ENOUGH and losses[-1] - losses[0] <= SAME * abs(losses[0])

    def improved(
        self,
        start: Array,
        most: int,
        limits: FeasibleSet | None = None,
        began: Outcome | None = None,
        longest: float = FAR,
    ) -> LoopEnd:
        """Run the loop from one place, within everyone's limits or others."""
        asked, loop = self.asked[:-1], replace(self.loop, max_steps=most, longest=longest)
        found = improve(*asked, limits or self.limits, start, loop, self.on_step, began)
        self.steps += found.steps
        return found

    @property
    def opens(self) -> bool:
        """Whether everyone's limits are balls that can be opened."""
        return isinstance(self.limits, FeasibleBalls) and self.limits.norm.p in OPENED

    def open_ball(self, start: Array | None = None) -> Array:
        """Return moves found by quasi-Newton steps in the opened ball."""
        most = min(OPEN_STEPS, self.loop.max_steps)
        moves, steps = open_ball_search(*self.asked, most, self.loop.deadline, start)
        self.steps += steps
        return moves

    def wandered(self, start: Array, respond: bool = False) -> Array:
        """Return moves found by projected gradients that may climb a little; with `respond`, from the full response."""
        most = min(WANDERING_STEPS, self.loop.max_steps)
        moves, steps = wandering_search(*self.asked, most, self.loop.deadline, start, respond)
        self.steps += steps
        return moves

    def carried_on(self) -> None:
        """Go on from the better half, for twice as many steps each time, until they are done or steps run out."""
        taken = more = PATIENCE
        while taken < self.loop.max_steps and any(reached.ended == "steps" for reached in self.reached):
            more = min(2 * more, self.loop.max_steps - taken)
            half = self.reached[: -(-len(self.reached) // 2)]
            self.reached = [self._further(one, more) if one.ended == "steps" else one for one in half]
            self.reached.sort(key=lambda reached: reached.step.loss)
            taken += more

    def _further(self, one: LoopEnd, more: int) -> LoopEnd:
        """Go on from one place; a start that creeps has ended, as it does where the loss has kinks."""
        found = self.improved(one.moves, more)
        gained = one.step.loss - found.step.loss
        creeps = found.ended == "steps" and gained <= WORTH_IT * abs(one.step.loss)
        return replace(found, ended="creeps") if creeps else found
