"""The descent from several starts: each gets a few steps, the better half goes on for twice as many, and so on."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Training
from oar.progress import OnStep
from oar.signals.base import Memory, Outcome
from oar.solvers.descent.descent import FAR, DescentEnd, DescentSettings, descend
from oar.solvers.descent.nonmonotone import wandering_search
from oar.solvers.descent.open_ball import open_ball_search
from oar.solvers.descent.single_refit import SingleRefit, point_of
from oar.solvers.feasible.sets import FeasibleSet

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
    """The descent from several starts, which share one deadline.

    Attributes:
        objective: what is lowered.
        feasible: where everyone may go.
        settings: of each descent.
        reached: where the starts that are still of interest have led to, best first.
        steps: accepted steps of all of them.
    """

    def __init__(
        self, objective: SingleRefit, feasible: FeasibleSet, settings: DescentSettings, on_step: OnStep | None = None
    ) -> None:
        self.objective, self.feasible, self.settings, self.on_step = objective, feasible, settings, on_step
        self.reached: list[DescentEnd] = []
        self.steps = 0

    @property
    def training(self) -> Training:
        """The model, bound to people as they stand."""
        return self.objective.training

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() > self.settings.deadline

    def go_on_within(self, feasible: FeasibleSet) -> None:
        """Let whatever comes next be within another feasible set."""
        self.feasible = feasible

    @property
    def best(self) -> DescentEnd:
        """The best place so far."""
        return self.reached[0]

    def begin(self, end: DescentEnd) -> None:
        """Take a place as reached, without a step."""
        self.reached = [end]

    def run(self, start: Start, began: Outcome | None = None) -> None:
        """Give one more start its first steps."""
        moves, longest = start
        most = min(PATIENCE, self.settings.max_steps)
        self.reached.append(self.improved(moves, most, began=began, longest=longest))
        self.reached.sort(key=lambda reached: reached.loss)

    def judged(self, moves: Array, memory: Memory | None, precision: float) -> Outcome:
        """Return what a refit says of some moves, which are no start."""
        return self.objective.outcome(moves, memory, precision)

    def took(self, steps: int) -> None:
        """Count steps that were accepted outside a descent."""
        self.steps += steps

    @property
    def agreed(self) -> bool:
        """Whether several starts have all ended in the same loss, so that more would most likely too."""
        losses = [reached.loss for reached in self.reached]
        return len(losses) >= ENOUGH and losses[-1] - losses[0] <= SAME * abs(losses[0])

    def improved(
        self,
        start: Array,
        most: int,
        feasible: FeasibleSet | None = None,
        began: Outcome | None = None,
        longest: float = FAR,
    ) -> DescentEnd:
        """Descend from one place, within everyone's limits or others."""
        within, settings = feasible or self.feasible, replace(self.settings, max_steps=most, longest=longest)
        first = None if began is None else point_of(within.project(start), began)
        found = descend(self.objective, within, start, settings, self.on_step, first)
        self.took(found.steps)
        return found

    @property
    def opens(self) -> bool:
        """Whether everyone's limits are balls that can be opened."""
        return self.feasible.is_ball and self.feasible.norm.p in OPENED

    def open_ball(self, start: Array | None = None) -> Array:
        """Return moves found by quasi-Newton steps in the opened ball."""
        most = min(OPEN_STEPS, self.settings.max_steps)
        moves, steps = open_ball_search(self.objective, self.feasible, most, self.settings.deadline, start)
        self.took(steps)
        return moves

    def wandered(self, start: Array, respond: bool = False) -> Array:
        """Return moves found by projected gradients that may climb a little; with `respond`, from the full response."""
        most = min(WANDERING_STEPS, self.settings.max_steps)
        moves, steps = wandering_search(self.objective, self.feasible, most, self.settings.deadline, start, respond)
        self.took(steps)
        return moves

    def carried_on(self) -> None:
        """Go on from the better half, for twice as many steps each time, until they are done or steps run out."""
        taken = more = PATIENCE
        while taken < self.settings.max_steps and any(reached.ended == "steps" for reached in self.reached):
            more = min(2 * more, self.settings.max_steps - taken)
            half = self.reached[: -(-len(self.reached) // 2)]
            self.reached = [self._further(one, more) if one.ended == "steps" else one for one in half]
            self.reached.sort(key=lambda reached: reached.loss)
            taken += more

    def _further(self, one: DescentEnd, more: int) -> DescentEnd:
        """Go on from one place; a start that creeps has ended, as it does where the loss has kinks."""
        found = self.improved(one.moves, more)
        gained = one.loss - found.loss
        creeps = found.ended == "steps" and gained <= WORTH_IT * abs(one.loss)
        return replace(found, ended="creeps") if creeps else found
